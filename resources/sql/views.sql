-- What analysts read. Every view says what it is (COMMENT), as every table does.

CREATE OR REPLACE VIEW documents_all AS
SELECT
    * EXCLUDE (valid_from, valid_to, deleted_at, deletion_reason, batch_id, docid, chunk_starts),
    deleted_at IS NOT NULL AS is_deleted,
    deleted_at, deletion_reason, valid_from AS changed_at
FROM document_versions
WHERE valid_to IS NULL;
COMMENT ON VIEW documents_all IS 'Every document in its current form, live or gone upstream (is_deleted).';

CREATE OR REPLACE VIEW documents AS
SELECT * EXCLUDE (is_deleted, deleted_at, deletion_reason) FROM documents_all WHERE NOT is_deleted;
COMMENT ON VIEW documents IS 'The live documents in their current form: what to query by default.';

CREATE OR REPLACE VIEW attachments AS
SELECT d.doc_id, d.source, d.scope, d.is_deleted, a.name, a.media_type, a.url, a.size_bytes, a.sha256
FROM documents_all AS d, unnest(d.attachments) AS u(a);
COMMENT ON VIEW attachments IS 'Files that belong to documents; sha256 names the file under attachments/.';

CREATE OR REPLACE VIEW chunks AS
SELECT
    doc_id, source, scope, doc_type, title, url, chunk, chunk_start, chunk_end,
    substring(content, chunk_start + 1, chunk_end - chunk_start) AS text
FROM (
    SELECT
        *,
        unnest(chunk_starts) AS chunk_start,
        unnest(chunk_starts[2:] || [length(content)]) AS chunk_end,
        generate_subscripts(chunk_starts, 1) AS chunk
    FROM document_versions
    WHERE valid_to IS NULL AND deleted_at IS NULL
);
COMMENT ON VIEW chunks IS 'The passages of the live documents: one after the other they are the content.';

CREATE OR REPLACE VIEW links AS
SELECT d.doc_id, d.source, d.scope, l.relation, l.target
FROM documents AS d, unnest(d.links) AS u(l);
COMMENT ON VIEW links IS 'Relations of the live documents: to a doc_id where the target is known, or to an address.';

CREATE OR REPLACE VIEW threads AS
SELECT
    source, scope, thread_id,
    first(title ORDER BY created_at NULLS LAST, doc_id) AS title,
    string_agg(content, chr(10) || chr(10) ORDER BY created_at NULLS LAST, doc_id) AS content,
    list(doc_id ORDER BY created_at NULLS LAST, doc_id) AS doc_ids,
    count(*) AS documents_count,
    min(created_at) AS created_at,
    max(updated_at) AS updated_at
FROM documents
WHERE thread_id IS NOT NULL
GROUP BY source, scope, thread_id;
COMMENT ON VIEW threads IS 'One row per conversation: its live documents in order, folded into one text.';

CREATE OR REPLACE VIEW duplicates AS
SELECT text_hash, count(*) AS documents_count, list(doc_id ORDER BY doc_id) AS doc_ids, any_value(title) AS title
FROM documents
GROUP BY text_hash
HAVING count(*) > 1;
COMMENT ON VIEW duplicates IS 'Live documents whose text is the same.';

CREATE OR REPLACE VIEW sync_status AS
WITH
    batches AS (
        SELECT
            source, scope,
            arg_max(connector, sequence) AS connector,
            arg_max(cursor, sequence) AS cursor,
            arg_max(is_caught_up, sequence) AS is_caught_up,
            max(sequence) AS batches_count,
            max(written_at) AS last_batch_at,
            max(written_at) FILTER (kind = 'census') AS last_census_at,
            arg_max(live_count, sequence) FILTER (kind = 'census') AS upstream_count,
            arg_max(missing_count, sequence) FILTER (kind = 'census') AS missing_count,
            arg_max(is_held, sequence) FILTER (kind = 'census') AS is_census_held,
            arg_max(census_reason, sequence) FILTER (kind = 'census') AS census_reason
        FROM loaded_batches
        GROUP BY source, scope
    ),
    held AS (
        SELECT source, scope, count(*) FILTER (deleted_at IS NULL) AS live_records_count
        FROM records GROUP BY source, scope
    ),
    documented AS (
        SELECT
            source, scope,
            count(*) FILTER (NOT is_deleted) AS live_count,
            count(*) FILTER (is_deleted) AS tombstoned_count,
            max(updated_at) AS newest_document_at
        FROM documents_all GROUP BY source, scope
    ),
    refused AS (SELECT source, scope, count(*) AS rejected_count FROM rejects GROUP BY source, scope)
SELECT
    source, scope, connector, cursor, is_caught_up,
    coalesce(live_count, 0) AS live_count,
    coalesce(tombstoned_count, 0) AS tombstoned_count,
    coalesce(rejected_count, 0) AS rejected_count,
    coalesce(live_records_count, 0) AS live_records_count,
    upstream_count, missing_count, coalesce(is_census_held, false) AS is_census_held, census_reason,
    last_batch_at, last_census_at, newest_document_at, batches_count
FROM batches
LEFT JOIN held USING (source, scope)
LEFT JOIN documented USING (source, scope)
LEFT JOIN refused USING (source, scope);
COMMENT ON VIEW sync_status IS 'One row per scope: cursor, caught up or not, and its counts beside the upstream''s.';

CREATE OR REPLACE MACRO documents_as_of(instant) AS TABLE
SELECT * EXCLUDE (valid_to, deleted_at, deletion_reason, batch_id, docid, chunk_starts)
FROM document_versions
WHERE
    valid_from <= instant
    AND (valid_to IS NULL OR valid_to > instant)
    AND (deleted_at IS NULL OR deleted_at > instant);

CREATE OR REPLACE MACRO changes_between(since, until) AS TABLE
SELECT doc_id, valid_from AS changed_at,
    CASE
        WHEN row_number() OVER forms = 1 THEN 'created'
        WHEN lag(deleted_at) OVER forms IS NOT NULL THEN 'revived'
        ELSE 'updated'
    END AS change,
    title, url
FROM document_versions
WINDOW forms AS (PARTITION BY doc_id ORDER BY valid_from, valid_to NULLS LAST)
QUALIFY changed_at >= since AND changed_at <= until
UNION ALL
SELECT doc_id, deleted_at, 'tombstoned', title, url
FROM document_versions
WHERE deleted_at >= since AND deleted_at <= until
ORDER BY changed_at, doc_id;
