-- The newest batch that says something of an id decides whether we hold it as live.
WITH
    known AS (SELECT source_id, arg_max(is_live, sequence) AS is_live FROM held GROUP BY source_id),
    found AS (SELECT DISTINCT source_id FROM live)
SELECT
    CASE WHEN found.source_id IS NULL THEN 'missing' WHEN known.source_id IS NULL THEN 'unknown' ELSE 'back' END AS kind,
    coalesce(found.source_id, known.source_id) AS source_id
FROM known FULL JOIN found ON known.source_id = found.source_id
WHERE
    (found.source_id IS NULL AND known.is_live)
    OR known.source_id IS NULL
    OR (found.source_id IS NOT NULL AND NOT known.is_live)
ORDER BY source_id;
