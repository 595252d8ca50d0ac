-- From a text to its tokens. The index and the queries use these macros, and nothing else that cuts a text: a text is
-- split at blanks into runs, a run into units (a word, an identifier, an address, a piece of CJK text), a unit into
-- parts (the unit itself where it is more than a word, and the words in it), and a part is stemmed where it is English.
-- Character classes are written out as ranges, since each \p{L} in a pattern takes 2 ms to compile, in every query: what
-- is no separator is part of a word.
-- Runs and units repeat: the index cuts each of them once in a wave, which is what makes it fast.

CREATE OR REPLACE MACRO fts.runs(s) AS
    string_split(regexp_replace(s, '[\t\n\v\f\r]', ' ', 'g'), ' ');

-- Whether a run counts as a place: it is neither empty nor signs alone.
CREATE OR REPLACE MACRO fts.has_word(run) AS regexp_matches(run, '[^!-/:-@\[-^`{-~\x{2010}-\x{203A}]');

-- One form for what only looks different: full-width forms, ligatures, smart apostrophes and hyphens. Soft hyphens and
-- joiners are not there.
CREATE OR REPLACE MACRO fts.folded(run) AS
    CASE WHEN strlen(run) = length(run) THEN run ELSE
        regexp_replace(
            replace(replace(replace(replace(replace(replace(
                translate(
                    nfc_normalize(run),
                    '！＂＃＄％＆＇（）＊＋，－．／０１２３４５６７８９：；＜＝＞？＠ＡＢＣＤＥＦＧＨＩＪＫＬＭＮＯＰＱＲＳＴＵＶＷＸＹＺ［＼］＾＿｀ａｂｃｄｅｆｇｈｉｊｋｌｍｎｏｐｑｒｓｔｕｖｗｘｙｚ｛｜｝～’ʼ‘‐‑“”„«»',
                    '!"#$%&''()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\]^_`abcdefghijklmnopqrstuvwxyz{|}~''''''--"""""'
                ),
                'ﬀ', 'ff'), 'ﬁ', 'fi'), 'ﬂ', 'fl'), 'ﬃ', 'ffi'), 'ﬄ', 'ffl'), 'ß', 'ss'),
            '[\x{00AD}\x{200C}\x{200D}\x{2060}\x{FEFF}]', '', 'g'
        )
    END;

-- Scripts that put no blanks between words: their runs become pairs of characters.
CREATE OR REPLACE MACRO fts.spaced(folded) AS
    CASE WHEN strlen(folded) = length(folded) THEN folded ELSE regexp_replace(
        folded,
        '([\x{E00}-\x{EFF}\x{1000}-\x{109F}\x{1100}-\x{11FF}\x{1780}-\x{17FF}\x{2E80}-\x{2FDF}\x{3005}-\x{3007}\x{3021}-\x{302F}\x{3031}-\x{303C}\x{3041}-\x{30FA}\x{30FC}-\x{31FF}\x{3400}-\x{9FFF}\x{A960}-\x{A97F}\x{AC00}-\x{D7FF}\x{F900}-\x{FAFF}\x{FF66}-\x{FFDC}\x{20000}-\x{3FFFF}]+)', ' \1 ', 'g'
    ) END;

-- Of a folded run: an emoji, c++ and c#, or words joined as in an address, a version or an identifier.
CREATE OR REPLACE MACRO fts.units(folded) AS
    regexp_extract_all(
        fts.spaced(folded),
        '[\x{1F000}-\x{1FAFF}\x{2600}-\x{27BF}]'
        '|[A-Za-z](?:\+\+|#)'
        '|[#.]?[^\x00-/:-@\[-^`{-\x{A9}\x{AB}-\x{B1}\x{B4}\x{B6}-\x{B8}\x{BB}\x{BF}\x{D7}\x{F7}\x{55A}-\x{55F}\x{589}-\x{58F}\x{5BE}\x{5C0}\x{5C3}\x{5F3}-\x{60F}\x{61B}-\x{61F}\x{66A}-\x{66D}\x{6D4}\x{700}-\x{70F}\x{964}\x{965}\x{970}\x{E3F}\x{E4F}\x{E5A}\x{E5B}\x{F01}-\x{F17}\x{104A}-\x{104F}\x{1360}-\x{1368}\x{17D4}-\x{17DB}\x{1FFD}-\x{206F}\x{207A}-\x{207E}\x{208A}-\x{208E}\x{20A0}-\x{20C0}\x{2190}-\x{2BFF}\x{2E00}-\x{2E2E}\x{2E30}-\x{3004}\x{3008}-\x{3020}\x{3030}\x{303D}-\x{303F}\x{30FB}\x{3200}-\x{33FF}\x{E000}-\x{F8FF}\x{FD3E}\x{FD3F}\x{FE10}-\x{FE6B}\x{FEFF}\x{FF5F}-\x{FF65}\x{FFE0}-\x{FFFD}\x{1F000}-\x{1FAFF}]+(?:[-.@''][^\x00-/:-@\[-^`{-\x{A9}\x{AB}-\x{B1}\x{B4}\x{B6}-\x{B8}\x{BB}\x{BF}\x{D7}\x{F7}\x{55A}-\x{55F}\x{589}-\x{58F}\x{5BE}\x{5C0}\x{5C3}\x{5F3}-\x{60F}\x{61B}-\x{61F}\x{66A}-\x{66D}\x{6D4}\x{700}-\x{70F}\x{964}\x{965}\x{970}\x{E3F}\x{E4F}\x{E5A}\x{E5B}\x{F01}-\x{F17}\x{104A}-\x{104F}\x{1360}-\x{1368}\x{17D4}-\x{17DB}\x{1FFD}-\x{206F}\x{207A}-\x{207E}\x{208A}-\x{208E}\x{20A0}-\x{20C0}\x{2190}-\x{2BFF}\x{2E00}-\x{2E2E}\x{2E30}-\x{3004}\x{3008}-\x{3020}\x{3030}\x{303D}-\x{303F}\x{30FB}\x{3200}-\x{33FF}\x{E000}-\x{F8FF}\x{FD3E}\x{FD3F}\x{FE10}-\x{FE6B}\x{FEFF}\x{FF5F}-\x{FF65}\x{FFE0}-\x{FFFD}\x{1F000}-\x{1FAFF}]+)*(?:\+\+)?'
    );

-- Lower case without accents, where accents make no letters of their own.
CREATE OR REPLACE MACRO fts.lowered(word) AS
    CASE WHEN strlen(word) = length(word) THEN lower(word) ELSE translate(
        CASE WHEN regexp_matches(word, '[A-Za-z\x{C0}-\x{24F}\x{370}-\x{52F}\x{1E00}-\x{1FFF}]') THEN strip_accents(lower(word)) ELSE lower(word) END,
        'øłđðþıς', 'olddtiσ'
    ) END;

-- The words in an identifier: snake_case, kebab-case, dotted.names, camelCase, HTTPServer.
CREATE OR REPLACE MACRO fts.pieces(unit) AS
    list_filter(
        string_split_regex(
            regexp_replace(
                regexp_replace(unit, '([a-z0-9])([A-Z])', '\1 \2', 'g'), '([A-Z]+)([A-Z][a-z])', '\1 \2', 'g'
            ),
            '[-_.@''#+ ]+'
        ),
        lambda piece: piece <> ''
    );

CREATE OR REPLACE MACRO fts.pairs(letters) AS
    CASE WHEN len(letters) < 2 THEN letters ELSE list_distinct(list_transform(
        list_zip(letters[:-2], letters[2:]), lambda pair: pair[1] || pair[2]
    )) END;

-- The searchable parts of a unit, each once, at most 64 characters long.
CREATE OR REPLACE MACRO fts.parts(unit) AS
    CASE
        WHEN regexp_full_match(unit, '[a-z]+|[0-9]+') THEN [left(unit, 64)]
        WHEN regexp_matches(unit, '^[\x{E00}-\x{EFF}\x{1000}-\x{109F}\x{1100}-\x{11FF}\x{1780}-\x{17FF}\x{2E80}-\x{2FDF}\x{3005}-\x{3007}\x{3021}-\x{302F}\x{3031}-\x{303C}\x{3041}-\x{30FA}\x{30FC}-\x{31FF}\x{3400}-\x{9FFF}\x{A960}-\x{A97F}\x{AC00}-\x{D7FF}\x{F900}-\x{FAFF}\x{FF66}-\x{FFDC}\x{20000}-\x{3FFFF}]')
            THEN fts.pairs(string_split(fts.lowered(unit), ''))
        WHEN regexp_full_match(unit, '[A-Za-z](\+\+|#)') THEN [lower(unit)]
        WHEN regexp_full_match(unit, '[vV]?[0-9]+([.][0-9]+)+')
            THEN list_distinct([left(lower(unit), 64), left(ltrim(lower(unit), 'v'), 64)])
        ELSE list_distinct(list_transform(
            list_concat(
                CASE
                    WHEN regexp_full_match(unit, '[^-0-9_.@#+'']+''[sS]') THEN [left(unit, length(unit) - 2)]
                    WHEN regexp_full_match(unit, '[^-0-9_.@#+'']+(-[^-0-9_.@#+'']+)+') THEN []
                    ELSE [replace(unit, '''', '')]
                END,
                list_filter(fts.pieces(unit), lambda piece: NOT contains(unit, '''') OR length(piece) > 2)
            ),
            lambda part: left(fts.lowered(part), 64)
        ))
    END;

-- What stands in the index for a part. The extension's stem() is all that is needed of it, and only to build the index.
CREATE OR REPLACE MACRO fts.token(part) AS
    CASE WHEN regexp_full_match(part, '[a-z]+') THEN stem(part, 'english') ELSE part END;

-- All of the above: what the stock match_bm25 calls on a query.
CREATE OR REPLACE MACRO fts_main_documents.tokenize(s) AS
    list_transform(
        flatten(list_transform(
            flatten(list_transform(fts.runs(fts.folded(CAST(s AS VARCHAR))), lambda run: fts.units(run))),
            lambda unit: fts.parts(unit)
        )),
        lambda part: fts.token(part)
    );
