INSERT INTO held SELECT source_id, verdict = 'back', $1 FROM rows WHERE verdict IN ('gone', 'back');
