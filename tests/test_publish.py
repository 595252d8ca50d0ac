"""Law 7: readers have a snapshot that never changes under them; a new one is swapped in whole, and only when needed."""

import random
from pathlib import Path

import duckdb
import pytest

from ingestion import schema
from resources.publish import KEPT
from tests.scripted import document, owning
from tests.support import Rows, Site

COMMENTS = (
    "SELECT 'table', table_name, '', comment FROM duckdb_tables() WHERE NOT internal UNION ALL "
    "SELECT 'view', view_name, '', comment FROM duckdb_views() WHERE NOT internal UNION ALL "
    "SELECT 'column', table_name, column_name, comment FROM duckdb_columns() WHERE NOT internal ORDER BY ALL"
)


def edit(site: Site, text: str) -> None:
    site.upstream.put("a", owning(document("a", text)))
    site.sync()


def ask(path: Path, sql: str) -> Rows:
    with duckdb.connect(str(path), read_only=True) as connection:
        return connection.execute(sql).fetchall()


def files(site: Site) -> set[str]:
    return {path.name for path in site.warehouse.published.iterdir()}


def current(site: Site) -> Path:
    path = site.warehouse.current()
    assert path
    return path


def test_analysts_find_everything_in_the_snapshot(tmp_path: Path) -> None:
    site = Site(tmp_path)
    assert site.warehouse.current() is None
    edit(site, "first")
    expected = {sql: site.query(sql) for sql in ("FROM documents", "FROM document_versions", "FROM sync_status")}
    site.publish()
    assert current(site) == site.warehouse.snapshot.resolve()
    assert {sql: ask(current(site), sql) for sql in expected} == expected
    assert ask(current(site), "SELECT content FROM documents_as_of('2100-01-01')") == [("first",)]
    assert ask(current(site), "SELECT change FROM changes_between('2020-01-01', '2100-01-01')") == [("created",)]
    comments = ask(current(site), COMMENTS)
    assert len(comments) > 100
    assert [row for row in comments if not row[3]] == []


def test_the_snapshot_can_be_attached_under_any_name(tmp_path: Path) -> None:
    site = Site(tmp_path)
    edit(site, "first")
    site.publish()
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{site.warehouse.snapshot}' AS other (READ_ONLY)")
        for name in ("documents", "documents_all", "threads", "links", "attachments", "duplicates", "sync_status"):
            assert connection.execute(f"FROM other.{name}").description
        assert connection.execute("SELECT content FROM other.documents").fetchall() == [("first",)]


def test_nothing_is_copied_when_nothing_changed(tmp_path: Path) -> None:
    site = Site(tmp_path)
    edit(site, "first")
    assert site.publish()
    before = files(site)
    assert site.publish() is None
    site.census()
    site.publish()
    again = files(site)
    site.census()
    assert site.publish() is None
    assert files(site) == again
    assert len(again) == len(before) + 1, "the first census was news"


def test_a_reader_keeps_its_snapshot_through_ten_publishes(tmp_path: Path) -> None:
    site = Site(tmp_path)
    edit(site, "first")
    site.publish()
    with duckdb.connect(str(current(site)), read_only=True) as reader:
        for number in range(10):
            edit(site, f"edit {number}")
            assert site.publish()
            assert ask(current(site), "SELECT content FROM documents") == [(f"edit {number}",)]
            assert reader.execute("SELECT content FROM documents").fetchall() == [("first",)]
            assert reader.execute("SELECT count(*) FROM document_versions").fetchall() == [(1,)]
    assert len(files(site)) == KEPT + 1


def test_three_snapshots_are_kept_and_the_newest_is_current(tmp_path: Path) -> None:
    site = Site(tmp_path)
    published = []
    for number in range(5):
        edit(site, f"edit {number}")
        published.append(site.publish())
    assert files(site) == {*(path.name for path in published[-3:] if path), "current.duckdb"}
    assert current(site) == published[-1]


def test_a_replay_is_published(tmp_path: Path) -> None:
    site = Site(tmp_path)
    edit(site, "first")
    first = site.publish()
    site.replay()
    second = site.publish()
    assert second
    assert second != first
    assert ask(second, "SELECT content FROM documents") == [("first",)]


def test_a_publish_that_was_killed_is_made_good(tmp_path: Path) -> None:
    site = Site(tmp_path)
    edit(site, "first")
    site.publish()
    (site.warehouse.published / "123.tmp").write_bytes(b"half a copy")
    (site.warehouse.published / "current.duckdb.tmp").symlink_to("nowhere")
    (site.warehouse.path.with_name("compact.tmp")).write_bytes(b"half a copy")
    edit(site, "second")
    site.publish()
    assert ask(current(site), "SELECT content FROM documents") == [("second",)]
    assert not [name for name in files(site) if ".tmp" in name]


def test_a_snapshot_that_was_lost_is_made_again(tmp_path: Path) -> None:
    site = Site(tmp_path)
    edit(site, "first")
    site.publish()
    current(site).unlink()
    assert site.publish()
    assert ask(current(site), "SELECT content FROM documents") == [("first",)]


def test_the_data_folder_can_be_moved(tmp_path: Path) -> None:
    site = Site(tmp_path / "old")
    edit(site, "first")
    site.publish()
    site.close()
    (tmp_path / "old").rename(tmp_path / "new")
    assert ask(tmp_path / "new" / "published" / "current.duckdb", "SELECT content FROM documents") == [("first",)]


@pytest.fixture
def sparse(tmp_path: Path) -> Site:
    """A warehouse of which most is free: large records were refused, and then passed."""
    site = Site(tmp_path)
    site.upstream.page_size = 50
    made = random.Random(0)  # noqa: S311  # bytes that do not compress
    for number in range(100):
        ballast = made.randbytes(400_000)
        site.upstream.put(f"r{number:03d}", b"not json " + ballast)
    site.sync()
    site.publish()
    assert len(site.rejects()) == 100
    for number in range(100):
        site.upstream.put(f"r{number:03d}")
    site.upstream.put("r000", owning(document("r000", thread_id="t", links=[["mentions", "x"]])))
    site.census()
    return site


def test_a_compacted_snapshot_has_everything_and_is_small(sparse: Site) -> None:
    old = current(sparse).stat().st_size
    tables = {name: sparse.query(f"FROM {name} ORDER BY ALL") for name in schema.TABLES}
    comments = sparse.query(COMMENTS.replace("NOT internal", "NOT internal AND database_name = current_database()"))
    assert sparse.publish()
    new = current(sparse)
    assert new.stat().st_size < old / 4
    assert {name: ask(new, f"FROM {name} ORDER BY ALL") for name in tables} == tables
    assert ask(new, COMMENTS) == comments
    assert ask(new, "SELECT count(*) FROM documents") == [(100,)]
    assert ask(new, "SELECT count(*) FROM search('text', top_k := 1000, collapse := false)") == [(100,)]
    assert ask(new, "SELECT count(*) FROM documents_as_of('2100-01-01')") == [(100,)]
    assert ask(new, "SELECT count(*) FROM changes_between('2020-01-01', '2100-01-01')") == [(100,)]
    for view in ("threads", "links", "duplicates", "sync_status"):
        assert ask(new, f"FROM {view}") == sparse.query(f"FROM {view}")
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{new}' AS other (READ_ONLY)")
        assert connection.execute("SELECT count(*) FROM other.documents").fetchall() == [(100,)]


def test_a_compacted_warehouse_goes_on(sparse: Site) -> None:
    sparse.publish()
    sparse.upstream.put("r000", owning(document("r000", "later")))
    sparse.upstream.delete("r001")
    sparse.census()
    assert sparse.live()["r000"] == "later"
    assert sparse.deleted() == {"r001"}
    assert sparse.doubles() == []
    assert sparse.publish()
    before = sparse.tables()
    sparse.replay()
    assert sparse.tables() == before
