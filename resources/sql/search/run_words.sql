SELECT fts.has_word(run) AS has_word FROM runs ORDER BY run_id;
