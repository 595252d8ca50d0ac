SELECT source, scope, max(sequence) FROM loaded_batches GROUP BY source, scope;
