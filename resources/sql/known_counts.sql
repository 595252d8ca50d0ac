SELECT
    (SELECT count(DISTINCT source_id) FROM live),
    (SELECT count(*) FROM (SELECT source_id FROM held GROUP BY source_id HAVING arg_max(is_live, sequence)));
