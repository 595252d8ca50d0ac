"""From the raw log into the warehouse: every pending batch, once, in order (laws 1, 2 and 6)."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import duckdb

from ingestion.errors import ConfigurationError
from ingestion.model import Batch
from resources.connector import Connector
from resources.rawlog import RawLog, ScopeLog
from resources.searchindex import merge_if_due, refill
from resources.warehouse import Warehouse, is_out_of_memory
from resources.wave import Loaded, Pending, load_wave

WAVE_RECORDS = 5_000
WAVE_BYTES = 8_000_000
_TRANSACTION_RECORDS = 16_384
_TRANSACTION_BYTES = 32_000_000
"""Of documents; whichever comes first. DuckDB writes what a transaction adds into the file at once, as far as it fills
row groups; the rest goes through the log, stays in memory until the checkpoint, and is written again then."""

_log = logging.getLogger(__name__)


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
        if not is_out_of_memory(error):
            raise
        _log.warning("memory_limit %s is too little for these documents: taking more", warehouse.memory_limit)
        with warehouse.connect(is_generous=True) as connection:
            loaded += load(connection, log, connectors, warehouse.attachments)
    return loaded


def load(
    connection: duckdb.DuckDBPyConnection,
    log: RawLog,
    connectors: Mapping[str, type[Connector]],
    attachments: Path,
) -> Iterator[Loaded]:
    """Load what is not yet loaded, many waves of batches in a transaction: a process that dies loses nothing.

    Where one of them fails, each has a transaction of its own, so that those before it stay.

    Yields what each batch did, after it is committed.
    """
    refill(connection)
    try:
        yield from _load(connection, log, connectors, attachments, _TRANSACTION_RECORDS)
    except Exception as error:  # noqa: BLE001 -- whatever it is, it is raised again by the wave that it belongs to
        _log.warning("loading wave by wave after %s: %s", type(error).__name__, error)
        yield from _load(connection, log, connectors, attachments, 0)
    merge_if_due(connection)


def _load(
    connection: duckdb.DuckDBPyConnection,
    log: RawLog,
    connectors: Mapping[str, type[Connector]],
    attachments: Path,
    records: int,
) -> Iterator[Loaded]:
    waves = _waves(connection, log)
    while loaded := _load_some(connection, waves, connectors, attachments, records):
        connection.execute("CHECKPOINT")
        yield from loaded


def _load_some(
    connection: duckdb.DuckDBPyConnection,
    waves: Iterator[list[Pending]],
    connectors: Mapping[str, type[Connector]],
    attachments: Path,
    records: int,
) -> list[Loaded]:
    """Load waves in one transaction until it has so many records; give nothing where no wave is left."""
    loaded: list[Loaded] = []
    records_count = bytes_count = 0
    with _transaction(connection):
        for wave in waves:
            records_count += sum(pending.rows.num_rows for pending in wave)
            found, size = load_wave(connection, wave, connectors, attachments)
            wave.clear()  # it would stay in memory while the next is read
            loaded += found
            bytes_count += size
            if records_count >= records or bytes_count >= _TRANSACTION_BYTES:
                break
    return loaded


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


def _waves(connection: duckdb.DuckDBPyConnection, log: RawLog) -> Iterator[list[Pending]]:
    """Group pending batches: one of a scope at a time, since they build on each other; scopes are independent."""
    newest = connection.execute(
        "SELECT source, scope, max(sequence), arg_max(written_at, sequence) FROM loaded_batches GROUP BY ALL"
    ).fetchall()
    loaded = {(source, scope): (sequence, written_at) for source, scope, sequence, written_at in newest}
    heads = [
        (scope_log, _after(scope_log, *loaded.get((scope_log.source, scope_log.scope), (0, None))))
        for scope_log in log.scopes()
    ]
    while heads:
        wave: list[Pending] = []
        remaining = []
        for scope_log, batches in heads:
            if _is_full(wave):
                remaining.append((scope_log, batches))
            elif (batch := next(batches, None)) is not None:
                wave.append(Pending(batch, scope_log.read(batch)))
                remaining.append((scope_log, batches))
        heads = remaining
        if wave:
            yield wave


def _after(log: ScopeLog, sequence: int, written_at: datetime | None) -> Iterator[Batch]:
    """Yield what is pending of a scope, whose newest loaded batch is the given one.

    Raises:
        ConfigurationError: the log has another batch of that number, or none: it was emptied, and began again at 1.
    """
    if sequence:
        batch = log.batch(sequence)
        if batch is None or batch.written_at != written_at:
            raise ConfigurationError(
                f"{log.folder} lacks batch {sequence} as it was loaded: put it back, or run `python -m assets replay`"
            )
    return log.after(sequence)


def _is_full(wave: Sequence[Pending]) -> bool:
    return sum(p.rows.num_rows for p in wave) >= WAVE_RECORDS or sum(p.rows.nbytes for p in wave) >= WAVE_BYTES
