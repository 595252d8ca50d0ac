-- The numbers of the current texts, cut into pieces of $1 documents: first and last of each.
SELECT min(docid), max(docid)
FROM (
    SELECT docid, (row_number() OVER (ORDER BY docid) - 1) // $1 AS piece
    FROM document_versions
    WHERE valid_to IS NULL
)
GROUP BY piece
ORDER BY piece;
