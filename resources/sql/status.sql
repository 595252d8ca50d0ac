SELECT
    source, scope, live_count, tombstoned_count, rejected_count, upstream_count, is_caught_up,
    CASE WHEN is_census_held THEN census_reason END, last_batch_at
FROM sync_status;
