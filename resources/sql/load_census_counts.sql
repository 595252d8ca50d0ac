SELECT batch_id, 0, sum(updated), sum(tombstoned), 0
FROM (
    SELECT batch_id, 1 AS updated, 0 AS tombstoned FROM back
    UNION ALL
    SELECT batch_id, 0, 1 FROM gone
)
GROUP BY batch_id;
