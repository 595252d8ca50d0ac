"""The raw log: what goes in comes out, one folder per scope, on any file system."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

from ingestion import schema
from ingestion.errors import ConnectorError
from ingestion.model import Batch, CensusSummary, Record, doc_id
from ingestion.normalize import storable
from resources.batches import read, record_rows, to_records
from resources.rawlog import RawLog, ScopeLog, folder_name

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=20)  # surrogates and controls too
SUMMARY = CensusSummary(
    live_count=1,
    missing_count=2,
    gone_count=1,
    is_held=False,
    is_approved=True,
    reason="2 of 3 are missing",
    trusted_account="alice",
)
HARMLESS = Record("a", "note", b"{}", "application/json", NOW, {"url": "https://example.org"})


def batch(log: ScopeLog, sequence: int = 1) -> Batch:
    return Batch(
        source=log.source,
        scope=log.scope,
        sequence=sequence,
        kind="records",
        path=log.path(sequence, "records"),
        connector="complete",
        connector_version=3,
        written_at=NOW,
        since=None,
        cursor='["opaque", "\u00e9"]',
        is_caught_up=False,
        resumes_at=NOW + timedelta(hours=1),
        records_count=1,
        account="alice",
    )


@pytest.mark.parametrize("kind", ["local", "subtree", "in memory"])
def test_what_is_written_is_read_again_on_any_file_system(tmp_path: Path, kind: str) -> None:
    filesystems: dict[str, tuple[fs.FileSystem, str]] = {
        "local": (fs.LocalFileSystem(), str(tmp_path)),
        "subtree": (fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()), "raw"),
        "in memory": (fs._MockFileSystem(), "raw"),
    }
    filesystem, root = filesystems[kind]
    log = ScopeLog("source", "scope", filesystem, f"{root}/source/scope")
    assert log.last() is None
    assert list(log.after(0)) == []
    first = batch(log)
    census = replace(
        batch(log, 2), kind="census", path=log.path(2, "census"), census=SUMMARY, census_sequence=2, resumes_at=None
    )
    log.write(first, record_rows([HARMLESS], NOW))
    log.write(census, [{"source_id": "b", "verdict": "gone"}])
    assert log.last() == census
    assert list(log.after(0)) == [first, census]
    assert list(log.after(1)) == [census]
    assert to_records(log.read(first)) == [HARMLESS]
    assert log.read(first).schema.remove_metadata() == schema.arrow(schema.RAW)
    assert log.read(census).to_pylist() == [{"source_id": "b", "verdict": "gone"}]
    assert log.read(first, ["source_id"]).column_names == ["source_id"]


def test_the_log_of_a_uri_is_that_of_the_path(tmp_path: Path) -> None:
    by_path = RawLog(root=str(tmp_path / "raw"), locks=str(tmp_path))
    by_uri = RawLog(root=(tmp_path / "raw").as_uri(), locks=str(tmp_path))
    log = by_uri.scope("source", "scope")
    log.write(batch(log), record_rows([HARMLESS], NOW))
    assert by_path.scope("source", "scope").last() == by_uri.scope("source", "scope").last() == batch(log)
    assert [(one.source, one.scope) for one in by_path.scopes()] == [("source", "scope")]


def test_no_log_has_no_scopes(tmp_path: Path) -> None:
    assert RawLog(root=str(tmp_path / "raw"), locks=str(tmp_path)).scopes() == []


@given(
    source_id=ANY_TEXT,
    record_type=ANY_TEXT,
    media_type=ANY_TEXT,
    payload=st.binary(max_size=50),
    attributes=st.dictionaries(ANY_TEXT, ANY_TEXT, max_size=2),
    updated_at=st.none() | st.datetimes(timezones=st.just(UTC)),
)
def test_any_record_comes_out_as_it_went_in(  # noqa: PLR0913, PLR0917  # the fields of a record
    source_id: str,
    record_type: str,
    media_type: str,
    payload: bytes,
    attributes: dict[str, str],
    updated_at: datetime | None,
) -> None:
    record = Record(source_id, record_type, payload, media_type, updated_at, attributes)
    rows = record_rows([record], NOW)
    table = pa.Table.from_pylist(rows, schema.arrow(schema.RAW))
    (again,) = to_records(table)
    stored = replace(
        record,
        source_id=storable(source_id),
        record_type=storable(record_type),
        media_type=storable(media_type),
    )
    assert again == stored
    assert record_rows([again], NOW) == rows, "a record that is read and written again has the same hash"


@pytest.mark.parametrize(
    "changed",
    [
        {"payload": b"[]"},
        {"record_type": "page"},
        {"media_type": "text/plain"},
        {"attributes": {"url": "https://example.org/b"}},
        {"updated_at": NOW + timedelta(microseconds=1)},
        {"updated_at": None},
        {"record_type": "notea", "media_type": "pplication/json"},
    ],
    ids=str,
)
def test_whatever_differs_in_a_record_shows_in_its_hash(changed: dict[str, object]) -> None:
    one, other = record_rows([HARMLESS, replace(HARMLESS, **changed)], NOW)  # type: ignore[arg-type]
    assert one["record_hash"] != other["record_hash"]


def test_the_zone_and_the_time_of_fetching_do_not_show_in_the_hash() -> None:
    elsewhere = NOW.astimezone(timezone(timedelta(hours=5)))
    (one,) = record_rows([HARMLESS], NOW)
    (other,) = record_rows([replace(HARMLESS, updated_at=elsewhere)], NOW + timedelta(days=1))
    assert one["record_hash"] == other["record_hash"]


def test_a_time_without_a_zone_is_the_connectors_error() -> None:
    with pytest.raises(ConnectorError, match="without a time zone"):
        record_rows([replace(HARMLESS, updated_at=NOW.replace(tzinfo=None))], NOW)


@pytest.mark.parametrize("year", [1, 9999])
@pytest.mark.parametrize("hours", [-14, 14])
def test_a_time_at_the_edge_of_the_calendar_costs_nothing(year: int, hours: int) -> None:
    day = (1, 1) if year == 1 else (12, 31)
    record = replace(HARMLESS, updated_at=datetime(year, *day, 12, tzinfo=timezone(timedelta(hours=hours))))
    (row,) = record_rows([record], NOW)
    assert row["updated_at"] is None or row["updated_at"].tzinfo == UTC


HOSTILE_SCOPES = [
    *("a", "A", "aB", "Ab", "é", "É", "e\u0301", "owner/repo", "owner%2Frepo", "owner%2frepo", "Owner/Repo"),
    *(".", "..", "../..", "../../etc", "/etc", "/", "\\", ".hidden", ". ", " ", "a b", "a+b", "a,b", "~", "con", "nul"),
    *("x" * 600, "X" * 600, "x" * 599 + "y", "日" * 600, "\U0001f600", "قائمة", "a:b", "a*?<>|b", "%", "%25", "a\tb"),
]


def test_every_scope_has_a_folder_of_its_own_whatever_its_name(tmp_path: Path) -> None:
    names = {scope: folder_name(scope) for scope in HOSTILE_SCOPES}
    assert len({name.lower() for name in names.values()}) == len(HOSTILE_SCOPES), "on file systems without case, too"
    for name in names.values():
        assert 0 < len(name.encode()) <= 100
        assert "/" not in name
        assert not name.startswith(".")
    raw_log = RawLog(root=str(tmp_path / "raw"), locks=str(tmp_path))
    for scope in HOSTILE_SCOPES:
        log = raw_log.scope("source", scope)
        log.write(batch(log), record_rows([HARMLESS], NOW))
    assert sorted(log.scope for log in raw_log.scopes()) == sorted(HOSTILE_SCOPES)
    assert {path.name for path in tmp_path.iterdir()} == {"raw"}
    assert {path.name for path in (tmp_path / "raw").iterdir()} == {"source"}


@given(*[st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)] * 2)
def test_two_scopes_share_a_folder_only_if_they_are_one(left: str, right: str) -> None:
    assert (folder_name(left).lower() == folder_name(right).lower()) == (left == right)


def test_a_foreign_file_in_the_log_is_named_and_not_misread(tmp_path: Path) -> None:
    log = RawLog(root=str(tmp_path / "raw"), locks=str(tmp_path)).scope("source", "scope")
    path = Path(log.path(1, "records"))
    path.parent.mkdir(parents=True)
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(ConnectorError, match="not a raw batch of format 1"):
        log.last()


def test_litter_beside_the_batches_is_not_seen(tmp_path: Path) -> None:
    raw_log = RawLog(root=str(tmp_path / "raw"), locks=str(tmp_path))
    log = raw_log.scope("source", "scope")
    log.write(batch(log), record_rows([HARMLESS], NOW))
    folder = Path(log.folder)
    for name in ("next.tmp", "0000000002.records.parquet.tmp", ".DS_Store", "notes.txt"):
        (folder / name).write_text("litter")
    (folder.parent / "empty").mkdir()
    (folder.parent / "file").write_text("litter")
    assert log.last() == batch(log)
    assert [one.scope for one in raw_log.scopes()] == ["scope"]


def test_the_newest_batch_is_found_from_any_that_is_known(tmp_path: Path) -> None:
    log = RawLog(root=str(tmp_path / "raw"), locks=str(tmp_path)).scope("source", "scope")
    for sequence in range(1, 6):
        log.write(batch(log, sequence), [])
    assert [last.sequence for known in range(6) if (last := log.last(known))] == [5] * 6


def test_a_batch_is_parquet_that_anyone_can_read(tmp_path: Path) -> None:
    log = RawLog(root=str(tmp_path / "raw"), locks=str(tmp_path)).scope("source", "scope")
    log.write(batch(log), record_rows([HARMLESS], NOW))
    path = log.path(1, "records")
    footer = json.loads(pq.read_schema(path).metadata[b"tributary"])
    assert (footer["cursor"], footer["connector"], footer["format_version"]) == (batch(log).cursor, "complete", 1)
    assert pq.ParquetFile(path).metadata.row_group(0).column(0).compression == "ZSTD"
    assert read(log.filesystem, path)["payload"].to_pylist() == [b"{}"]


def test_a_batch_id_is_of_one_batch() -> None:
    log = ScopeLog("source", "a:b", fs.LocalFileSystem(), "/raw")
    assert batch(log, 12).batch_id == doc_id("source", "a:b", "0000000012") == "source:a%3Ab:0000000012"
