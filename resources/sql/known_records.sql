INSERT INTO held SELECT source_id, true, $1 FROM rows;
