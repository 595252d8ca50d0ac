-- Runs whenever the warehouse is opened; the columns stand in ingestion/schema.py, whose empty tables are registered
-- as columns_<table>. No keys: uniqueness holds by construction, and a check of the graph proves it after each load.
CREATE TABLE IF NOT EXISTS document_versions AS
SELECT * REPLACE (metadata::JSON AS metadata) FROM columns_document_versions;
CREATE TABLE IF NOT EXISTS records AS FROM columns_records;
CREATE TABLE IF NOT EXISTS rejects AS FROM columns_rejects;
CREATE TABLE IF NOT EXISTS loaded_batches AS FROM columns_loaded_batches;
CREATE TABLE IF NOT EXISTS warehouse AS
SELECT NULL::INTEGER AS format_version, NULL::VARCHAR AS definition_hash, now() AS created_at;
COMMENT ON TABLE warehouse IS 'One row: the form of this file, and when it was made.';
