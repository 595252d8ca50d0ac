CREATE OR REPLACE TEMP TABLE replaced AS SELECT docid FROM fts.dead WHERE false;

CREATE OR REPLACE TEMP TABLE texts AS
SELECT docid, title, content, text_hash
FROM document_versions
WHERE valid_to IS NULL AND docid BETWEEN $1 AND $2;
