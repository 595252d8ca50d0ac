-- Empty the index, but for its numbers: they are never used again.
DELETE FROM fts.postings;
DELETE FROM fts.terms;
DELETE FROM fts.words;
DELETE FROM fts.lengths;
DELETE FROM fts.twins;
DELETE FROM fts.dead;
UPDATE fts.state SET docs_count = 0, total_len = 0, merged_count = 0, runs_count = 0;
