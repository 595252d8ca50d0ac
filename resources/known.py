"""What we hold of a scope, as if every batch were loaded: the published snapshot, and the batches that followed it.

The fetch must not wait for the warehouse, whose one writer may be busy; the snapshot is free to read, and what it lacks
stands in the raw log. Without a snapshot the log alone gives the same answer, only slower.
"""

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from ingestion import schema
from ingestion.model import Batch
from ingestion.normalize import storable
from resources.rawlog import ScopeLog
from resources.sql import statement
from resources.tables import quoted

_CHUNK = 50_000
_HELD = schema.arrow(
    [
        schema.Column("source_id", pa.string(), "An id."),
        schema.Column("is_live", pa.bool_(), "Whether we hold it as live."),
    ]
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A census beside what we hold."""

    live_count: int
    known_count: int
    missing: list[str]
    """Held as live, not in the census."""
    unknown: list[str]
    """In the census, never seen."""
    back: list[str]
    """In the census, held as tombstones."""


class Known:
    """Answers for every scope; each call uses a cursor of its own, so that threads may share it."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        rows = connection.execute(statement("known_sequences")).fetchall()
        self._sequences: dict[tuple[str, str], int] = {(source, scope): newest for source, scope, newest in rows}

    def sequence(self, log: ScopeLog) -> int:
        """Give the newest batch of the scope that the snapshot holds, 0 where it holds none."""
        return self._sequences.get((log.source, log.scope), 0)

    def accounts(self, log: ScopeLog, *, since: int) -> set[str]:
        """Give who fetched the batches that followed `since`."""
        with self._connection.cursor() as cursor:
            rows = cursor.execute(statement("known_accounts"), [log.source, log.scope, since]).fetchall()
        return {account for (account,) in rows} | {b.account for b in log.after(max(since, self.sequence(log)))}

    def compare(self, log: ScopeLog, live: Iterable[str]) -> Comparison:
        """Set a census against what we hold; ids stay in Arrow, at their own length and a few bytes more."""
        ids = map(storable, live)  # as the raw log has them
        chunks = [pa.array(chunk, pa.string()) for chunk in iter(lambda: list(islice(ids, _CHUNK)), [])]
        found = pc.unique(pa.chunked_array(chunks, pa.string()))
        held = self._held(log)
        held_live = held.filter(held["is_live"])["source_id"]
        held_gone = held.filter(pc.invert(held["is_live"]))["source_id"]
        return Comparison(
            live_count=len(found),
            known_count=len(held_live),
            missing=_sorted(held_live.filter(pc.invert(pc.is_in(held_live, found))).to_pylist()),
            unknown=_sorted(found.filter(pc.invert(pc.is_in(found, held["source_id"].combine_chunks()))).to_pylist()),
            back=_sorted(held_gone.filter(pc.is_in(held_gone, found)).to_pylist()),
        )

    def _held(self, log: ScopeLog) -> pa.Table:
        """Give each id that was ever fetched, and whether we hold it as live: the newest batch to name it decides."""
        with self._connection.cursor() as cursor:
            result = cursor.execute(statement("known_records"), [log.source, log.scope])
            published = result.to_arrow_table().cast(_HELD)
        later = [_said(log, batch) for batch in log.after(self.sequence(log))]
        if not later:
            return published
        # Without threads "last" is the last in the table's order, which is that of the batches.
        grouped = pa.concat_tables([published, *later]).group_by("source_id", use_threads=False)
        return grouped.aggregate([("is_live", "last")]).rename_columns(_HELD.names)


def _said(log: ScopeLog, batch: Batch) -> pa.Table:
    """Give what a batch says of each id."""
    if batch.kind == "records":
        ids = log.read(batch, ["source_id"])["source_id"]
        return pa.Table.from_arrays([ids.combine_chunks(), pa.repeat(pa.scalar(value=True), len(ids))], schema=_HELD)
    rows = log.read(batch)
    rows = rows.filter(pc.is_in(rows["verdict"], pa.array(["gone", "back"])))
    is_back = pc.is_in(rows["verdict"].combine_chunks(), pa.array(["back"]))
    return pa.Table.from_arrays([rows["source_id"].combine_chunks(), is_back], schema=_HELD)


def _sorted(ids: Iterable[str | None]) -> list[str]:
    return sorted(source_id for source_id in ids if source_id is not None)


@contextmanager
def known(snapshot: Path, memory_limit: str) -> Iterator[Known]:
    """Open the snapshot (a symlink; it may not exist yet) for the length of a fetch."""
    # Without a folder of ours, DuckDB would spill what does not fit into the working directory.
    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": memory_limit,
        "temp_directory": str(snapshot.with_name("tmp")),
        "threads": 1,
    }
    with duckdb.connect(config=settings) as connection:
        yield _published(connection, snapshot) or _nothing(connection)


def _published(connection: duckdb.DuckDBPyConnection, snapshot: Path) -> Known | None:
    """Attach the snapshot; a damaged one is passed over, since the raw log says the same."""
    if not snapshot.exists():
        return None
    try:
        connection.execute(f"ATTACH {quoted(str(snapshot.resolve()))} AS snapshot (READ_ONLY)")
        return Known(connection)
    except duckdb.Error as error:
        _log.warning("%s cannot be read, taking the raw log instead: %s", snapshot, error)
        connection.execute("DETACH DATABASE IF EXISTS snapshot")
        return None


def _nothing(connection: duckdb.DuckDBPyConnection) -> Known:
    """Stand in for a snapshot that is not there: it holds nothing."""
    connection.execute("ATTACH ':memory:' AS snapshot")
    for name in ("records", "loaded_batches"):
        connection.register("columns", schema.arrow(schema.TABLES[name][1]).empty_table())
        connection.execute(f"CREATE TABLE snapshot.{name} AS FROM columns")
    return Known(connection)
