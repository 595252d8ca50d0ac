-- `incoming` (Arrow, schema.DOCUMENT): what the fresh records own, valid, one row per doc_id.
-- `refused` (Arrow, schema.REJECT): the fresh records that were refused, whole or in part.

-- What the joins need of them: each scan of an Arrow table has its price, whatever it reads.
CREATE OR REPLACE TEMP TABLE incoming_keys AS
SELECT
    doc_id, record_id, source, scope, content_hash, updated_at, title, text_hash,
    content IN ('', title) AS is_short -- then the text_hash does not tell one of them from the other
FROM incoming;

-- The current forms that this load touches: those of the same documents, and those of the same records.
CREATE OR REPLACE TEMP TABLE touched AS
SELECT
    v.doc_id, v.record_id, v.source, v.scope, v.content_hash, v.valid_from, v.updated_at, v.deleted_at,
    v.docid, v.title, v.text_hash
FROM document_versions AS v
WHERE v.valid_to IS NULL AND v.doc_id IN (SELECT doc_id FROM incoming_keys)
UNION
SELECT
    v.doc_id, v.record_id, v.source, v.scope, v.content_hash, v.valid_from, v.updated_at, v.deleted_at,
    v.docid, v.title, v.text_hash
FROM document_versions AS v
JOIN fresh_records AS r ON r.source = v.source AND r.scope = v.scope AND r.source_id = v.record_id
WHERE r.is_known AND v.valid_to IS NULL;

-- A new form: no current form, another content, or back from a tombstone. A clock that was set back must not make a
-- form valid before the one that it replaces.
CREATE OR REPLACE TEMP TABLE changed AS
SELECT
    i.doc_id,
    t.doc_id IS NOT NULL AS is_update,
    greatest(r.fetched_at, t.valid_from) AS valid_from,
    r.batch_id,
    t.docid AS old_docid,
    t.docid IS NULL OR t.title <> i.title OR t.text_hash <> i.text_hash OR i.is_short AS is_new_text
FROM incoming_keys AS i
JOIN fresh_records AS r ON r.source = i.source AND r.scope = i.scope AND r.source_id = i.record_id
LEFT JOIN touched AS t ON t.doc_id = i.doc_id
WHERE t.doc_id IS NULL OR t.deleted_at IS NOT NULL OR t.content_hash <> i.content_hash;

-- The same form: only the upstream's date may have moved, or another record may own the document now.
UPDATE document_versions AS v
SET updated_at = greatest(v.updated_at, i.updated_at), record_id = i.record_id
FROM incoming_keys AS i
JOIN touched AS t ON t.doc_id = i.doc_id
WHERE
    v.valid_to IS NULL
    AND v.doc_id = i.doc_id
    AND t.deleted_at IS NULL
    AND t.content_hash = i.content_hash
    AND (t.record_id <> i.record_id OR i.updated_at > t.updated_at OR (t.updated_at IS NULL AND i.updated_at IS NOT NULL));

UPDATE document_versions AS v
SET valid_to = c.valid_from
FROM changed AS c
WHERE c.is_update AND v.valid_to IS NULL AND v.doc_id = c.doc_id;

-- A new text has a new number in the index.
CREATE OR REPLACE TEMP TABLE numbered AS
SELECT
    c.*,
    CASE WHEN c.is_new_text
        THEN (SELECT next_docid FROM fts.state) + row_number() OVER (PARTITION BY c.is_new_text ORDER BY c.doc_id) - 1
        ELSE c.old_docid
    END::INTEGER AS docid
FROM changed AS c;

INSERT INTO document_versions BY NAME
SELECT i.*, n.valid_from, n.batch_id, n.docid FROM incoming AS i JOIN numbered AS n ON n.doc_id = i.doc_id;

CREATE OR REPLACE TEMP TABLE texts AS
SELECT n.docid, i.title, i.content, i.text_hash
FROM incoming AS i JOIN numbered AS n ON n.doc_id = i.doc_id
WHERE n.is_new_text;

CREATE OR REPLACE TEMP TABLE replaced AS
SELECT old_docid AS docid FROM numbered WHERE is_new_text AND old_docid IS NOT NULL;

-- A record that came again without one of its documents took it away; a record that was refused took nothing.
CREATE OR REPLACE TEMP TABLE orphaned AS
SELECT t.doc_id, r.fetched_at, r.batch_id
FROM touched AS t
JOIN fresh_records AS r ON r.source = t.source AND r.scope = t.scope AND r.source_id = t.record_id
ANTI JOIN incoming_keys AS i ON i.doc_id = t.doc_id
ANTI JOIN refused AS x ON x.source = r.source AND x.scope = r.scope AND x.source_id = r.source_id
WHERE t.deleted_at IS NULL;

UPDATE document_versions AS v
SET deleted_at = o.fetched_at, deletion_reason = 'record'
FROM orphaned AS o
WHERE v.valid_to IS NULL AND v.doc_id = o.doc_id;

-- Rejects: in when refused, out when the record passes.
DELETE FROM rejects AS x
USING fresh_records AS r
ANTI JOIN refused AS f ON f.source = r.source AND f.scope = r.scope AND f.source_id = r.source_id
WHERE x.source = r.source AND x.scope = r.scope AND x.source_id = r.source_id;

MERGE INTO rejects AS x
USING refused AS f
ON x.source = f.source AND x.scope = f.scope AND x.source_id = f.source_id
WHEN MATCHED THEN UPDATE SET
    batch_id = f.batch_id, reason = f.reason, payload = f.payload, last_seen_at = f.last_seen_at
WHEN NOT MATCHED THEN INSERT BY NAME;

MERGE INTO records AS k
USING (
    SELECT
        r.source, r.scope, r.source_id,
        CASE WHEN f.source_id IS NULL THEN r.record_hash END AS record_hash,
        r.connector_version, r.batch_id, NULL::TIMESTAMPTZ AS deleted_at
    FROM fresh_records AS r
    LEFT JOIN refused AS f ON f.source = r.source AND f.scope = r.scope AND f.source_id = r.source_id
) AS r
ON k.source = r.source AND k.scope = r.scope AND k.source_id = r.source_id
WHEN MATCHED THEN UPDATE SET
    record_hash = r.record_hash, connector_version = r.connector_version, batch_id = r.batch_id, deleted_at = NULL
WHEN NOT MATCHED THEN INSERT BY NAME;
