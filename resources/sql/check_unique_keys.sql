-- Nothing but the load's construction keeps these unique: there is no key that would cost every insert.
SELECT 'document_versions' AS table_name, doc_id AS key, count(*) AS rows_count
FROM document_versions WHERE valid_to IS NULL GROUP BY doc_id HAVING count(*) > 1
UNION ALL
SELECT 'records', source || ':' || scope || ':' || source_id, count(*)
FROM records GROUP BY source, scope, source_id HAVING count(*) > 1
UNION ALL
SELECT 'rejects', source || ':' || scope || ':' || source_id, count(*)
FROM rejects GROUP BY source, scope, source_id HAVING count(*) > 1
UNION ALL
SELECT 'loaded_batches', batch_id, count(*)
FROM loaded_batches GROUP BY batch_id HAVING count(*) > 1
LIMIT 20;
