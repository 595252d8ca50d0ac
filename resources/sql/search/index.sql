-- Into the index: `new_postings` and `new_lengths` (Arrow, resources/postings.py) of the texts in `piece`.
INSERT INTO fts.postings SELECT termid, docid, tf, title_tf, dl, positions FROM new_postings;

CREATE OR REPLACE TEMP TABLE keyed AS
SELECT p.docid, l.dl, ('0x' || left(p.text_hash, 16))::UBIGINT AS text_key
FROM piece AS p JOIN new_lengths AS l ON l.docid = p.docid;

-- The same text as one that is there, or twice among the new ones.
INSERT INTO fts.twins
WITH
    shared AS (
        SELECT text_key, count(*) AS count FROM keyed GROUP BY text_key
    ),
    there AS (
        SELECT l.docid, l.text_key FROM fts.lengths AS l JOIN shared AS s ON s.text_key = l.text_key
    )
SELECT docid, text_key FROM there ANTI JOIN fts.twins USING (docid)
UNION ALL
SELECT k.docid, k.text_key
FROM keyed AS k JOIN shared AS s ON s.text_key = k.text_key
WHERE s.count > 1 OR k.text_key IN (SELECT text_key FROM there);

UPDATE fts.state SET
    next_docid = greatest(next_docid, coalesce((SELECT max(docid) + 1 FROM keyed), 0)),
    docs_count = docs_count + (SELECT count(*) FROM keyed),
    total_len = total_len + coalesce((SELECT sum(dl) FROM keyed), 0),
    runs_count = runs_count + 1;
INSERT INTO fts.lengths FROM keyed;

-- What is temporary is in memory.
DROP TABLE run_units;
DROP TABLE unit_parts;
DROP TABLE new_words;
DROP TABLE keyed;
