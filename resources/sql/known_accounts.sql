SELECT DISTINCT account FROM snapshot.loaded_batches WHERE source = $1 AND scope = $2 AND sequence > $3;
