-- The index, beside the tables and macros of DuckDB's own full-text extension (schema fts_main_documents, made once on
-- an empty table), which read it through views: its match_bm25 gives the scores that search() gives.
-- Everything here is made from document_versions, and can be made again from it.
CREATE SCHEMA IF NOT EXISTS fts;

CREATE TABLE fts.postings (
    termid INTEGER, docid INTEGER, tf INTEGER, title_tf INTEGER, dl INTEGER, positions INTEGER[]
);
CREATE TABLE fts.terms (termid INTEGER, term VARCHAR);
CREATE TABLE fts.words (word VARCHAR, termid INTEGER);
CREATE TABLE fts.lengths (docid INTEGER, dl INTEGER, text_key UBIGINT);
CREATE TABLE fts.twins (docid INTEGER, text_key UBIGINT);
CREATE TABLE fts.dead (docid INTEGER);
CREATE TABLE fts.state (
    tokenizer_version INTEGER, next_docid INTEGER, next_termid INTEGER,
    docs_count BIGINT, total_len BIGINT, merged_count BIGINT, runs_count INTEGER
);
INSERT INTO fts.state VALUES (0, 0, 0, 0, 0, 0, 0);

DROP TABLE fts_main_documents.docs;
DROP TABLE fts_main_documents.terms;
DROP TABLE fts_main_documents.dict;
DROP TABLE fts_main_documents.stats;
CREATE VIEW fts_main_documents.docs AS
SELECT v.docid::BIGINT AS docid, v.doc_id AS name, l.dl::BIGINT AS len
FROM document_versions AS v JOIN fts.lengths AS l ON l.docid = v.docid
WHERE v.valid_to IS NULL;
CREATE VIEW fts_main_documents.dict AS
SELECT t.termid::BIGINT AS termid, t.term, count(*) AS df
FROM fts.terms AS t JOIN fts.postings AS p ON p.termid = t.termid ANTI JOIN fts.dead AS x ON x.docid = p.docid
GROUP BY t.termid, t.term;
CREATE VIEW fts_main_documents.stats AS
SELECT docs_count AS num_docs, total_len / docs_count AS avgdl FROM fts.state;
CREATE VIEW fts_main_documents.terms AS
SELECT
    p.docid::BIGINT AS docid,
    unnest(list_concat(list_transform(range(3 * p.title_tf), lambda n: 0), list_transform(range(p.tf - 3 * p.title_tf), lambda n: 1)))::BIGINT AS fieldid,
    p.termid::BIGINT AS termid
FROM fts.postings AS p ANTI JOIN fts.dead AS x ON x.docid = p.docid;
