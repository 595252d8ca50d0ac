SELECT source_id, deleted_at IS NULL AS is_live FROM snapshot.records WHERE source = $1 AND scope = $2;
