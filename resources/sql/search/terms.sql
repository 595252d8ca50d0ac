-- The tokens of `runs` (Arrow: run_id, run), and of each form that was never seen the number it has from now on.
CREATE OR REPLACE TEMP TABLE run_units AS
SELECT run_id, unnest(CASE WHEN regexp_full_match(run, '[a-z]+') THEN [run] ELSE fts.units(fts.folded(run)) END) AS unit
FROM runs;

CREATE OR REPLACE TEMP TABLE unit_parts AS
SELECT unit, unnest(fts.parts(unit)) AS part FROM (SELECT DISTINCT unit FROM run_units);

CREATE OR REPLACE TEMP TABLE new_words AS
SELECT u.part AS word, fts.token(u.part) AS term
FROM (SELECT DISTINCT part FROM unit_parts) AS u
ANTI JOIN fts.words AS w ON w.word = u.part;

INSERT INTO fts.terms
SELECT (SELECT next_termid FROM fts.state) + row_number() OVER (ORDER BY n.term) - 1, n.term
FROM (SELECT DISTINCT term FROM new_words) AS n
ANTI JOIN fts.terms AS t ON t.term = n.term;

INSERT INTO fts.words
SELECT n.word, t.termid FROM new_words AS n JOIN fts.terms AS t ON t.term = n.term ORDER BY n.word;

UPDATE fts.state SET next_termid = next_termid + (SELECT count(*) FROM fts.terms WHERE termid >= next_termid);
