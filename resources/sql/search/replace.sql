-- Texts that others took the place of (`replaced`: docid) do not count any more.
UPDATE fts.state SET
    docs_count = docs_count - (SELECT count(*) FROM replaced),
    total_len = total_len
        - coalesce((SELECT sum(l.dl) FROM fts.lengths AS l JOIN replaced AS r ON r.docid = l.docid), 0);
INSERT INTO fts.dead FROM replaced;
DROP TABLE texts;
DROP TABLE replaced;
