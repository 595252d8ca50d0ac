"""Law 9: whatever happened to it, the index is the one that would be built from nothing.

But for the forms of words: one that was seen once stays known, which a query can only gain from.
"""

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingestion.errors import ConfigurationError
from resources import searchindex, tables
from resources.load import load
from resources.searchindex import TOKENIZER_VERSION, merge
from resources.sql import statement
from tests.sameindex import check_sums, differing, refill, scores, stock_scores
from tests.scripted import KINDS, Complete, Item, Listed, document, owning
from tests.support import Rows, Site

NAMES = ["a", "b", "c", "d"]
TITLES = ["heron", "Battery recall", "v1.5.5 of snake_case", "", "Résumé"]
TEXTS = [
    "",
    "heron",
    "the heron's recall of a battery",
    "battery battery 東京都",
    "v1.5.5 is getHttpResponse",
    "Re: c++ résumé",
]
PLAIN = ["heron", "battery recall", "snake case of", "1.5.5 response", "resume the heron", "nowhere", "東京"]
QUERIES = [*PLAIN, '"heron\'s recall"', "bat*", "heron -battery", "", "herons", "都", 'recalled -"a battery"']
INDEX = ["postings", "terms", "words", "lengths", "twins", "dead", "state"]

Step = tuple[str, str, str, str]

steps = st.lists(
    st.tuples(
        st.sampled_from(["put"] * 3 + ["retag", "touch", "delete", "restore", "merge", "fail", "fail late"]),
        st.sampled_from(NAMES),
        st.sampled_from(TITLES),
        st.sampled_from(TEXTS),
    ),
    min_size=1,
    max_size=12,
)


class History:
    """A site, and what happens to its documents."""

    def __init__(self, folder: Path) -> None:
        self.site = Site(folder)
        self.gone: dict[str, Item] = {}

    def happen(self, step: Step) -> None:
        action, name, title, text = step
        upstream = self.site.upstream
        match action:
            case "put":
                self.put(name, title, text)
                self.site.sync()
            case "retag" if name in upstream.items:
                (told,) = json.loads(upstream.items[name].payload)["documents"]
                upstream.put(name, owning(told | {"tags": [*told.get("tags", []), f"title:{title.lower()}"]}))
                self.site.sync()
            case "touch" if name in upstream.items:
                upstream.touch(name)
                self.site.sync()
            case "delete" if name in upstream.items:
                (self.gone[name],) = upstream.delete(name)
                self.site.census(approve_deletions=True)
            case "restore" if name in self.gone:
                upstream.restore([self.gone.pop(name)])
                self.site.census()
            case "merge":
                merge(self.site.connection)
            case "fail" | "fail late":
                self.put(name, title, text)
                self.fail(title, is_late=action == "fail late")

    def fail(self, title: str, *, is_late: bool) -> None:
        """Load in vain and roll back, at once or after a wave that went well; then load."""
        self.site.fetch()
        if is_late:
            self.site.kind = Listed
            self.site.upstream.put("last", owning(document("last", title)))
            self.site.fetch()
            self.site.kind = Complete
        self.load_without(*({"listed"} if is_late else KINDS))
        self.site.load()

    def put(self, name: str, title: str, text: str) -> None:
        self.gone.pop(name, None)
        self.site.upstream.put(name, owning(document(name, text, title=title)))

    def load_without(self, *names: str) -> None:
        """Load, which fails and rolls back where it needs one of these connectors."""
        kinds = {name: kind for name, kind in KINDS.items() if name not in names}
        with suppress(ConfigurationError):
            list(load(self.site.connection, self.site.raw_log, kinds, self.site.warehouse.attachments))


@contextmanager
def history(happened: list[Step]) -> Iterator[Site]:
    """A site to which all of this has happened."""
    folder = Path(tempfile.mkdtemp(prefix="tributary-index-"))
    made = History(folder)
    try:
        for step in happened:
            made.happen(step)
        yield made.site
    finally:
        made.site.close()
        shutil.rmtree(folder)


def answers(site: Site) -> dict[str, dict[str, float]]:
    return {query: scores(site, query) for query in QUERIES}


def hits(site: Site) -> Rows:
    """All that the live documents look like in an answer, with their twins counted."""
    return site.query(
        "SELECT * EXCLUDE (score), round(score, 9) FROM search('heron battery', top_k := 100) ORDER BY ALL"
    )


def index(site: Site) -> dict[str, Rows]:
    return {name: site.query(f"FROM fts.{name} ORDER BY ALL") for name in INDEX}


def merge_now(site: Site) -> None:
    merge(site.connection)


@settings(max_examples=settings().max_examples // 4)
@given(happened=steps)
def test_the_index_is_the_one_that_would_be_built_from_nothing(happened: list[Step]) -> None:
    with history(happened) as site:
        check_sums(site)
        before, seen = answers(site), hits(site)
        plain = {query: before[query] for query in PLAIN}
        assert differing(plain, {query: stock_scores(site, query) for query in PLAIN}) == []
        for renew in (merge_now, refill, Site.replay):
            renew(site)
            check_sums(site)
            assert differing(before, answers(site)) == []
            assert hits(site) == seen
        assert differing(plain, {query: stock_scores(site, query) for query in PLAIN}) == []


EDITED: list[Step] = [
    ("put", "a", "heron", "the heron's recall of a battery"),
    ("put", "b", "heron", "heron"),
    ("put", "c", "Résumé", "heron"),
    ("put", "a", "Battery recall", "battery battery 東京都"),
    ("put", "b", "snake_case", "heron"),
    ("delete", "c", "", ""),
]


def test_a_title_alone_that_changes_is_found_and_the_old_one_is_not(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.upstream.put("a", owning(document("a", "text", title="Old")))
    site.sync()
    site.upstream.put("a", owning(document("a", "text", title="New")))
    site.sync()
    assert [len(scores(site, query)) for query in ("old", "new", "text")] == [0, 1, 1]


def test_an_edit_of_anything_but_the_text_costs_the_index_nothing(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.upstream.put("a", owning(document("a", "text", title="Title")))
    site.sync()
    before = index(site)
    site.upstream.put("a", owning(document("a", "text", title="Title", tags=["status:open"])))
    site.sync()
    (item,) = site.upstream.delete("a")
    site.census(approve_deletions=True)
    site.upstream.restore([item])
    site.census()
    assert site.query("SELECT count(*) FROM document_versions") == [(3,)]
    assert index(site) == before


def test_an_empty_index_answers_and_merges(tmp_path: Path) -> None:
    site = Site(tmp_path)
    assert answers(site) == {query: {} for query in QUERIES}
    merge(site.connection)
    refill(site)
    assert answers(site) == {query: {} for query in QUERIES}


def test_a_load_that_fails_leaves_the_index_as_it_was(tmp_path: Path) -> None:
    made = History(tmp_path)
    for step in EDITED:
        made.happen(step)
    before = index(made.site)
    made.site.upstream.put("d", owning(document("d", "another text")))
    made.site.fetch()
    made.load_without(*KINDS)
    assert index(made.site) == before
    made.site.load()
    assert set(scores(made.site, "another")) == {"source:scope:d"}


def test_every_table_of_the_index_keeps_its_comment(tmp_path: Path) -> None:
    site = Site(tmp_path)
    comments = "SELECT table_name, comment FROM duckdb_tables() WHERE schema_name = 'fts' ORDER BY ALL"
    before = site.query(comments)
    assert sorted(name for name, comment in before if comment) == sorted(INDEX)
    merge(site.connection)
    assert site.query(comments) == before


def test_a_merge_is_kept_when_the_file_is_opened_again(tmp_path: Path) -> None:
    made = History(tmp_path)
    for step in EDITED:
        made.happen(step)
    merge(made.site.connection)
    before = index(made.site)
    made.site.close()
    assert index(made.site) == before


def test_a_load_merges_when_that_pays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = History(tmp_path)
    for step in EDITED:
        made.happen(step)
    assert made.site.query("FROM fts.dead") != []
    monkeypatch.setattr(searchindex, "_MERGE_ROWS", 1)
    found = answers(made.site)
    made.site.load()
    assert made.site.query("FROM fts.dead") == []
    assert made.site.query("SELECT merged_count = (SELECT count(*) FROM fts.postings) FROM fts.state") == [(True,)]
    assert differing(found, answers(made.site)) == []


@pytest.mark.parametrize("chunk", [1, 2, 1_000])
def test_another_tokenizer_fills_the_index_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(searchindex, "_REFILL_DOCUMENTS", chunk)
    made = History(tmp_path)
    for step in EDITED:
        made.happen(step)
    before, seen = answers(made.site), hits(made.site)
    refill(made.site)
    assert made.site.query("SELECT tokenizer_version FROM fts.state") == [(TOKENIZER_VERSION,)]
    assert differing(before, answers(made.site)) == []
    assert hits(made.site) == seen
    check_sums(made.site)
    made.happen(("put", "d", "heron", "a later heron"))
    assert "source:scope:d" in scores(made.site, "later")
    check_sums(made.site)


def test_a_refill_that_fails_midway_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = History(tmp_path)
    for step in EDITED:
        made.happen(step)
    found = answers(made.site)
    made.site.query("UPDATE fts.state SET tokenizer_version = 0")
    before = index(made.site)
    with monkeypatch.context() as patch:
        patch.setattr(searchindex, "_REFILL_DOCUMENTS", 1)
        patch.setattr(searchindex, "statement", failing_at("search/index", 2))
        with pytest.raises(RuntimeError, match="the power fails"):
            made.site.load()
    assert index(made.site) == before
    assert differing(found, answers(made.site)) == []
    made.site.load()
    assert made.site.query("SELECT tokenizer_version FROM fts.state") == [(TOKENIZER_VERSION,)]
    assert differing(found, answers(made.site)) == []


@pytest.mark.parametrize("failing", ["search/merge", "search/comments"])
def test_a_merge_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    made = History(tmp_path)
    for step in EDITED:
        made.happen(step)
    before = index(made.site)
    with monkeypatch.context() as patch:
        patch.setattr(searchindex, "statement", failing_at(failing, 1))
        with pytest.raises(RuntimeError, match="the power fails"):
            merge(made.site.connection)
    assert index(made.site) == before
    merge(made.site.connection)


def test_a_form_stays_known_when_no_document_has_it_any_more(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.upstream.put("a", owning(document("a", "they were running")))
    site.upstream.put("b", owning(document("b", "a run")))
    site.sync()
    site.upstream.put("a", owning(document("a", "something else")))
    site.sync()
    merge(site.connection)
    assert set(scores(site, "running")) == {"source:scope:b"}


def test_a_warehouse_that_died_in_the_making_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(tables, "statement", failing_at("search/search", 1))
        with pytest.raises(RuntimeError, match="the power fails"):
            _ = site.connection
    assert (tmp_path / "new.tmp").exists()
    site.close()
    (tmp_path / "new.tmp").write_bytes(b"half a file")
    (tmp_path / "new.tmp.wal").write_bytes(b"half a log")
    again = Site(tmp_path)
    again.upstream.put("a", owning(document("a", "heron")))
    again.sync()
    assert set(scores(again, "heron")) == {"source:scope:a"}
    assert list(tmp_path.glob("new.tmp*")) == []


def failing_at(name: str, call: int) -> Callable[[str], str]:
    """A `statement` that dies when it is asked for this one for the n-th time."""
    calls = 0

    def dying(asked: str) -> str:
        nonlocal calls
        calls += asked == name
        if asked == name and calls == call:
            raise RuntimeError("the power fails")
        return statement(asked)

    return dying
