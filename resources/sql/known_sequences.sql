SELECT source, scope, max(sequence) FROM snapshot.loaded_batches GROUP BY source, scope;
