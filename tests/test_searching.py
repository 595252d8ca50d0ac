"""Search as people call it: conversations, Python, the command line, an attached file."""

from pathlib import Path

import duckdb
import pytest

from ingestion.errors import ConfigurationError
from resources.publish import publish
from resources.searching import Source
from resources.warehouse import Warehouse
from tests.scripted import document, owning
from tests.support import Site

TOLD = [
    ("first", "t1", "the battery of the heron bike", "2026-01-01T00:00:00Z"),
    ("second", "t1", "a battery recall, and the battery again", "2026-01-02T00:00:00Z"),
    ("third", "t2", "one battery", "2026-01-03T00:00:00Z"),
    ("alone", None, "a recall of something", "2026-01-04T00:00:00Z"),
    ("copy", None, "a recall of something", "2026-01-05T00:00:00Z"),
]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """A warehouse whose snapshot has two conversations and two documents outside of any, with the same text."""
    site = Site(tmp_path_factory.mktemp("searching"))
    for name, thread, text, updated_at in TOLD:
        told = document(name, text, title="Said", thread_id=thread, updated_at=updated_at)
        site.upstream.put(name, owning(told))
    site.sync()
    site.close()
    with site.warehouse.locked("publishing"):
        publish(site.warehouse)
    return site.warehouse


def asked(published: Warehouse, sql: str) -> list[tuple[object, ...]]:
    """What an analyst gets, whose DuckDB has no extension."""
    with duckdb.connect(str(published.snapshot.resolve()), read_only=True) as connection:
        connection.execute("SET autoinstall_known_extensions = false; SET autoload_known_extensions = false")
        return connection.execute(sql).fetchall()


def test_a_conversation_is_one_row_with_its_best_passage(published: Warehouse) -> None:
    rows = asked(published, "SELECT thread_id, documents_count, doc_id, snippet FROM search_threads('battery recall')")
    assert [row[:2] for row in rows if row[0]] == [("t1", 2), ("t2", 1)]
    (best,) = [row for row in rows if row[0] == "t1"]
    assert best[2] == "source:scope:second"
    assert "**battery** **recall**" in str(best[3])


def test_a_document_outside_of_any_conversation_is_one_by_itself(published: Warehouse) -> None:
    rows = asked(published, "SELECT doc_id, documents_count FROM search_threads('something') WHERE thread_id IS NULL")
    assert sorted(rows) == [("source:scope:alone", 1), ("source:scope:copy", 1)]


def test_filters_narrow_conversations(published: Warehouse) -> None:
    rows = asked(published, "SELECT thread_id FROM search_threads('battery', since := '2026-01-03', top_k := 5)")
    assert rows == [("t2",)]
    assert len(asked(published, "FROM search_threads('battery recall', top_k := 2)")) == 2


def test_python_gives_typed_hits(published: Warehouse) -> None:
    hits = published.search("battery recall", 1, scope="scope", until="2026-01-02")
    assert [(hit.doc_id, hit.thread_id, hit.is_deleted) for hit in hits] == [("source:scope:second", "t1", False)]


def test_every_match_is_counted_whether_its_text_is_another_ones_or_not(published: Warehouse) -> None:
    assert published.count() == 5
    assert published.count("recall") == 3
    assert len(published.search("recall")) == 2
    assert published.count("recall", thread_id="t1") == 1
    assert published.count("nowhere") == 0


def test_sources_say_what_there_is(published: Warehouse) -> None:
    (only,) = published.sources()
    assert isinstance(only, Source)
    assert (only.source, only.scope, only.documents_count) == ("source", "scope", 5)
    assert only.updated_at is not None
    assert only.updated_at.isoformat() == "2026-01-05T00:00:00+00:00"


def test_a_filter_that_cannot_be_read_is_named(published: Warehouse) -> None:
    with pytest.raises(ConfigurationError, match=r"the search cannot be done: .*yesterday"):
        published.search("battery", since="yesterday")


def test_nothing_published_is_said(tmp_path: Path) -> None:
    empty = Warehouse(data=str(tmp_path))
    for ask in (lambda: empty.search("x"), empty.count, empty.sources):
        with pytest.raises(ConfigurationError, match=r"run `python -m assets sync`"):
            ask()


def test_an_attached_file_is_searched_after_use(published: Warehouse) -> None:
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{published.snapshot.resolve()}' AS knowledge (READ_ONLY)")
        connection.execute("USE knowledge")
        assert len(connection.execute("FROM search('battery')").fetchall()) == 3
        assert len(connection.execute("FROM search_threads('battery')").fetchall()) == 2
