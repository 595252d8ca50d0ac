-- search(): BM25 over the index, as a table macro that needs nothing but this file.
-- The parts of a query, their postings, their scores, the best documents, and only for these the rest. Two rules of
-- DuckDB shape it: what is used twice is MATERIALIZED, and a filter that is not given folds to nothing.

-- One value or a list of them, as a list.
CREATE OR REPLACE MACRO fts.one_or_more(given) AS coalesce(TRY_CAST(given AS VARCHAR[]), [CAST(given AS VARCHAR)]);

-- Prefixes of one kind (status:) are alternatives, and of each kind that is asked for one has to fit.
CREATE OR REPLACE MACRO fts.fits_tags(tags, prefixes) AS
    list_bool_and(list_transform(
        list_distinct(list_transform(prefixes, lambda prefix: split_part(prefix, ':', 1))),
        lambda kind: len(list_filter(tags, lambda tag: len(list_filter(
            prefixes, lambda prefix: split_part(prefix, ':', 1) = kind AND starts_with(tag, lower(prefix))
        )) > 0)) > 0
    ));

-- The place of the run where most of the asked-for ones follow within 25.
CREATE OR REPLACE MACRO fts.densest(places) AS
    -list_sort(CAST(list_transform(
        places[:200], lambda place: [len(list_filter(places[:200], lambda p: p >= place AND p < place + 25)), -place]
    ) AS BIGINT[][]))[-1][2];

CREATE OR REPLACE MACRO fts.marked(run) AS
    regexp_replace(left(run, 300), '^([[:punct:]]*)(.*?)([[:punct:]]*)$', '\1**\2**\3');

-- 30 runs around the densest place, those at the places marked.
CREATE OR REPLACE MACRO fts.snippet(runs, places, start) AS
    CASE WHEN start > 1 THEN '… ' ELSE '' END
    || array_to_string(list_transform(
        runs[start:start + 29],
        lambda run, i: CASE WHEN list_contains(places, start + i - 1) THEN fts.marked(run) ELSE left(run, 300) END
    ), ' ')
    || CASE WHEN start + 29 < len(runs) THEN ' …' ELSE '' END;

-- What excludes: -word and -"a phrase", but neither -l nor --verbose.
CREATE OR REPLACE MACRO fts.exclusion() AS '-("|[^-"\s][^\s]|[^\x00-\x7F])';

CREATE OR REPLACE MACRO fts.asked(query) AS fts.folded(coalesce(CAST(query AS VARCHAR), ''));

CREATE OR REPLACE MACRO search(
    query,
    top_k := 10,
    source := NULL, scope := NULL, source_id := NULL, doc_type := NULL, author := NULL, assignee := NULL,
    participant := NULL, channel := NULL, thread_id := NULL, tag_prefix := NULL, since := NULL, until := NULL,
    status := 'live', title_only := false, match_all := false, collapse := true
) AS TABLE
WITH
    -- The clauses of the query: words, "phrases", prefixes*, and each of them -excluded.
    clauses AS (
        SELECT unnest(list) AS written, generate_subscripts(list, 1) AS clause
        FROM (SELECT regexp_extract_all(fts.asked(query), '-?"[^"]*"?|[^\s\x{A0}\x{2000}-\x{200A}\x{3000}]+') AS list)
    ),
    flagged AS (
        SELECT
            clause,
            written AS clause_text,
            regexp_matches(written, '^' || fts.exclusion()) AS is_excluded,
            regexp_matches(written, '^-?"') AS is_phrase,
            regexp_matches(written, '^-?[^"*]+[*]$') AS is_prefix,
            fts.runs(ltrim(written, '-')) AS runs
        FROM clauses
    ),
    parts AS MATERIALIZED (
        SELECT
            clause, is_excluded, is_phrase, place,
            unnest(CASE WHEN is_prefix THEN [fts.lowered(unit)] ELSE fts.parts(unit) END) AS part,
            is_prefix OR regexp_full_match(unit, '[\x{E00}-\x{EFF}\x{1000}-\x{109F}\x{1100}-\x{11FF}\x{1780}-\x{17FF}\x{2E80}-\x{2FDF}\x{3005}-\x{3007}\x{3021}-\x{302F}\x{3031}-\x{303C}\x{3041}-\x{30FA}\x{30FC}-\x{31FF}\x{3400}-\x{9FFF}\x{A960}-\x{A97F}\x{AC00}-\x{D7FF}\x{F900}-\x{FAFF}\x{FF66}-\x{FFDC}\x{20000}-\x{3FFFF}]') AS is_prefix
        FROM (
            SELECT clause, is_excluded, is_phrase, is_prefix, place, unnest(fts.units(run)) AS unit
            FROM (
                SELECT clause, is_excluded, is_phrase, is_prefix, unnest(runs) AS run, generate_subscripts(runs, 1) AS place
                FROM flagged
            )
        )
    ),
    -- What is scored: each part once, the first 32 of them.
    slots AS MATERIALIZED (
        SELECT part, is_prefix, row_number() OVER (ORDER BY clause, part) AS slot
        FROM (
            SELECT part, is_prefix, min(clause) AS clause FROM parts WHERE NOT is_excluded GROUP BY part, is_prefix
        )
        ORDER BY clause, part
        LIMIT 32
    ),
    -- What stands in the index for them. Of a form that was never seen, those that differ in their ending alone; of a
    -- prefix, what it begins.
    forms AS MATERIALIZED (SELECT DISTINCT part, is_prefix FROM parts),
    known AS MATERIALIZED (
        SELECT f.part, w.termid FROM forms AS f JOIN fts.words AS w ON w.word = f.part WHERE NOT f.is_prefix
    ),
    several AS MATERIALIZED (
        SELECT DISTINCT u.part, false AS is_prefix, w.termid
        FROM (
            SELECT part, unnest(list_transform(
                ['', 'e', 'y', 's', 'es', 'ed', 'd', 'ing', 'er', 'ies', 'ion', 'ly'],
                lambda ending: regexp_replace(part, '(ings?|edly|ed|ies|es|s|ly|ers?|est|ments?|ness|able|ations?|ions?|e|y)$', '') || ending
            )) AS form
            FROM forms AS f ANTI JOIN known AS k ON k.part = f.part
            WHERE NOT f.is_prefix AND regexp_full_match(f.part, '[a-z]{4,}')
        ) AS u
        JOIN fts.words AS w ON w.word = u.form
        WHERE length(u.form) > 2
        UNION
        SELECT f.part, true, w.termid
        FROM forms AS f JOIN fts.words AS w ON starts_with(w.word, f.part) OR (length(f.part) = 1 AND length(w.word) = 2 AND ends_with(w.word, f.part))
        WHERE f.is_prefix
    ),
    hits AS MATERIALIZED (
        SELECT
            k.slot, p.docid,
            (CASE WHEN title_only THEN 3 * p.title_tf ELSE p.tf END)::DOUBLE AS tf, p.dl::DOUBLE AS dl
        FROM fts.postings AS p
        JOIN (SELECT s.slot, k.termid FROM slots AS s JOIN known AS k ON k.part = s.part WHERE NOT s.is_prefix) AS k
            ON k.termid = p.termid
        ANTI JOIN fts.dead AS x ON x.docid = p.docid
        WHERE NOT title_only OR p.title_tf > 0
        UNION ALL
        SELECT
            k.slot, p.docid,
            sum(CASE WHEN title_only THEN 3 * p.title_tf ELSE p.tf END)::DOUBLE AS tf, any_value(p.dl)::DOUBLE AS dl
        FROM fts.postings AS p
        JOIN (
            SELECT s.slot, k.termid FROM slots AS s JOIN several AS k ON k.part = s.part AND k.is_prefix = s.is_prefix
        ) AS k ON k.termid = p.termid
        ANTI JOIN fts.dead AS x ON x.docid = p.docid
        WHERE NOT title_only OR p.title_tf > 0
        GROUP BY k.slot, p.docid
    ),
    weights AS MATERIALIZED (
        SELECT map(list(slot), list(idf)) AS idf, any_value(avgdl) AS avgdl, count(*) AS slots_count
        FROM (
            SELECT
                h.slot, log((s.docs_count - count(*) + 0.5) / (count(*) + 0.5) + 1) AS idf,
                s.total_len / s.docs_count AS avgdl
            FROM hits AS h, fts.state AS s
            GROUP BY h.slot, s.docs_count, s.total_len
        )
    ),
    -- Documents that phrases and exclusions are about: all parts of the clause (its first 32), and for a phrase one after the other;
    -- what stands in one run counts as standing in one place.
    clause_terms AS MATERIALIZED (
        SELECT p.clause, p.is_excluded, p.is_phrase, p.n, p.parts_count, k.termid
        FROM (
            SELECT
                clause, is_excluded, is_phrase AND NOT is_prefix AS is_phrase, part, is_prefix,
                row_number() OVER (PARTITION BY clause ORDER BY place) AS n,
                least(count(*) OVER (PARTITION BY clause), 32) AS parts_count
            FROM parts
            WHERE is_excluded OR (is_phrase AND NOT is_prefix)
            QUALIFY n <= 32
        ) AS p
        JOIN (
            SELECT part, false AS is_prefix, termid FROM known UNION ALL SELECT part, is_prefix, termid FROM several
        ) AS k ON k.part = p.part AND k.is_prefix = p.is_prefix
    ),
    clause_docs AS MATERIALIZED (
        SELECT c.clause, c.is_excluded, c.is_phrase, p.docid
        FROM fts.postings AS p JOIN clause_terms AS c ON c.termid = p.termid
        WHERE c.parts_count = 1
        UNION ALL
        SELECT c.clause, c.is_excluded, c.is_phrase, p.docid
        FROM fts.postings AS p JOIN clause_terms AS c ON c.termid = p.termid
        WHERE c.parts_count > 1
        GROUP BY c.clause, c.is_excluded, c.is_phrase, c.parts_count, p.docid
        HAVING count(DISTINCT c.n) = c.parts_count
    ),
    phrase_docs AS MATERIALIZED (
        SELECT clause, is_excluded, docid
        FROM (
            SELECT clause, is_excluded, docid, list(positions ORDER BY n) AS places
            FROM (
                SELECT c.clause, c.is_excluded, c.n, d.docid, flatten(list(p.positions)) AS positions
                FROM fts.postings AS p
                JOIN clause_terms AS c ON c.termid = p.termid
                JOIN clause_docs AS d ON d.clause = c.clause AND d.docid = p.docid
                WHERE c.is_phrase
                GROUP BY c.clause, c.is_excluded, c.n, d.docid
            )
            GROUP BY clause, is_excluded, docid
        )
        WHERE len(list_reduce(
            places,
            lambda before, these: list_intersect(these, list_concat(before, list_transform(before, lambda p: p + 1)))
        )) > 0
    ),
    -- A title in which the query stands as it is written is what was looked for, minus signs and all.
    excluded AS (
        SELECT e.docid
        FROM (
            SELECT docid FROM clause_docs WHERE is_excluded AND NOT is_phrase
            UNION
            SELECT docid FROM phrase_docs WHERE is_excluded
        ) AS e
        ANTI JOIN (
            SELECT docid
            FROM document_versions
            WHERE
                regexp_matches(fts.asked(query), '(^|\s)' || fts.exclusion())
                AND valid_to IS NULL
                AND contains(lower(title), lower(trim(fts.asked(query))))
        ) AS t ON t.docid = e.docid
    ),
    fitting AS (
        SELECT d.docid, d.doc_id, d.title, d.updated_at
        FROM document_versions AS d
        WHERE
            d.valid_to IS NULL
            AND (source IS NULL OR list_contains(fts.one_or_more(source), d.source))
            AND (scope IS NULL OR list_contains(fts.one_or_more(scope), d.scope))
            AND (source_id IS NULL OR list_contains(fts.one_or_more(source_id), d.source_id))
            AND (doc_type IS NULL OR list_contains(fts.one_or_more(doc_type), d.doc_type))
            AND (author IS NULL OR list_contains(fts.one_or_more(author), d.author))
            AND (assignee IS NULL OR list_has_any(fts.one_or_more(assignee), d.assignees))
            AND (participant IS NULL OR list_has_any(list_transform(fts.one_or_more(participant), lambda p: lower(p)), d.participants))
            AND (channel IS NULL OR list_contains(fts.one_or_more(channel), d.channel))
            AND (thread_id IS NULL OR list_contains(fts.one_or_more(thread_id), d.thread_id))
            AND (tag_prefix IS NULL OR fts.fits_tags(d.tags, fts.one_or_more(tag_prefix)))
            AND (since IS NULL OR d.updated_at >= CAST(since AS TIMESTAMPTZ))
            AND (until IS NULL OR d.updated_at <= CAST(until AS TIMESTAMPTZ))
            AND CASE status
                WHEN 'live' THEN d.deleted_at IS NULL
                WHEN 'tombstoned' THEN d.deleted_at IS NOT NULL
                WHEN 'any' THEN true
                ELSE error('status is live, tombstoned or any')
            END
    ),
    eligible AS (
        SELECT h.slot, h.docid, h.tf, h.dl
        FROM hits AS h
        ANTI JOIN (SELECT docid FROM document_versions WHERE valid_to IS NULL AND deleted_at IS NOT NULL) AS g
            ON g.docid = h.docid
        ANTI JOIN excluded AS x ON x.docid = h.docid
        WHERE status = 'live' AND source IS NULL AND scope IS NULL AND source_id IS NULL AND doc_type IS NULL AND author IS NULL AND assignee IS NULL AND participant IS NULL AND channel IS NULL AND thread_id IS NULL AND tag_prefix IS NULL AND since IS NULL AND until IS NULL
        UNION ALL
        SELECT h.slot, h.docid, h.tf, h.dl
        FROM hits AS h SEMI JOIN fitting AS f ON f.docid = h.docid ANTI JOIN excluded AS x ON x.docid = h.docid
        WHERE status <> 'live' OR source IS NOT NULL OR scope IS NOT NULL OR source_id IS NOT NULL OR doc_type IS NOT NULL OR author IS NOT NULL OR assignee IS NOT NULL OR participant IS NOT NULL OR channel IS NOT NULL OR thread_id IS NOT NULL OR tag_prefix IS NOT NULL OR since IS NOT NULL OR until IS NOT NULL
    ),
    -- How many phrases, and words where all are wanted, a document must have.
    needed AS MATERIALIZED (
        SELECT
            (SELECT count(DISTINCT clause) FROM parts WHERE is_phrase AND NOT is_excluded AND NOT is_prefix)
            + CASE WHEN match_all THEN (SELECT count(*) FROM slots) ELSE 0 END AS count
    ),
    complete AS (
        SELECT docid
        FROM (
            SELECT docid FROM phrase_docs WHERE NOT is_excluded
            UNION ALL
            SELECT docid FROM eligible WHERE match_all
        )
        GROUP BY docid
        HAVING count(*) = (SELECT count FROM needed)
    ),
    narrowed AS (
        SELECT e.slot, e.docid, e.tf, e.dl FROM eligible AS e WHERE NOT (match_all OR contains(fts.asked(query), '"'))
        UNION ALL
        SELECT e.slot, e.docid, e.tf, e.dl FROM eligible AS e SEMI JOIN complete AS c ON c.docid = e.docid WHERE (match_all OR contains(fts.asked(query), '"'))
        UNION ALL
        SELECT e.slot, e.docid, e.tf, e.dl FROM eligible AS e, needed AS n WHERE (match_all OR contains(fts.asked(query), '"')) AND n.count = 0
    ),
    partials AS MATERIALIZED (
        SELECT
            h.slot, h.docid,
            w.idf[h.slot]
            * (h.tf * 2.2::DOUBLE / (h.tf + 1.2::DOUBLE * (0.25::DOUBLE + 0.75::DOUBLE * h.dl / w.avgdl))) AS score
        FROM narrowed AS h, weights AS w
    ),
    -- What cannot be among the best need not be added up. The documents of the highest parts have totals; the least of
    -- the top_k best of these (duplicates once) is a floor. A document that reaches it has, in each slot, what the
    -- highest parts of all other slots leave to be reached.
    sample AS (SELECT docid FROM partials ORDER BY score DESC LIMIT 200 + 2 * top_k),
    base AS MATERIALIZED (
        SELECT CASE WHEN count(*) = top_k THEN min(score) END AS score
        FROM (
            SELECT max(score) AS score
            FROM (
                SELECT p.docid, sum(p.score) AS score
                FROM partials AS p SEMI JOIN sample AS s ON s.docid = p.docid GROUP BY p.docid
            ) AS q LEFT JOIN fts.twins AS t ON t.docid = q.docid
            GROUP BY t.text_key, CASE WHEN t.text_key IS NULL OR NOT collapse THEN q.docid END
            ORDER BY score DESC LIMIT top_k
        )
    ),
    heights AS MATERIALIZED (
        SELECT map(list(slot), list(score)) AS most, sum(score) AS total
        FROM (SELECT slot, max(score) AS score FROM partials GROUP BY slot)
    ),
    scored AS MATERIALIZED (
        SELECT p.docid, sum(p.score) AS score
        FROM partials AS p, heights AS h, base AS b
        WHERE p.score >= coalesce(b.score - (h.total - h.most[p.slot]) - 1e-9, 0)
        GROUP BY p.docid
    ),
    same AS MATERIALIZED (
        SELECT s.docid, t.text_key FROM scored AS s JOIN fts.twins AS t ON t.docid = s.docid WHERE collapse
    ),
    lowest AS MATERIALIZED (
        SELECT coalesce(min(score), 0) AS score
        FROM (SELECT score FROM scored ORDER BY score DESC LIMIT top_k + (SELECT count(*) FROM same))
    ),
    -- Nothing to be scored: an empty query gives the newest, one of signs alone what has them in its title.
    unscored AS MATERIALIZED (
        SELECT count(*) FILTER (NOT is_excluded) = 0 AS is_blank
        FROM flagged
        HAVING (SELECT count(*) FROM slots) = 0
    ),
    browsed AS (
        SELECT f.docid
        FROM fitting AS f, unscored AS u
        WHERE u.is_blank OR contains(lower(f.title), trim(lower(CAST(query AS VARCHAR))))
        ORDER BY f.updated_at DESC NULLS LAST, f.doc_id
        LIMIT top_k
    ),
    pool AS MATERIALIZED (
        SELECT s.docid, s.score, t.text_key
        FROM scored AS s JOIN lowest AS l ON s.score >= l.score LEFT JOIN same AS t ON t.docid = s.docid
        UNION ALL
        SELECT b.docid, 0, NULL FROM browsed AS b ANTI JOIN excluded AS x ON x.docid = b.docid
    ),
    alike AS MATERIALIZED (
        SELECT t.text_key, count(DISTINCT p.docid) AS count
        FROM partials AS p JOIN fts.twins AS t ON t.docid = p.docid
        WHERE collapse
        GROUP BY t.text_key
    ),
    places AS MATERIALIZED (
        SELECT d.rowid AS place, p.docid, p.score, p.text_key
        FROM document_versions AS d JOIN pool AS p ON p.docid = d.docid
        WHERE d.valid_to IS NULL
    ),
    best AS MATERIALIZED (
        SELECT d.rowid AS place, p.docid, p.score, coalesce(y.count, 1) - 1 AS duplicates_count
        FROM document_versions AS d JOIN places AS p ON p.place = d.rowid LEFT JOIN alike AS y ON y.text_key = p.text_key
        WHERE d.rowid IN (SELECT place FROM places)
        WINDOW same_text AS (PARTITION BY p.text_key, CASE WHEN p.text_key IS NULL THEN p.docid END)
        QUALIFY row_number() OVER (same_text ORDER BY p.score DESC, d.updated_at DESC NULLS LAST, d.doc_id) = 1
        ORDER BY p.score DESC, d.updated_at DESC NULLS LAST, d.doc_id
        LIMIT top_k
    ),
    -- Where in them the words stand.
    seen AS (
        SELECT p.docid, list_sort(flatten(list(p.positions))) AS positions
        FROM fts.postings AS p
        WHERE
            p.termid IN (SELECT termid FROM known UNION ALL SELECT termid FROM several)
            AND p.docid IN (SELECT docid FROM best)
        GROUP BY p.docid
    ),
    -- Positions count runs with a word in them; what is shown has all runs.
    texts AS (
        SELECT
            d.*, b.score, b.duplicates_count,
            fts.runs(d.content) AS runs,
            coalesce(list_filter(s.positions, lambda p: p > 0), []) AS counted
        FROM document_versions AS d
        JOIN best AS b ON b.place = d.rowid
        LEFT JOIN seen AS s ON s.docid = b.docid
        WHERE d.rowid IN (SELECT place FROM best)
    ),
    mapped AS (
        SELECT *, list_filter(range(1, len(runs) + 1), lambda i: fts.has_word(runs[i])) AS run_places FROM texts
    ),
    shown AS (SELECT *, list_transform(counted, lambda p: run_places[p]) AS positions FROM mapped),
    placed AS (
        SELECT
            *,
            coalesce(fts.densest(positions), 1) AS run_place,
            length(array_to_string(runs[:coalesce(fts.densest(positions), 1) - 1], ' ')) AS text_place
        FROM shown
    )
SELECT
    d.doc_id, d.score, d.title,
    fts.snippet(d.runs, d.positions, greatest(d.run_place - 5, 1)) AS snippet,
    d.url, d.source, d.scope, d.doc_type, d.author, d.assignees, d.tags, d.updated_at,
    d.deleted_at IS NOT NULL AS is_deleted, d.thread_id,
    coalesce(list_max(list_filter(d.chunk_starts, lambda c: c <= d.text_place + 1)), 0) AS passage_start,
    coalesce(list_min(list_filter(d.chunk_starts, lambda c: c > d.text_place + 1)), length(d.content)) AS passage_end,
    d.duplicates_count
FROM placed AS d
ORDER BY d.score DESC, d.updated_at DESC NULLS LAST, d.doc_id;
