-- `texts`, cut into pieces of about $1 characters: first and last docid of each.
SELECT min(docid), max(docid)
FROM (
    SELECT docid, (sum(length(content) + length(title)) OVER (ORDER BY docid) - 1) // $1 AS piece FROM texts
)
GROUP BY piece
ORDER BY piece;
