SELECT source, scope, missing_count, census_reason FROM sync_status WHERE is_census_held ORDER BY source, scope;
