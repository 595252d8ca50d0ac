-- `live` (Arrow: source_id): the ids of a census. `later` (Arrow: source_id, is_live, sequence): what the batches that
-- the snapshot lacks say. The newest batch that says something of an id decides whether we hold it as live.
WITH
    held AS (
        SELECT source_id, deleted_at IS NULL AS is_live, 0 AS sequence
        FROM snapshot.records
        WHERE source = $1 AND scope = $2
        UNION ALL
        FROM later
    ),
    known AS (SELECT source_id, arg_max(is_live, sequence) AS is_live FROM held GROUP BY source_id),
    found AS (SELECT DISTINCT source_id FROM live),
    compared AS (
        SELECT
            coalesce(found.source_id, known.source_id) AS source_id,
            found.source_id IS NOT NULL AS is_found,
            known.is_live AS is_held
        FROM known FULL JOIN found ON known.source_id = found.source_id
    )
SELECT
    count(*) FILTER (is_found) AS live_count,
    count(*) FILTER (is_held) AS known_count,
    coalesce(list(source_id ORDER BY source_id) FILTER (NOT is_found AND is_held), []) AS missing,
    coalesce(list(source_id ORDER BY source_id) FILTER (is_found AND is_held IS NULL), []) AS unknown,
    coalesce(list(source_id ORDER BY source_id) FILTER (is_found AND NOT is_held), []) AS back
FROM compared;
