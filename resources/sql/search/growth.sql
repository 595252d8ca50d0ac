-- Pieces and postings since the last merge, all of them, texts that are dead, and texts that are not.
SELECT
    runs_count,
    (SELECT count(*) FROM fts.postings) - merged_count,
    (SELECT count(*) FROM fts.postings),
    (SELECT count(*) FROM fts.dead),
    docs_count
FROM fts.state;
