SELECT coalesce(max(sequence), 0) FROM snapshot.loaded_batches WHERE source = $1 AND scope = $2;
