-- search(), a row for each conversation; a document that belongs to none is one by itself.
CREATE OR REPLACE MACRO search_threads(
    query,
    top_k := 10,
    source := NULL, scope := NULL, source_id := NULL, doc_type := NULL, author := NULL, assignee := NULL,
    participant := NULL, channel := NULL, thread_id := NULL, tag_prefix := NULL, since := NULL, until := NULL,
    status := 'live', title_only := false, match_all := false
) AS TABLE
WITH found AS (
    FROM search(
        query,
        top_k := 50 * top_k,
        source := source, scope := scope, source_id := source_id, doc_type := doc_type, author := author,
        assignee := assignee, participant := participant, channel := channel, thread_id := thread_id,
        tag_prefix := tag_prefix, since := since, until := until,
        status := status, title_only := title_only, match_all := match_all, collapse := false
    )
),
-- Qualified, since an unqualified name is the parameter.
ranked AS (
    SELECT
        f.*,
        count(*) OVER same_thread AS documents_count,
        max(f.updated_at) OVER same_thread AS thread_updated_at
    FROM found AS f
    WINDOW same_thread AS (PARTITION BY f.source, f.scope, coalesce(f.thread_id, f.doc_id))
    QUALIFY row_number() OVER (same_thread ORDER BY f.score DESC, f.updated_at DESC NULLS LAST, f.doc_id) = 1
)
SELECT
    r.source, r.scope, r.thread_id, r.score, r.documents_count,
    r.doc_id, r.title, r.snippet, r.url, r.doc_type, r.author,
    r.thread_updated_at AS updated_at, r.passage_start, r.passage_end
FROM ranked AS r
ORDER BY r.score DESC, r.thread_updated_at DESC NULLS LAST, r.doc_id
LIMIT top_k;
