-- A connection's temporary tables are its own: threads do not meet here.
CREATE OR REPLACE TEMP TABLE held (source_id VARCHAR, is_live BOOLEAN, sequence BIGINT);
CREATE OR REPLACE TEMP TABLE live (source_id VARCHAR);
