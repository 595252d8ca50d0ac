SELECT docid, title, content, text_hash FROM texts WHERE docid BETWEEN $1 AND $2 ORDER BY docid;
