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
from ingestion.normalize import storable
from resources.rawlog import ScopeLog
from resources.sql import statement
from resources.tables import quoted

_CHUNK = 50_000
_LATER = schema.arrow(
    [
        schema.Column("source_id", pa.string(), "An id."),
        schema.Column("is_live", pa.bool_(), "Whether the batch shows it live."),
        schema.Column("sequence", pa.int64(), "The batch."),
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
        """Set a census against what we hold; ids are kept in Arrow, at their own length and a few bytes more."""
        with self._connection.cursor() as cursor:
            cursor.register("live", _ids(live))
            cursor.register("later", self._later(log))
            row = cursor.execute(statement("known_compare"), [log.source, log.scope]).fetchone()
        return Comparison(*row) if row else Comparison(0, 0, [], [], [])

    def _later(self, log: ScopeLog) -> pa.Table:
        """Give what the batches that the snapshot lacks say of each id."""
        tables = [_LATER.empty_table()]
        for batch in log.after(self.sequence(log)):
            rows = log.read(batch, ["source_id"] if batch.kind == "records" else None)
            is_live = pa.repeat(pa.scalar(value=True), rows.num_rows)
            if batch.kind == "census":
                rows = rows.filter(pc.is_in(rows["verdict"], pa.array(["gone", "back"])))
                is_live = pc.is_in(rows["verdict"].combine_chunks(), pa.array(["back"]))
            sequences = pa.repeat(pa.scalar(batch.sequence), rows.num_rows)
            tables.append(pa.Table.from_arrays([rows["source_id"].combine_chunks(), is_live, sequences], schema=_LATER))
        return pa.concat_tables(tables)


def _ids(live: Iterable[str]) -> pa.Table:
    ids = map(storable, live)  # as the raw log has them
    chunks = [pa.array(chunk, pa.string()) for chunk in iter(lambda: list(islice(ids, _CHUNK)), [])]
    return pa.table({"source_id": pa.chunked_array(chunks, pa.string())})


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
