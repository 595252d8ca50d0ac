-- Once for each time that a token stands in a run.
SELECT r.run_id, w.termid
FROM run_units AS r JOIN unit_parts AS u ON u.unit = r.unit JOIN fts.words AS w ON w.word = u.part;
