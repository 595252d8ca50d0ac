-- Leave out what is dead, and sort: a query then reads few places.
CREATE OR REPLACE TABLE fts.postings AS
SELECT p.* FROM fts.postings AS p ANTI JOIN fts.dead AS x ON x.docid = p.docid ORDER BY p.termid, p.docid;
CREATE OR REPLACE TABLE fts.words AS FROM fts.words ORDER BY word;
CREATE OR REPLACE TABLE fts.lengths AS
SELECT l.* FROM fts.lengths AS l ANTI JOIN fts.dead AS x ON x.docid = l.docid ORDER BY l.docid;
CREATE OR REPLACE TABLE fts.twins AS
SELECT docid, text_key FROM fts.lengths QUALIFY count(*) OVER (PARTITION BY text_key) > 1;
DELETE FROM fts.dead;
UPDATE fts.state SET merged_count = (SELECT count(*) FROM fts.postings), runs_count = 0;
