"""From the raw log into the warehouse: every pending batch, once, in order (laws 1, 2 and 6)."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from ingestion import schema
from ingestion.errors import ConfigurationError
from ingestion.model import Batch
from resources.connector import Connector
from resources.mapping import mapped
from resources.rawlog import RawLog
from resources.sql import statement
from resources.warehouse import Warehouse

WAVE_RECORDS = 5_000
WAVE_BYTES = 4_000_000
_CHECKPOINT_BYTES = 256_000_000

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Loaded:
    """What one batch did."""

    batch: Batch
    created_count: int = 0
    updated_count: int = 0
    tombstoned_count: int = 0
    rejected_count: int = 0


@dataclass(frozen=True, slots=True)
class _Pending:
    batch: Batch
    rows: pa.Table


def load_all(warehouse: Warehouse, log: RawLog, connectors: Mapping[str, type[Connector]]) -> list[Loaded]:
    """Load whatever is pending, with more memory where that is needed; the caller holds the warehouse's lock.

    DuckDB reads and writes 2,048 rows of a column at a time, whatever their length: where long documents stand close
    together, that is more than any limit that is right for the others. What was loaded until then stays.
    """
    loaded: list[Loaded] = []
    try:
        with warehouse.connect() as connection:
            loaded += load(connection, log, connectors, warehouse.attachments)
    except duckdb.Error as error:
        if not _is_out_of_memory(error):
            raise
        _log.warning("memory_limit %s is too little for these documents: taking more", warehouse.memory_limit)
        with warehouse.connect(is_generous=True) as connection:
            loaded += load(connection, log, connectors, warehouse.attachments)
    return loaded


def _is_out_of_memory(error: duckdb.Error) -> bool:
    """Tell by the text: in a commit or a checkpoint the same failure comes as other classes of error."""
    return isinstance(error, duckdb.OutOfMemoryException) or any(
        words in str(error) for words in ("could not allocate block", "failed to pin block")
    )


def load(
    connection: duckdb.DuckDBPyConnection,
    log: RawLog,
    connectors: Mapping[str, type[Connector]],
    attachments: Path,
) -> Iterator[Loaded]:
    """Load what is not yet loaded; each wave of batches is one transaction, so that a process that dies loses nothing.

    Yields what each batch did, after it is committed.
    """
    written = 0
    for wave in _waves(connection, log):
        try:
            written += sum(pending.rows.nbytes for pending in wave)
            with _transaction(connection):
                loaded = _load_wave(connection, wave, connectors, attachments)
        finally:
            # What is registered, and the wave itself, would stay in memory while the next is read.
            for name in ("arrived", "incoming", "refused", "verdicts", "loaded"):
                connection.unregister(name)
            wave.clear()
        yield from loaded
        if written >= _CHECKPOINT_BYTES:
            connection.execute("CHECKPOINT")
            written = 0
    connection.execute("CHECKPOINT")


@contextmanager
def _transaction(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Commit what the block did, or undo it. A commit that fails has undone itself."""
    connection.begin()
    try:
        yield
    except BaseException:
        connection.rollback()
        raise
    connection.commit()


def _waves(connection: duckdb.DuckDBPyConnection, log: RawLog) -> Iterator[list[_Pending]]:
    """Group pending batches: one of a scope at a time, since they build on each other; scopes are independent."""
    done = connection.execute("SELECT source, scope, max(sequence) FROM loaded_batches GROUP BY ALL").fetchall()
    sequences = {(source, scope): sequence for source, scope, sequence in done}
    heads = [
        (scope_log, scope_log.after(sequences.get((scope_log.source, scope_log.scope), 0)))
        for scope_log in log.scopes()
    ]
    while heads:
        wave: list[_Pending] = []
        remaining = []
        for scope_log, batches in heads:
            if _is_full(wave):
                remaining.append((scope_log, batches))
            elif (batch := next(batches, None)) is not None:
                wave.append(_Pending(batch, scope_log.read(batch)))
                remaining.append((scope_log, batches))
        heads = remaining
        if wave:
            yield wave


def _is_full(wave: Sequence[_Pending]) -> bool:
    return sum(p.rows.num_rows for p in wave) >= WAVE_RECORDS or sum(p.rows.nbytes for p in wave) >= WAVE_BYTES


def _load_wave(
    connection: duckdb.DuckDBPyConnection,
    wave: Sequence[_Pending],
    connectors: Mapping[str, type[Connector]],
    attachments: Path,
) -> list[Loaded]:
    counts: dict[str, tuple[int, ...]] = {}
    records = [pending for pending in wave if pending.batch.kind == "records" and pending.rows.num_rows]
    if records:
        counts |= _load_records(connection, records, connectors, attachments)
    censuses = [pending for pending in wave if pending.batch.kind == "census" and pending.rows.num_rows]
    if censuses:
        counts |= _load_censuses(connection, censuses)
    loaded = [Loaded(p.batch, *counts.get(p.batch.batch_id, ())) for p in wave]
    connection.register(
        "loaded", pa.Table.from_pylist([_loaded_row(one) for one in loaded], schema.arrow(schema.LOADED_BATCH))
    )
    connection.execute("INSERT INTO loaded_batches FROM loaded")
    return loaded


def _load_records(
    connection: duckdb.DuckDBPyConnection,
    wave: Sequence[_Pending],
    connectors: Mapping[str, type[Connector]],
    attachments: Path,
) -> dict[str, tuple[int, ...]]:
    arrived = pa.concat_tables(_arrived(number, pending) for number, pending in enumerate(wave))
    connection.register("arrived", arrived)
    connection.execute(statement("load_arrived"))
    fresh: dict[int, list[int]] = {}
    for wave_number, row in connection.execute(
        "SELECT wave_number, position FROM fresh_records ORDER BY wave_number, position"
    ).fetchall():
        fresh.setdefault(wave_number, []).append(row)
    documents, refused = [], []
    for number, rows in fresh.items():
        batch = wave[number].batch
        table, rejects = mapped(batch, wave[number].rows.take(rows), _connector(connectors, batch), attachments)
        documents.append(table)
        refused += rejects
    connection.register(
        "incoming", pa.concat_tables(documents) if documents else schema.arrow(schema.DOCUMENT).empty_table()
    )
    connection.register("refused", pa.Table.from_pylist(refused, schema.arrow(schema.REJECT)))
    connection.execute(statement("load_documents"))
    return {row[0]: tuple(map(int, row[1:])) for row in connection.execute(statement("load_counts")).fetchall()}


def _connector(connectors: Mapping[str, type[Connector]], batch: Batch) -> type[Connector]:
    if batch.connector not in connectors:
        raise ConfigurationError(
            f"{batch.path} was fetched by connector {batch.connector!r}, which is not there any more"
        )
    return connectors[batch.connector]


def _arrived(number: int, pending: _Pending) -> pa.Table:
    """Give the keys of a batch's records, without their payloads."""
    batch, count = pending.batch, pending.rows.num_rows
    constants: dict[str, Any] = {
        "source": batch.source,
        "scope": batch.scope,
        "batch_id": batch.batch_id,
        "connector_version": batch.connector_version,
        "wave_number": number,
    }
    return pa.table(
        {
            **{name: pa.repeat(pa.scalar(value), count) for name, value in constants.items()},
            **{name: pending.rows[name].combine_chunks() for name in ("source_id", "record_hash", "fetched_at")},
            "position": pa.array(range(count), pa.int64()),
        }
    )


def _load_censuses(connection: duckdb.DuckDBPyConnection, wave: Sequence[_Pending]) -> dict[str, tuple[int, ...]]:
    rows = [
        {
            "source": pending.batch.source,
            "scope": pending.batch.scope,
            "batch_id": pending.batch.batch_id,
            "written_at": pending.batch.written_at,
            **row,
        }
        for pending in wave
        for row in pending.rows.to_pylist()
    ]
    connection.register("verdicts", pa.Table.from_pylist(rows, schema.arrow(schema.VERDICT)))
    connection.execute(statement("load_census"))
    return {row[0]: tuple(map(int, row[1:])) for row in connection.execute(statement("load_census_counts")).fetchall()}


def _loaded_row(loaded: Loaded) -> dict[str, Any]:
    batch, census = loaded.batch, loaded.batch.census
    return {
        **{column.name: getattr(batch, column.name, None) for column in schema.LOADED_BATCH},
        **{
            name: getattr(loaded, name)
            for name in ("created_count", "updated_count", "tombstoned_count", "rejected_count")
        },
        "live_count": census and census.live_count,
        "missing_count": census and census.missing_count,
        "is_held": census and census.is_held,
        "census_reason": census and census.reason,
    }
