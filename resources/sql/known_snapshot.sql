INSERT INTO held SELECT source_id, deleted_at IS NULL, 0 FROM snapshot.records WHERE source = $1 AND scope = $2;
