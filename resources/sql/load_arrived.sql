-- `arrived` (Arrow): the records of this load, without payloads, one row per record and batch, in order of arrival.
-- Keep the newest form of each record, and of those the ones that are new to us: another form, another mapping,
-- formerly rejected, or back from a tombstone.
CREATE OR REPLACE TEMP TABLE fresh_records AS
WITH newest AS (
    FROM arrived
    QUALIFY row_number() OVER (PARTITION BY source, scope, source_id ORDER BY position DESC) = 1
)
SELECT newest.*, r.source_id IS NOT NULL AS is_known
FROM newest
LEFT JOIN records AS r
    ON r.source = newest.source AND r.scope = newest.scope AND r.source_id = newest.source_id
WHERE
    r.source_id IS NULL
    OR r.deleted_at IS NOT NULL
    OR r.record_hash IS DISTINCT FROM newest.record_hash
    OR r.connector_version <> newest.connector_version;
