-- Sums that must agree: of the current documents, of the lengths of their texts, and of the postings.
SELECT what, wanted, found
FROM (
    SELECT
        'documents' AS what,
        (SELECT count(*) FROM document_versions WHERE valid_to IS NULL) AS wanted,
        (SELECT docs_count FROM fts.state) AS found
    UNION ALL
    SELECT
        'tokens',
        (SELECT coalesce(sum(l.dl), 0) FROM fts.lengths AS l ANTI JOIN fts.dead AS x ON x.docid = l.docid),
        (SELECT total_len FROM fts.state)
    UNION ALL
    SELECT
        'postings',
        (SELECT coalesce(sum(dl), 0) FROM fts.lengths),
        (SELECT coalesce(sum(tf), 0) FROM fts.postings)
)
WHERE wanted <> found;
