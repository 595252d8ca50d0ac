"""How tests see whether a search index is the one that would be built from nothing."""

import math

from tests.support import Site


def scores(site: Site, query: str) -> dict[str, float]:
    """What a query finds, whatever its status, every twin of its own."""
    sql = "SELECT doc_id, score FROM search($1, top_k := 1_000, status := 'any', collapse := false)"
    return dict(site.query(sql, query))


def stock_scores(site: Site, query: str) -> dict[str, float]:
    """What DuckDB's own macro finds."""
    sql = "SELECT doc_id, fts_main_documents.match_bm25(doc_id, $1) AS score FROM documents_all"
    return {doc_id: score for doc_id, score in site.query(sql, query) if score is not None}


def differing(ones: dict[str, dict[str, float]], others: dict[str, dict[str, float]]) -> list[str]:
    """The queries with other answers; scores are sums of doubles in no fixed order."""
    return [
        query
        for query, found in ones.items()
        if found.keys() != others[query].keys()
        or not all(math.isclose(score, others[query][doc_id], rel_tol=1e-12) for doc_id, score in found.items())
    ]


def check_sums(site: Site) -> None:
    """The numbers that the scores are made of agree with each other and with the documents."""
    assert site.query(SUMS) == [(True, True, True)]
    assert site.query(UNLIKE) == site.query(TWICE) == []


SUMS = """
WITH
    current AS (SELECT docid FROM document_versions WHERE valid_to IS NULL),
    counted AS (SELECT docid, dl FROM fts.lengths ANTI JOIN fts.dead USING (docid))
SELECT
    docs_count = (SELECT count(*) FROM current),
    total_len = (SELECT coalesce(sum(dl), 0) FROM counted),
    (SELECT list(docid ORDER BY docid) FROM current)
        IS NOT DISTINCT FROM (SELECT list(docid ORDER BY docid) FROM counted)
FROM fts.state
"""
UNLIKE = """
SELECT l.docid
FROM fts.lengths AS l LEFT JOIN fts.postings AS p ON p.docid = l.docid
GROUP BY l.docid, l.dl
HAVING l.dl <> coalesce(sum(p.tf), 0) OR bool_or(p.dl <> l.dl OR p.tf < 3 * p.title_tf)
"""
TWICE = """
SELECT 'posting' FROM fts.postings GROUP BY docid, termid HAVING count(*) > 1
UNION ALL
SELECT 'term' FROM fts.terms GROUP BY term HAVING count(*) > 1
UNION ALL
SELECT 'termid' FROM fts.terms GROUP BY termid HAVING count(*) > 1
UNION ALL
SELECT 'word' FROM fts.words GROUP BY word HAVING count(*) > 1
UNION ALL
SELECT 'twin' FROM fts.twins GROUP BY docid HAVING count(*) > 1
"""


def refill(site: Site) -> None:
    site.query("UPDATE fts.state SET tokenizer_version = 0")
    site.load()
