-- `texts`, cut into pieces of about $1 bytes: first and last docid of each.
SELECT min(docid), max(docid)
FROM (
    SELECT docid, (sum(strlen(content) + strlen(title)) OVER (ORDER BY docid) - 1) // $1 AS piece FROM texts
)
GROUP BY piece
ORDER BY piece;
