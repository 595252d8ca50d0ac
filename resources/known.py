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

from ingestion.normalize import storable
from resources.rawlog import ScopeLog
from resources.sql import statement
from resources.tables import quoted

_CHUNK = 50_000

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

    def __init__(self, connection: duckdb.DuckDBPyConnection, *, has_snapshot: bool) -> None:
        self._connection = connection
        self._has_snapshot = has_snapshot

    def sequence(self, log: ScopeLog) -> int:
        """Give the newest batch of the scope that the snapshot holds, 0 where it holds none."""
        if not self._has_snapshot:
            return 0
        with self._connection.cursor() as cursor:
            row = cursor.execute(statement("known_sequence"), [log.source, log.scope]).fetchone()
        return int(row[0]) if row else 0

    def accounts(self, log: ScopeLog, *, since: int) -> set[str]:
        """Give who fetched the batches that followed `since`."""
        found = {batch.account for batch in log.after(max(since, self.sequence(log)))}
        if self._has_snapshot:
            with self._connection.cursor() as cursor:
                rows = cursor.execute(statement("known_accounts"), [log.source, log.scope, since]).fetchall()
            found |= {account for (account,) in rows}
        return found

    def compare(self, log: ScopeLog, live: Iterable[str]) -> Comparison:
        """Set a census against what we hold; ids go through DuckDB, so that memory does not grow with the scope."""
        with self._connection.cursor() as cursor:
            cursor.execute(statement("known_tables"))
            if self._has_snapshot:
                cursor.execute(statement("known_snapshot"), [log.source, log.scope])
            for batch in log.after(self.sequence(log)):
                cursor.register("rows", log.read(batch, ["source_id"] if batch.kind == "records" else None))
                cursor.execute(statement(f"known_{batch.kind}"), [batch.sequence])
            ids = map(storable, live)  # as the raw log has them
            while chunk := list(islice(ids, _CHUNK)):
                cursor.register("ids", pa.table({"source_id": pa.array(chunk, pa.string())}))
                cursor.execute("INSERT INTO live FROM ids")
            counts = cursor.execute(statement("known_counts")).fetchone()
            found = cursor.execute(statement("known_compare")).fetchall()
        live_count, known_count = counts or (0, 0)
        kinds: dict[str, list[str]] = {"missing": [], "unknown": [], "back": []}
        for kind, source_id in found:
            kinds[kind].append(source_id)
        return Comparison(live_count, known_count, **kinds)


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
        yield Known(connection, has_snapshot=snapshot.exists() and _attach(connection, snapshot))


def _attach(connection: duckdb.DuckDBPyConnection, snapshot: Path) -> bool:
    """Attach the snapshot; a damaged one is passed over, since the raw log says the same."""
    try:
        connection.execute(f"ATTACH {quoted(str(snapshot.resolve()))} AS snapshot (READ_ONLY)")
    except duckdb.Error as error:
        _log.warning("%s cannot be read, taking the raw log instead: %s", snapshot, error)
        return False
    return True
