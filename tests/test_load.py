"""Law 6 in the warehouse, and what analysts find there: tables, views, comments, history."""

import base64
import hashlib
import json
from datetime import datetime
from pathlib import Path

import pytest

from ingestion import schema
from ingestion.errors import ConfigurationError
from resources.load import load
from resources.warehouse import Warehouse
from tests.scripted import KINDS, REFUSED, Complete, Listed, document, owning
from tests.support import Site

GOOD = ["good-1", "good-2", "good-3"]

HOSTILE: dict[str, tuple[dict[str, object], str]] = {
    "NUL bytes": ({"title": "a\0b", "content": "\0", "author": "\0x", "tags": ["\0t"]}, ""),
    "lone surrogates": (
        dict.fromkeys(("title", "content", "author", "channel", "thread_id"), "\udc80 \ud800")
        | {name: ["\udcff"] for name in ("assignees", "participants", "participants_raw", "tags")}
        | {"url": "https://example.org/\udc80", "metadata": {"\udc80": ["\udc80", "\ud83d\ude00 \u00e9"]}}
        | {"links": [["mentions", "\udc80"]], "attachments": [{"name": "\udc80", "media_type": "\udc80"}]},
        "",
    ),
    "10 MB": ({"content": "0123456789" * 1_000_000}, ""),
    "nothing but nulls": ({"author": None, "channel": None, "created_at": None, "updated_at": None}, ""),
    "huge numbers": ({"metadata": {"n": 10**400, "f": 1e308}}, ""),
    "deep metadata": ({"metadata": {"deep": json.loads("[" * 500 + "]" * 500)}}, ""),
    "null title": ({"title": None}, "title"),
    "number as content": ({"content": 5}, "content"),
    "text as list": ({"tags": "bug"}, "tags"),
    "number in a list": ({"assignees": [5]}, "assignees"),
    "null list": ({"tags": None}, ""),
    "naive date": ({"created_at": "2020-01-01T00:00:00"}, "created_at"),
    "date of another type": ({"updated_at": 5}, "updated_at"),
    "year 200": ({"created_at": "0200-01-01T00:00:00+00:00"}, "created_at"),
    "year 1, east": ({"created_at": "0001-01-01T00:00:00+14:00"}, "Overflow"),
    "year 9999": ({"updated_at": "9999-12-31T23:59:59+00:00"}, "updated_at"),
    "not a number": ({"metadata": {"n": float("nan")}}, "JSON"),
    "metadata that is no JSON": ({"metadata": "unserializable"}, "JSON"),
    "metadata that is a list": ({"metadata": [1]}, ""),
    "empty id": ({"source_id": ""}, "source_id: not empty"),
    "empty title": ({"title": ""}, "title: not empty"),
    "long title": ({"title": "x" * 10_001}, "title: at most 10000"),
    "upper-case tag": ({"tags": ["Bug"]}, "tags: lower case"),
    "empty tag": ({"tags": [""]}, "tags: no empty item"),
    "relative address": ({"url": "/a/b"}, "url: an absolute address"),
    "strange type": ({"doc_type": "Pull Request"}, "doc_type"),
    "unknown field": ({"colour": "red"}, "colour"),
    "broken attachment": ({"attachments": [{"media_type": "text/plain"}]}, "name"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_record_costs_one_record_at_most(tmp_path: Path, case: str) -> None:
    site = Site(tmp_path)
    fields, reason = HOSTILE[case]
    payload = owning(document("hostile") | fields)
    for name in ("good-1", "good-2", "hostile", "good-3"):
        site.upstream.put(name, payload if name == "hostile" else None)
    site.sync()
    rejects = site.rejects()
    if reason or rejects:
        assert list(rejects) == ["hostile"]
        assert reason in rejects["hostile"]
        assert rejects["hostile"]
        assert site.query("SELECT payload FROM rejects") == [(payload,)]
        assert sorted(site.live()) == GOOD
    else:
        assert sorted(site.live()) == [*GOOD, "hostile"]


def test_all_hostile_records_together_replay_as_they_were_loaded(tmp_path: Path) -> None:
    site = Site(tmp_path)
    for case, (fields, _) in HOSTILE.items():
        site.upstream.put(case, owning(document(case) | fields))
    site.census()
    assert set(site.rejects()) >= {case for case, (_, reason) in HOSTILE.items() if reason}
    before = site.tables()
    site.replay()
    assert site.tables() == before
    site.census()
    assert site.deleted() == set()


@pytest.mark.parametrize("error", ["value", "memory", "recursion"])
def test_a_mapping_that_raises_half_way_leaves_no_half(tmp_path: Path, error: str) -> None:
    site = Site(tmp_path)
    site.upstream.put("good")
    site.upstream.put("bad", owning(document("half"), raise_=error, text="this is why"))
    site.sync()
    assert set(site.live()) == {"good"}
    (reason,) = site.rejects().values()
    assert "this is why" in reason


def test_a_record_that_is_no_json_at_all_is_one_reject(tmp_path: Path) -> None:
    site = Site(tmp_path)
    for name, payload in {"empty": b"", "bytes": b"\xff\xfe\0", "number": b"5", "good": None}.items():
        site.upstream.put(name, payload)
    site.sync()
    assert set(site.rejects()) == {"empty", "bytes", "number"}
    assert set(site.live()) == {"good"}


def test_a_reject_leaves_when_its_record_passes(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.upstream.put("a", REFUSED)
    site.sync()
    ((first, last),) = site.query("SELECT first_seen_at, last_seen_at FROM rejects")
    assert first == last
    site.upstream.put("a", owning(raise_="value", text="still"))
    site.sync()
    ((again, later),) = site.query("SELECT first_seen_at, last_seen_at FROM rejects")
    assert (again, later > last) == (first, True)
    assert "still" in site.rejects()["a"]
    site.upstream.put("a")
    site.sync()
    assert site.rejects() == {}
    assert set(site.live()) == {"a"}


def test_documents_stay_when_their_record_is_later_refused(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.upstream.put("a", owning(document("a"), document("a/1"), document("a/2")))
    site.sync()
    site.upstream.put("a", REFUSED)
    site.sync()
    assert set(site.live()) == {"a", "a/1", "a/2"}
    site.upstream.put("a", owning(document("a", "new"), document("a/1", title="")))
    site.sync()
    assert site.live() == {"a": "new", "a/1": "text", "a/2": "text"}, "what passes is loaded, nothing is taken away"
    assert site.rejects() == {"a": "a/1: title: not empty"}
    site.upstream.put("a", owning(document("a", "new"), document("a/1")))
    site.sync()
    assert (set(site.live()), site.deleted(), site.rejects()) == ({"a", "a/1"}, {"a/2"}, {})


def test_a_refused_claim_to_a_document_takes_it_from_nobody(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.upstream.put("a", owning(document("shared")))
    site.sync()
    site.upstream.put("a", owning(document("shared", "new")))
    site.upstream.put("b", owning(document("shared", title="")))
    site.sync()
    assert site.live() == {"shared": "new"}
    assert set(site.rejects()) == {"b"}


def test_a_replay_tries_the_rejects_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(tmp_path)
    site.upstream.put("a", b'{"documents": [], "raise": "value", "text": "x"}')
    site.sync()
    assert set(site.rejects()) == {"a"}
    monkeypatch.setitem(KINDS, "complete", Mended)
    site.replay()
    assert site.rejects() == {}


class Mended(Complete):
    """The connector after its defect was found."""

    @staticmethod
    def documents(scope: str, record: object) -> tuple[()]:  # noqa: ARG004  # the contract's parameters
        return ()


def test_one_id_twice_in_a_page_and_over_pages_is_one_record_in_its_last_form(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.upstream.page_size = 2
    for name in ("a", "b", "c", "d"):
        site.upstream.put(name)
    site.upstream.before_request = lambda upstream: upstream.touch("a") if upstream.requests in {3, 4} else None
    site.sync()
    assert set(site.live()) == {"a", "b", "c", "d"}
    site.upstream.calm()
    site.upstream.put("a", owning(document("a", "first"), document("a", "second")))
    site.sync()
    assert site.live()["a"] == "second"
    assert site.doubles() == []


def test_a_document_may_move_from_record_to_record(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.upstream.put("a", owning(document("a"), document("moving")))
    site.upstream.put("b")
    site.sync()
    site.upstream.put("b", owning(document("b"), document("moving")))
    site.upstream.put("a")
    site.sync()
    assert set(site.live()) == {"a", "b", "moving"}
    assert site.query("SELECT record_id FROM documents WHERE source_id = 'moving'") == [("b",)]
    site.upstream.put("b")
    site.sync()
    assert site.deleted() == {"moving"}
    site.upstream.put("a", owning(document("a"), document("moving")))
    site.sync()
    assert site.deleted() == set()
    assert site.query("SELECT count(*) FROM document_versions WHERE source_id = 'moving'") == [(2,)]


def test_an_edit_is_a_version_and_a_later_date_alone_is_none(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.upstream.put("a", owning(document("a", "old", tags=["status:open"], updated_at="2020-01-01T00:00:00Z")))
    site.sync()
    site.upstream.put("a", owning(document("a", "new", tags=["status:closed"], updated_at="2020-01-02T00:00:00Z")))
    site.sync()
    site.upstream.put("a", owning(document("a", "new", tags=["status:closed"], updated_at="2020-01-03T00:00:00Z")))
    site.sync()
    versions = "SELECT content, tags, valid_to IS NULL, day(updated_at) FROM document_versions ORDER BY valid_from"
    assert site.query(versions) == [("old", ["status:open"], False, 1), ("new", ["status:closed"], True, 3)]
    assert site.query("SELECT content, tags FROM documents") == [("new", ["status:closed"])]


def test_a_clock_that_is_set_back_makes_no_version_valid_before_the_one_it_replaces(tmp_path: Path) -> None:
    site = Site(tmp_path)
    begun = site.now
    for text in ("one", "two", "three"):
        site.upstream.put("a", owning(document("a", text)))
        site.sync()
        site.now = begun.replace(year=begun.year - 1)
    versions = site.query("SELECT content, valid_from, valid_to FROM document_versions ORDER BY content = 'one' DESC")
    assert versions[0][0] == "one"
    assert all(valid_to is None or valid_to >= valid_from for _, valid_from, valid_to in versions)
    assert site.live() == {"a": "three"}


def test_a_load_that_fails_changes_nothing(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.upstream.put("a")
    site.fetch()
    with pytest.raises(ConfigurationError, match="'complete', which is not there"):
        list(load(site.connection, site.raw_log, {}, site.warehouse.attachments))
    assert all(rows == [] for rows in site.tables().values())
    site.load()
    assert set(site.live()) == {"a"}


def test_what_comes_before_a_batch_that_cannot_be_loaded_stays(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.upstream.put("a")
    site.fetch()
    site.kind = Listed
    site.upstream.put("b")
    site.fetch()
    kinds = {"complete": Complete}
    with pytest.raises(ConfigurationError, match="'listed', which is not there"):
        list(load(site.connection, site.raw_log, kinds, site.warehouse.attachments))
    assert set(site.live()) == {"a"}
    site.load()
    assert set(site.live()) == {"a", "b"}


def test_loaded_batches_tell_what_each_did(tmp_path: Path) -> None:
    site = Site(tmp_path)
    for name in ("a", "b", "c"):
        site.upstream.put(name, owning(document(name), document(f"{name}/1")))
    site.sync()
    site.upstream.put("a", owning(document("a", "new")))
    site.upstream.put("b", REFUSED)
    site.sync()
    site.upstream.delete("c")
    site.census()
    counts = (
        "SELECT created_count, updated_count, tombstoned_count, rejected_count FROM loaded_batches ORDER BY sequence"
    )
    assert site.query(counts) == [(6, 0, 0, 0), (0, 1, 1, 1), (0, 0, 2, 0)]


def test_every_table_view_and_column_has_a_comment(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.upstream.put("a")
    site.sync()
    tables = site.query(
        "SELECT table_name, comment FROM duckdb_tables() WHERE NOT internal AND NOT temporary UNION ALL "
        "SELECT view_name, comment FROM duckdb_views() WHERE NOT internal AND NOT temporary"
    )
    assert {name for name, _ in tables} >= {*schema.TABLES, "documents", "documents_all", "threads", "sync_status"}
    assert [name for name, comment in tables if not comment] == []
    columns = site.query(
        "SELECT table_name, column_name, comment FROM duckdb_columns() "
        "WHERE NOT internal AND database_name = current_database()"
    )
    assert [column[:2] for column in columns if not column[2]] == []


@pytest.mark.parametrize("table", schema.TABLES)
def test_a_table_has_the_columns_of_the_schema(tmp_path: Path, table: str) -> None:
    rows = Site(tmp_path).query(
        "SELECT column_name, comment FROM duckdb_columns() WHERE table_name = $1 ORDER BY column_index", table
    )
    assert rows == [(column.name, column.description) for column in schema.TABLES[table][1]]


def test_the_history_can_be_asked_for_any_instant(tmp_path: Path) -> None:
    site = Site(tmp_path)
    instants: list[datetime] = []

    def moment() -> datetime:
        site.load()
        instants.append(site.clock())
        return instants[-1]

    site.upstream.put("z", owning())
    start = moment()
    site.upstream.put("a", owning(document("a", "one"), document("b")))
    site.census()
    first = moment()
    site.upstream.put("a", owning(document("a", "two")))
    site.census()
    second = moment()
    gone = site.upstream.delete("a")
    site.census()
    third = moment()
    site.upstream.restore(gone)
    site.census()
    fourth = moment()
    as_of = "SELECT source_id, content FROM documents_as_of($1) ORDER BY ALL"
    expected = [[], [("a", "one"), ("b", "text")], [("a", "two")], [], [("a", "two")]]
    assert [site.query(as_of, instant) for instant in instants] == expected
    between = "SELECT split_part(doc_id, ':', 3), change FROM changes_between($1, $2)"
    assert site.query(between, start, first) == [("a", "created"), ("b", "created")]
    assert site.query(between, first, second) == [("a", "updated"), ("b", "tombstoned")]
    assert site.query(between, second, third) == [("a", "tombstoned")]
    assert site.query(between, third, fourth) == [("a", "revived")]
    assert len(site.query(between, start, fourth)) == 6


def test_a_thread_is_its_documents_in_order(tmp_path: Path) -> None:
    site = Site(tmp_path)
    told = {"thread_id": "t", "created_at": "2020-01-02T00:00:00Z"}
    site.upstream.put("comment", owning(document("comment", "and then", **told)))
    site.upstream.put("issue", owning(document("issue", "first", **told | {"created_at": "2020-01-01T00:00:00Z"})))
    site.upstream.put("undated", owning(document("undated", "who knows when", thread_id="t")))
    site.upstream.put("alone")
    site.sync()
    threads = site.query("SELECT thread_id, title, content, documents_count, created_at FROM threads")
    assert [row[:4] for row in threads] == [("t", "About issue", "first\n\nand then\n\nwho knows when", 3)]
    assert threads[0][4].isoformat() == "2020-01-01T00:00:00+00:00"
    site.upstream.delete("comment")
    site.census()
    assert site.query("SELECT content, len(doc_ids) FROM threads") == [("first\n\nwho knows when", 2)]


def test_links_attachments_and_duplicates_are_rows(tmp_path: Path) -> None:
    site = Site(tmp_path)
    file = {"name": "a.txt", "media_type": "text/plain", "content": base64.b64encode(b"bytes").decode()}
    named = {"name": "b.png", "media_type": "image/png", "url": "https://example.org/b.png"}
    linked = document("a", links=[["mentions", "https://example.org"], ["blocks", "source:scope:b"]])
    site.upstream.put("a", owning(linked | {"attachments": [file, named], "title": "Same"}))
    site.upstream.put("b", owning(document("b", title="Same", attachments=[file])))
    site.sync()
    digest = hashlib.sha256(b"bytes").hexdigest()
    links = site.query("SELECT doc_id, relation, target FROM links ORDER BY ALL")
    assert links == [
        ("source:scope:a", "blocks", "source:scope:b"),
        ("source:scope:a", "mentions", "https://example.org"),
    ]
    attachments = site.query("SELECT doc_id, name, size_bytes, sha256, is_deleted FROM attachments ORDER BY ALL")
    assert attachments == [
        ("source:scope:a", "a.txt", 5, digest, False),
        ("source:scope:a", "b.png", None, None, False),
        ("source:scope:b", "a.txt", 5, digest, False),
    ]
    assert (site.warehouse.attachments / digest[:2] / digest).read_bytes() == b"bytes"
    duplicates = site.query("SELECT documents_count, doc_ids, title FROM duplicates")
    assert duplicates == [(2, ["source:scope:a", "source:scope:b"], "Same")]
    site.upstream.delete("a")
    site.census()
    assert site.query("FROM links") == site.query("FROM duplicates") == []
    assert site.query("SELECT name FROM attachments WHERE is_deleted ORDER BY ALL") == [("a.txt",), ("b.png",)]


def test_the_status_of_a_scope_says_what_is_held(tmp_path: Path) -> None:
    site = Site(tmp_path)
    for number in range(30):
        site.upstream.put(f"r{number:02d}")
    site.upstream.put("bad", REFUSED)
    site.sync(max_pages=1)
    status = "SELECT is_caught_up, live_count, tombstoned_count, rejected_count, upstream_count FROM sync_status"
    assert site.query(status) == [(False, 3, 0, 0, None)]
    fetched = site.census()
    assert site.query(status) == [(True, 30, 0, 1, 31)]
    site.upstream.delete("r00")
    site.census()
    assert site.query(status) == [(True, 29, 1, 1, 30)]
    assert site.query("SELECT cursor, live_records_count, is_census_held FROM sync_status") == [
        (fetched.cursor, 30, False)
    ]
    site.upstream.delete(*[f"r{number:02d}" for number in range(1, 29)])
    site.census()
    assert site.query("SELECT missing_count, is_census_held, live_count FROM sync_status") == [(28, True, 29)]


def test_a_warehouse_of_another_format_is_refused_with_the_remedy(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.query("UPDATE warehouse SET format_version = 99")
    site.close()
    with pytest.raises(ConfigurationError, match="replay"), Warehouse(data=str(tmp_path)).connect():
        pass
