-- `verdicts` (Arrow): source, scope, source_id, verdict, batch_id, written_at. One census per scope.

CREATE OR REPLACE TEMP TABLE gone AS
SELECT v.doc_id, g.written_at, g.batch_id
FROM document_versions AS v
JOIN verdicts AS g ON g.source = v.source AND g.scope = v.scope AND g.source_id = v.record_id
WHERE g.verdict = 'gone' AND v.valid_to IS NULL AND v.deleted_at IS NULL;

UPDATE document_versions AS v
SET deleted_at = g.written_at, deletion_reason = 'census'
FROM gone AS g
WHERE v.valid_to IS NULL AND v.doc_id = g.doc_id;

DELETE FROM rejects AS x
USING verdicts AS g
WHERE g.verdict = 'gone' AND x.source = g.source AND x.scope = g.scope AND x.source_id = g.source_id;

-- Live again, and the connector cannot fetch it singly: the tombstoned form is valid again, as a version of its own.
CREATE OR REPLACE TEMP TABLE back AS
SELECT v.* REPLACE (
    greatest(b.written_at, v.valid_from) AS valid_from,
    NULL AS deleted_at, NULL AS deletion_reason, b.batch_id AS batch_id
)
FROM document_versions AS v
JOIN verdicts AS b ON b.source = v.source AND b.scope = v.scope AND b.source_id = v.record_id
WHERE b.verdict = 'back' AND v.valid_to IS NULL AND v.deletion_reason = 'census';

UPDATE document_versions AS v
SET valid_to = b.valid_from
FROM back AS b
WHERE v.valid_to IS NULL AND v.doc_id = b.doc_id;

INSERT INTO document_versions FROM back;

UPDATE records AS k
SET deleted_at = CASE WHEN g.verdict = 'gone' THEN g.written_at END
FROM verdicts AS g
WHERE g.verdict IN ('gone', 'back') AND k.source = g.source AND k.scope = g.scope AND k.source_id = g.source_id;
