-- What each batch of this load did.
SELECT batch_id, sum(created), sum(updated), sum(tombstoned), sum(rejected)
FROM (
    SELECT batch_id, (NOT is_update)::INT AS created, is_update::INT AS updated, 0 AS tombstoned, 0 AS rejected FROM changed
    UNION ALL
    SELECT batch_id, 0, 0, 1, 0 FROM orphaned
    UNION ALL
    SELECT batch_id, 0, 0, 0, 1 FROM refused
)
GROUP BY batch_id;
