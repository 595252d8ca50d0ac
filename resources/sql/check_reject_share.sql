SELECT source, scope, rejected_count, live_records_count
FROM sync_status
WHERE rejected_count > $1 * greatest(live_records_count, 1)
ORDER BY source, scope;
