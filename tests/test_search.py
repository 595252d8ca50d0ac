"""search(): how texts are cut, what a query may say, every filter, and that no text is an error."""

# ruff: noqa: RUF001 -- characters that look alike are what this is about

import random
import string
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import duckdb
import pytest

from resources.tables import quoted
from tests.scripted import Upstream, document, owning
from tests.support import SOURCE, Site

COLUMNS = [
    "doc_id", "score", "title", "snippet", "url", "source", "scope", "doc_type", "author", "assignees", "tags",
    "updated_at", "is_deleted", "thread_id", "passage_start", "passage_end", "duplicates_count",
]  # fmt: skip

FOUND = [  # a query, and a text that it must find
    ("v1.5.5", "released v1.5.5 today"),
    ("1.5.5", "released v1.5.5 today"),
    ("V1.5.5", "released v1.5.5 today"),
    ("1.4.2", "since 1.4.2, it works"),
    ("v1.4.2", "since v1.4.2."),
    ("CVE-2024-1234", "fixed (CVE-2024-1234)"),
    ("cve-2024-1234", "fixed (CVE-2024-1234)"),
    ("c++", "written in C++."),
    ("C#", "written in C#, mostly"),
    (".net", "the .NET runtime"),
    ("#42", "closes #42."),
    ("max_retry_count", "set max_retry_count to 3"),
    ("retry", "set max_retry_count to 3"),
    ("count", "set max_retry_count to 3"),
    ("getHttpResponse", "call getHttpResponse() again"),
    ("gethttpresponse", "call getHttpResponse() again"),
    ("response", "call getHttpResponse() again"),
    ("parser", "the HTMLParser fails"),
    ("html", "the HTMLParser fails"),
    ("read-only", "a read-only file"),
    ("only", "a read-only file"),
    ("me@example.org", "write to <me@example.org>."),
    ("example", "write to <me@example.org>."),
    ("os.path.join", "call os.path.join(a, b)"),
    ("join", "call os.path.join(a, b)"),
    ("E1101", "pylint says E1101:"),
    ("resume", "her résumé is here"),
    ("résumé", "please resume the upload"),
    ("RÉSUMÉ", "her résumé is here"),
    ("re\u0301sume\u0301", "her résumé is here"),
    ("résumé", "another re\u0301sume\u0301, decomposed"),
    ("zurich", "aus Zürich"),
    ("strasse", "die Straße dort"),
    ("Straße", "die Strasse dort"),
    ("smorrebrod", "et smørrebrød"),
    ("москва", "город Москва, Россия"),
    ("МОСКВА", "город москва"),
    ("Οδυσσεύς", "ο ΟΔΥΣΣΕΎΣ επέστρεψε"),
    ("ΛΟΓΟΣ", "ο λόγος"),
    ("東京", "私は東京都に住む"),
    ("京都", "古都の京都市"),
    ("雨", "今日は雨だった"),
    ("佐藤", "担当は佐藤さんです"),
    ("カタカナ", "これはカタカナです"),
    ("กรุงเทพ", "ฉันอยู่กรุงเทพมหานคร"),
    ("서울", "나는 서울에 산다"),
    ("한국어", "저는 한국어를 배운다"),
    ("fullwidth", "ＦｕｌｌＷｉｄｔｈ letters"),
    ("１２３４", "the number 1234 here"),
    ("office", "the o\ufb03ce is open"),
    ("o\ufb03ce", "the office is closed"),
    ("it's", "and it\u2019s done"),
    ("it\u2019s", "and it's done"),
    ("don\u2019t", "we don't know"),
    ("nonbreaking", "a\u00a0nonbreaking\u00a0space"),
    ("a\u00a0nonbreaking", "a nonbreaking space"),
    ("🚀", "launched 🚀 today"),
    ("🚀", "launched🚀🚀today"),
    ("hyphenation", "soft hy\u00adphen\u00adation"),
    ("hy\u00adphenation", "hyphenation, hard"),
    ("zerowidth", "zero\u200dwidth"),
    ("recalls", "the battery was recalled"),
    ("connections", "one connection was lost"),
    ("привет", "Привет!"),
    ("שלום", "שלום עולם"),
    ("سلام", "سلام، دنیا"),
    ("नमस्ते", "नमस्ते दुनिया"),
    ("don't", "dont we know"),
]

LOST = [  # a query, and a text that it must not find
    ("c#", "written in c++ only"),
    ("c++", "written in c# only"),
    ("#42", "there are 43 of them"),
    ("1.5.5", "released 1.5.6"),
    ("東京", "京東"),
    ("cat", "concatenate"),
]

NAMED = [
    document(
        "alpha", "a heron by the river", doc_type="issue", author="ann", assignees=["Bo", "cy"],
        participants=["ann@example.org", "bo@example.org"], channel="birds", thread_id="t1",
        tags=["status:open", "label:bug"], updated_at="2026-01-01T00:00:00Z", title="First",
    ),
    document(
        "beta", "a heron by the sea", doc_type="page", author="bob", assignees=["dee"],
        participants=["bob@example.org"], channel="fish", thread_id="t2",
        tags=["status:closed", "label:bug"], updated_at="2026-01-02T00:00:00Z", title="Second heron",
    ),
    document(
        "gamma", "a heron by the lake", doc_type="note", author="cleo", assignees=["eve"],
        participants=["cleo@example.org"], channel="frogs", thread_id="t3",
        tags=["status:open", "label:feature"], updated_at="2026-01-03T00:00:00Z", title="Third",
    ),
]  # fmt: skip

FILTERS: list[tuple[str, object, set[str]]] = [
    ("source", SOURCE, {"alpha", "beta", "gamma", "delta"}),
    ("source", "elsewhere", set()),
    ("source", ["elsewhere", SOURCE], {"alpha", "beta", "gamma", "delta"}),
    ("scope", "scope", {"alpha", "beta", "gamma"}),
    ("scope", "other", {"delta"}),
    ("scope", ["other", "scope"], {"alpha", "beta", "gamma", "delta"}),
    ("source_id", "beta", {"beta"}),
    ("source_id", ["beta", "gamma"], {"beta", "gamma"}),
    ("doc_type", "issue", {"alpha"}),
    ("doc_type", ["issue", "page"], {"alpha", "beta"}),
    ("author", "ann", {"alpha"}),
    ("author", ["ann", "cleo"], {"alpha", "gamma"}),
    ("assignee", "cy", {"alpha"}),
    ("assignee", ["cy", "eve"], {"alpha", "gamma"}),
    ("participant", "bo@example.org", {"alpha"}),
    ("participant", "BO@example.org", {"alpha"}),
    ("participant", ["bob@example.org", "cleo@example.org"], {"beta", "gamma"}),
    ("channel", "birds", {"alpha"}),
    ("channel", ["birds", "fish"], {"alpha", "beta"}),
    ("thread_id", "t3", {"gamma"}),
    ("thread_id", ["t3", "t2"], {"beta", "gamma"}),
    ("tag_prefix", "status:open", {"alpha", "gamma"}),
    ("tag_prefix", "STATUS:OPEN", {"alpha", "gamma"}),
    ("tag_prefix", "label:", {"alpha", "beta", "gamma"}),
    ("tag_prefix", ["status:open", "label:bug"], {"alpha"}),
    ("tag_prefix", ["label:bug", "label:feature"], {"alpha", "beta", "gamma"}),
    ("tag_prefix", ["status:closed", "label:feature"], set()),
    ("since", "2026-01-02", {"beta", "gamma", "delta"}),
    ("since", "2026-01-02T00:00:00Z", {"beta", "gamma", "delta"}),
    ("since", "2026-01-02T00:00:01+00:00", {"gamma", "delta"}),
    ("since", "2026-01-02T02:00:00+02:00", {"beta", "gamma", "delta"}),
    ("since", "2026-01-02T00:00:00-02:00", {"gamma", "delta"}),
    ("until", "2026-01-02", {"alpha", "beta"}),
    ("until", "2026-01-01T23:59:59Z", {"alpha"}),
    ("until", "2026-01-02T01:00:00+02:00", {"alpha"}),
    ("until", "2026-01-02T02:00:00+02:00", {"alpha", "beta"}),
    ("status", "live", {"alpha", "beta", "gamma", "delta"}),
    ("status", "tombstoned", {"omega"}),
    ("status", "any", {"alpha", "beta", "gamma", "delta", "omega"}),
    ("title_only", True, {"beta", "delta"}),
    ("title_only", False, {"alpha", "beta", "gamma", "delta"}),
    ("match_all", True, {"alpha", "beta", "gamma", "delta"}),
    ("collapse", False, {"alpha", "beta", "gamma", "delta"}),
    ("top_k", 0, set()),
    ("top_k", 1, {"delta"}),
]

TITLES = [
    "Error: connection refused", "Connection refused (again)", "connection refused!", "Re: Connection refused",
    "Fwd: Re: Connection refused", "Connection to host-1 refused", "Connection to host-2 refused",
    "How to get there", "To be or not to be", "The the", "It is what it is", "A", "I", "C", "C++", "C#", "F#", ".NET",
    "???", "!", "...", "-", "*", '"quoted"', "'single'", '"', "100%", "50% off", "$PATH", "@me",
    "fix(core): drop it", "fix(core): keep it", "v1.5.5", "v1.5.6",
    "2026-01-01", "2026-01-02", "select * from t; --", "日本語", "日本", "Привет, мир", "🚀", "🚀🚀 launch", "No. 7",
    "foo_bar", "foo_baz", "fooBar", "What's new?", "What’s old?",
]  # fmt: skip

SIGNS = [
    *string.printable,
    *(f"{sign} heron" for sign in string.punctuation),
    *(f"heron{sign}" for sign in string.punctuation),
    *(f"{sign}heron" for sign in string.punctuation),
]  # fmt: skip

ODD = [
    '"', '""', '"""', '"heron', 'heron"', '"heron" "', '"a "b" c"', '-"', '-""', '-"heron', '"-heron"', '- "heron"',
    '"*"', '"heron*"', "*heron", "he*on", "heron**", "**", "-*", "-heron*", "--heron", "---", "-heron -sea", "- heron",
    "'; DROP TABLE document_versions; --", "' OR 1 = 1", "$1", "?", "%s", "{}", "NULL", "null", "heron AND sea",
    "heron OR sea", "NOT heron", "(heron", "heron)", "((", "[a-z", "a{99999}", "(?P<x>", "\\", "\\d", "\\x{110000}",
    ".*", "^heron$", "title:heron", "heron~2", "heron^2", "a\x00b", "\x00", "heron\x00", "\u0301", "\u0301\u0302 heron",
    "\u200d", "\u00ad", "\ufeff", "\u202e", "\u2028", "\ufffd", "\U0010ffff", "\ue000", "\u3000",
    "x" * 100_000, "heron " * 17_000, "é" * 50_000, "東" * 30_000, '"' * 100_000, "-" * 100_000, "a-" * 50_000,
    '"' + "a " * 50_000 + '"', " ".join(f"w{number}" for number in range(15_000)), "aB" * 50_000, "🚀" * 20_000,
    "ไทย", "မြန်မာ", "ភាសាខ្មែរ", "ລາວ", "བོད་ཡིག", "አማርኛ", "ქართული", "հայերեն", "עברית", "العربية", "हिन्दी", "বাংলা",
    "தமிழ்", "తెలుగు", "ಕನ್ನಡ", "മലയാളം", "සිංහල", "ไ", "ᏣᎳᎩ", "ᐃᓄᒃᑎᑐᑦ", "ᠮᠣᠩᠭᠣᠯ", "𐍈", "𝔥𝔢𝔯𝔬𝔫", "ﷺ", "ǅ", "İ", "ı", "ſ",
    "ẞ", "ΐ", "👩‍👩‍👧‍👦", "🇩🇪", "1️⃣", "½", "²", "①", "Ⅷ",
]  # fmt: skip


def made(folder: Path, documents: list[dict[str, object]]) -> Site:
    """A site that has loaded these documents, each of a record of its own."""
    site = Site(folder)
    site.upstream.page_size = 500
    for one in documents:
        site.upstream.put(str(one["source_id"]), owning(one))
    site.sync()
    return site


def ids(site: Site, query: str, arguments: str = "top_k := 500", *parameters: object) -> list[str]:
    """What a query finds, the best first."""
    rows = site.query(f"SELECT doc_id FROM search($1, {arguments})", query, *parameters)  # noqa: S608 -- our own
    return [doc_id.split(":", 2)[2] for (doc_id,) in rows]


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Every text of the tokenizer's tables, under its own name."""
    similar = ["max_retry_limit and retry_max_limit", "get the http response, get it", "me and you at example dot org"]
    every = dict.fromkeys([*(text for _, text in (*FOUND, *LOST)), *similar])
    site = made(tmp_path_factory.mktemp("texts"), [document(text, text, title="Untitled") for text in every])
    yield site
    site.close()


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Documents that differ in what the filters look at; one of them is gone upstream."""
    site = Site(tmp_path_factory.mktemp("named"))
    for one in (*NAMED, document("omega", "a heron that left", title="Gone")):
        site.upstream.put(str(one["source_id"]), owning(one))
    site.sync()
    site.upstream.delete("omega")
    site.census()
    site.upstreams["other"] = Upstream()
    told = document("delta", "Heron, heron!", title="A heron, a heron", updated_at="2026-01-04T00:00:00Z")
    site.upstreams["other"].put("delta", owning(told))
    site.sync("other")
    yield site
    site.close()


@pytest.fixture(scope="module")
def worded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A few short texts for the query language; the later ones are newer."""
    told = {
        "recall": "battery recall of the heron bikes",
        "reversed": "recall, then battery",
        "battery": "a battery alone",
        "recalling": "someone is recalling a name",
        "tokyo": "私は東京都に住む",
        "rain": "今日は雨だった",
        "inflected": "the connection was lost",
    }
    documents = [
        document(name, text, title=f"Text {number}", updated_at=f"2026-01-0{number}T00:00:00Z")
        for number, (name, text) in enumerate(told.items(), 1)
    ]
    signs = document("signs", "only its title asks", title="Why??? [draft]", updated_at="2025-01-01T00:00:00Z")
    site = made(tmp_path_factory.mktemp("worded"), [*documents, signs])
    yield site
    site.close()


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Several hundred documents of few words, some rare and some not; every fifth text is there twice."""
    chosen = random.Random(7)  # noqa: S311 -- the same texts each time
    texts = {" ".join(chosen.choices("abcdefgh", range(1, 9), k=chosen.randint(2, 30))) for _ in range(600)}
    documents = [document(f"d{n}", text, title=text[:3]) for n, text in enumerate(sorted(texts))]
    twins = [one | {"source_id": f"{one['source_id']}-twin", "title": "a h"} for one in documents[::5]]
    site = made(tmp_path_factory.mktemp("many"), [*documents, *twins])
    yield site
    site.close()


@pytest.fixture(scope="module")
def snapshot(named: Site) -> Path:
    """The published snapshot of the documents for the filters."""
    published = named.publish()
    assert published
    return published


@pytest.mark.parametrize(("query", "text"), FOUND)
def test_a_query_finds_what_is_written_otherwise(texts: Site, query: str, text: str) -> None:
    assert text in ids(texts, query)


@pytest.mark.parametrize(("query", "text"), LOST)
def test_a_query_does_not_find_what_only_looks_similar(texts: Site, query: str, text: str) -> None:
    assert text not in ids(texts, query)


@pytest.mark.parametrize(
    ("query", "better", "worse"),
    [
        ("max_retry_count", "set max_retry_count to 3", "max_retry_limit and retry_max_limit"),
        ("getHttpResponse", "call getHttpResponse() again", "get the http response, get it"),
        ("me@example.org", "write to <me@example.org>.", "me and you at example dot org"),
    ],
)
def test_a_whole_identifier_is_better_than_its_words(texts: Site, query: str, better: str, worse: str) -> None:
    found = ids(texts, query)
    assert found.index(better) < found.index(worse)


@pytest.mark.parametrize("text", list(dict.fromkeys(text for _, text in (*FOUND, *LOST))))
def test_a_text_finds_itself(texts: Site, text: str) -> None:
    assert text in ids(texts, text, "top_k := 3")


@pytest.mark.parametrize("text", list(dict.fromkeys(text for _, text in (*FOUND, *LOST))))
def test_a_text_as_a_phrase_finds_itself(texts: Site, text: str) -> None:
    assert text in ids(texts, f'"{text}"')


def test_any_word_is_enough_unless_all_are_asked_for(worded: Site) -> None:
    assert set(ids(worded, "battery recall")) == {"recall", "reversed", "battery", "recalling"}
    assert set(ids(worded, "battery recall", "match_all := true")) == {"recall", "reversed"}
    assert ids(worded, "battery nowhere", "match_all := true") == []


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ('"battery recall"', {"recall"}),
        ('"recall battery"', set()),
        ('"BATTERY Recall"', {"recall"}),
        ('"battery recall', {"recall"}),
        ("“battery recall”", {"recall"}),
        ('"battery recall" "heron bikes"', {"recall"}),
        ('"battery recall" nowhere', {"recall"}),
        ('"東京都に"', {"tokyo"}),
        ('"雨"', {"rain"}),
        ('"battery recalls"', {"recall"}),
        ('"nowhere to be found"', set()),
    ],
)
def test_a_phrase_is_its_words_one_after_the_other(worded: Site, query: str, expected: set[str]) -> None:
    assert set(ids(worded, query)) == expected


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("battery recall", "the battery\n\nrecall in two paragraphs"),
        ("battery recall", "the battery  recall, set wide"),
        ("battery recall", "the battery\r\nrecall"),
        ("battery  recall", "the battery recall"),
        ("battery recall", "Battery,\n  recall!"),
        ("charge - discharge", "a charge - discharge cycle"),
        ("charge discharge", "a charge - discharge cycle"),
        ("heron | sea", "| heron | sea |"),
    ],
)
def test_blanks_and_signs_between_the_words_of_a_phrase_do_not_count(tmp_path: Path, query: str, text: str) -> None:
    site = made(tmp_path, [document("a", text, title="Untitled")])
    assert ids(site, f'"{query}"') == ["a"]
    site.close()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("recal*", {"recall", "reversed", "recalling"}),
        ("RECALLI*", {"recalling"}),
        ("conn*", {"inflected"}),
        ("xyz*", set()),
        ("東京*", {"tokyo"}),
    ],
)
def test_a_prefix_finds_what_begins_so(worded: Site, query: str, expected: set[str]) -> None:
    found = set(ids(worded, query))
    assert found >= expected
    assert bool(found) == bool(expected)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("battery -recall", {"battery"}),
        ("-recall battery", {"battery"}),
        ('battery -"battery recall"', {"reversed", "battery"}),
        ("battery -recal*", {"battery"}),
        ("battery -nowhere", {"recall", "reversed", "battery"}),
        ("battery -battery", set()),
        ("battery -recalls", {"battery"}),
        ("recall - battery", {"recall", "reversed", "battery", "recalling"}),
        ("私 東京 -東京", set()),
        ("雨 -雨", set()),
        ("battery --recall", {"battery", "recall", "reversed", "recalling"}),
        ("battery -r", {"battery", "recall", "reversed"}),
    ],
)
def test_what_is_excluded_is_not_found(worded: Site, query: str, expected: set[str]) -> None:
    assert set(ids(worded, query)) == expected


def test_exclusions_alone_leave_out_of_the_newest(worded: Site) -> None:
    every = ids(worded, "")
    assert ids(worded, "-battery -connection") == [
        name for name in every if name not in {"recall", "reversed", "battery", "inflected"}
    ]


@pytest.mark.parametrize("query", ["", " ", "\n\t"])
def test_a_blank_query_gives_the_newest_first(worded: Site, query: str) -> None:
    assert ids(worded, query, "top_k := 3") == ["inflected", "rain", "tokyo"]


def test_no_query_at_all_is_a_blank_one(worded: Site) -> None:
    assert worded.query("SELECT count(*) FROM search(NULL)") == [(8,)]


@pytest.mark.parametrize("query", ["???", "??? ", "[", "] "])
def test_signs_alone_are_looked_for_in_titles(worded: Site, query: str) -> None:
    assert ids(worded, query) == ["signs"]


@pytest.mark.parametrize("query", ["connecting", "connected", "connects", "connections"])
def test_a_form_that_was_never_seen_is_looked_for_in_others(worded: Site, query: str) -> None:
    assert ids(worded, query) == ["inflected"]


@pytest.mark.parametrize(("name", "value", "expected"), FILTERS)
def test_a_filter_keeps_what_fits(named: Site, name: str, value: object, expected: set[str]) -> None:
    literal = quoted(value) if isinstance(value, str) else str(value)
    top_k = "" if name == "top_k" else "top_k := 20, "
    assert set(ids(named, "heron", f"{top_k}{name} := {literal}")) == expected
    assert set(ids(named, "heron", f"{top_k}{name} := $2", value)) == expected


@pytest.mark.parametrize(
    ("zone", "expected"), [(UTC, {"beta", "gamma", "delta"}), (timezone(timedelta(hours=-2)), {"gamma", "delta"})]
)
def test_an_instant_may_be_a_datetime_of_any_zone(named: Site, zone: timezone, expected: set[str]) -> None:
    since = datetime(2026, 1, 2, tzinfo=zone)
    assert set(ids(named, "heron", "since := $2", since)) == expected
    assert set(ids(named, "heron", "until := $2", since)) >= {"alpha", "beta"}


def test_filters_hold_together(named: Site) -> None:
    assert ids(named, "heron", "doc_type := ['issue', 'page'], tag_prefix := 'status:open', channel := 'birds'") == [
        "alpha"
    ]
    assert ids(named, "", "author := 'bob', since := '2026-01-03'") == []


@pytest.mark.parametrize(
    "name", sorted({name for name, _, _ in FILTERS} - {"status", "title_only", "match_all", "collapse", "top_k"})
)
def test_a_filter_that_is_null_filters_nothing(named: Site, name: str) -> None:
    assert len(ids(named, "heron", f"{name} := NULL")) == 4
    assert len(ids(named, "heron", f"{name} := $2", None)) == 4


@pytest.mark.parametrize("query", ["heron", "", "nowhere"])
@pytest.mark.parametrize("status", ["gone", "", "LIVE"])
def test_another_status_is_refused_with_what_there_is(named: Site, status: str, query: str) -> None:
    for arguments, parameters in (("status := $2", [status]), (f"status := {quoted(status)}", [])):
        with pytest.raises(duckdb.InvalidInputException, match="status is live, tombstoned or any"):
            ids(named, query, arguments, *parameters)


def test_a_filter_changes_no_score(named: Site) -> None:
    scores: dict[str, float] = dict(named.query("SELECT doc_id, score FROM search('heron lake')"))
    filtered = named.query("SELECT doc_id, score FROM search('heron lake', scope := 'scope', since := '2026-01-02')")
    assert {doc_id: scores[doc_id] for doc_id, _ in filtered} == pytest.approx(dict(filtered), rel=1e-12)


def test_the_same_text_counts_once_and_says_how_often_it_is_there(tmp_path: Path) -> None:
    twins = [document(f"twin{number}", "the same words", title=f"Twin {number}") for number in range(5)]
    site = made(tmp_path, [*twins, document("single", "other words here", title="Single")])
    counts = site.query("SELECT title, duplicates_count FROM search('words') ORDER BY duplicates_count")
    assert [count for _, count in counts] == [0, 4]
    assert len(ids(site, "words", "collapse := false")) == 6
    assert len(ids(site, "words", "top_k := 2")) == 2
    site.upstream.put("twin0", owning(document("twin0", "not that any more")))
    site.upstream.delete("twin1")
    site.census()
    assert site.query("SELECT duplicates_count FROM search('same')") == [(2,)]
    site.close()


@pytest.mark.parametrize("query", [*SIGNS, *ODD], ids=range(len(SIGNS) + len(ODD)))
def test_no_text_is_an_error(named: Site, query: str) -> None:
    assert len(ids(named, query, "top_k := 5")) <= 5


@pytest.mark.parametrize("query", ODD, ids=range(len(ODD)))
def test_no_text_is_an_error_with_filters(named: Site, query: str) -> None:
    assert len(ids(named, query, "top_k := 5, match_all := true, status := 'any', title_only := true")) <= 5


@pytest.mark.parametrize("query", ["a b c d", "e f", "a -b", "c*", "g"])
@pytest.mark.parametrize("collapse", [True, False])
@pytest.mark.parametrize("top_k", [1, 3, 10])
def test_the_best_are_the_same_however_many_are_asked_for(
    many: Site, query: str, top_k: int, *, collapse: bool
) -> None:
    sql = "SELECT score, duplicates_count FROM search($1, top_k := $2, collapse := $3)"
    every, best = (many.query(sql, query, count, collapse) for count in (1_000, top_k))
    assert [score for score, _ in best] == pytest.approx([score for score, _ in every[:top_k]], rel=1e-12)
    assert [count for _, count in best] == [count for _, count in every[:top_k]]


def test_what_scores_less_is_counted_as_a_duplicate_too(tmp_path: Path) -> None:
    titles = ["heron heron heron", "Something", "Something else", "Or other"]
    site = made(tmp_path, [document(f"d{n}", "a heron", title=title) for n, title in enumerate(titles)])
    counts = [
        site.query("SELECT doc_id, duplicates_count FROM search('heron', top_k := $1)", top_k) for top_k in (1, 2, 100)
    ]
    assert counts == [[("source:scope:d0", 3)]] * 3
    site.close()


def test_a_title_finds_its_document(tmp_path: Path) -> None:
    site = made(tmp_path, [document(f"{n}", f"Body {n} of it.", title=title) for n, title in enumerate(TITLES)])
    titles: dict[str, str] = dict(site.query("SELECT source_id, title FROM documents"))
    missed = {title: found for name, title in titles.items() if name not in (found := ids(site, title, "top_k := 3"))}
    site.close()
    assert missed == {}


def test_the_snapshot_is_searched_without_the_extension(snapshot: Path, named: Site) -> None:
    sql = "SELECT * EXCLUDE (updated_at) FROM search('heron river', top_k := 20)"
    with duckdb.connect(str(snapshot), read_only=True) as reader:
        reader.execute("SET autoload_known_extensions = false")
        assert reader.execute("FROM duckdb_extensions() WHERE extension_name = 'fts' AND loaded").fetchall() == []
        assert reader.execute(sql).fetchall() == named.query(sql)


def test_an_attached_snapshot_is_searched_after_use(snapshot: Path, named: Site) -> None:
    with duckdb.connect() as reader:
        reader.execute(f"ATTACH {quoted(str(snapshot))} AS s (READ_ONLY)")
        reader.execute("USE s")
        found = reader.execute("SELECT doc_id FROM search($1, status := $2)", ["heron", "any"]).fetchall()
    assert found == named.query("SELECT doc_id FROM search('heron', status := 'any')")


def test_the_columns_and_their_order(named: Site) -> None:
    assert [column[0] for column in named.connection.execute("FROM search('heron')").description or []] == COLUMNS
    ((scope, score, title, url, doc_type, author, assignees, tags, is_deleted, thread_id),) = named.query(
        "SELECT scope, score, title, url, doc_type, author, assignees, tags, is_deleted, thread_id FROM search('river')"
    )
    assert (scope, title, doc_type, author, thread_id, is_deleted) == ("scope", "First", "issue", "ann", "t1", False)
    assert (assignees, tags) == (["Bo", "cy"], ["status:open", "label:bug"])
    assert score > 0
    assert url.startswith("https://example.org/")


def test_the_rows_come_by_falling_score(named: Site) -> None:
    scores = [score for (score,) in named.query("SELECT score FROM search('heron river sea', status := 'any')")]
    assert scores == sorted(scores, reverse=True)
    assert len(scores) == 5


@pytest.mark.parametrize(
    ("query", "snippet"),
    [
        ("recalled", "battery **recall** of the heron bikes"),
        ('"heron bikes"', "battery recall of the **heron** **bikes**"),
        ("heron*", "battery recall of the **heron** bikes"),
    ],
)
def test_a_snippet_marks_the_words(worded: Site, query: str, snippet: str) -> None:
    assert (snippet,) in worded.query("SELECT snippet FROM search($1)", query)


def test_a_snippet_leaves_signs_unmarked(worded: Site) -> None:
    assert ("**recall**, then battery",) in worded.query("SELECT snippet FROM search('recall')")


def test_a_snippet_and_its_passage_are_from_where_the_words_stand(tmp_path: Path) -> None:
    filling = " ".join(f"filler{number}" for number in range(2_000))
    site = made(tmp_path, [document("long", f"{filling} the sought heron {filling}")])
    ((snippet, start, end, content),) = site.query(
        "SELECT h.snippet, h.passage_start, h.passage_end, d.content "
        "FROM search('sought heron') AS h JOIN documents AS d ON d.doc_id = h.doc_id"
    )
    assert "**sought** **heron**" in snippet
    assert snippet.startswith("… ")
    assert snippet.endswith(" …")
    assert len(snippet.split()) <= 32
    assert "sought" in content[start:end]
    assert 0 < start < end < len(content)
    site.close()
