"""One wave of batches, from rows to tables: what is new of them is mapped, and SQL does the rest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from ingestion import schema
from ingestion.errors import ConfigurationError
from ingestion.model import Batch
from resources.connector import Connector
from resources.lent import lent
from resources.mapping import mapped
from resources.searchindex import index_wave
from resources.sql import statement


@dataclass(frozen=True, slots=True)
class Loaded:
    """What one batch did."""

    batch: Batch
    created_count: int = 0
    updated_count: int = 0
    tombstoned_count: int = 0
    rejected_count: int = 0


@dataclass(frozen=True, slots=True)
class Pending:
    """A batch that is not loaded, with its rows."""

    batch: Batch
    rows: pa.Table


def load_wave(
    connection: duckdb.DuckDBPyConnection,
    wave: Sequence[Pending],
    connectors: Mapping[str, type[Connector]],
    attachments: Path,
) -> tuple[list[Loaded], int]:
    """Load batches of different scopes, in the caller's transaction; give what each did, and the documents' bytes."""
    counts: dict[str, tuple[int, ...]] = {}
    bytes_count = 0
    records = [pending for pending in wave if pending.batch.kind == "records" and pending.rows.num_rows]
    if records:
        found, bytes_count = _load_records(connection, records, connectors, attachments)
        counts |= found
    censuses = [pending for pending in wave if pending.batch.kind == "census" and pending.rows.num_rows]
    if censuses:
        counts |= _load_censuses(connection, censuses)
    loaded = [Loaded(p.batch, *counts.get(p.batch.batch_id, ())) for p in wave]
    rows = pa.Table.from_pylist([_loaded_row(one) for one in loaded], schema.arrow(schema.LOADED_BATCH))
    with lent(connection, loaded=rows):
        connection.execute("INSERT INTO loaded_batches FROM loaded")
    return loaded, bytes_count


def _load_records(
    connection: duckdb.DuckDBPyConnection,
    wave: Sequence[Pending],
    connectors: Mapping[str, type[Connector]],
    attachments: Path,
) -> tuple[dict[str, tuple[int, ...]], int]:
    arrived = pa.concat_tables(_arrived(number, pending) for number, pending in enumerate(wave))
    with lent(connection, arrived=arrived):
        connection.execute(statement("load_arrived"))
    fresh: dict[int, list[int]] = {}
    for wave_number, row in connection.execute(
        "SELECT wave_number, position FROM fresh_records ORDER BY wave_number, position"
    ).fetchall():
        fresh.setdefault(wave_number, []).append(row)
    documents, refused = [], []
    for number, rows in fresh.items():
        batch = wave[number].batch
        records = wave[number].rows
        if len(rows) < records.num_rows:  # on a first load all of them are fresh, and need not be copied
            records = records.take(rows)
        table, rejects = mapped(batch, records, _connector(connectors, batch), attachments)
        documents.append(table)
        refused += rejects
    incoming = pa.concat_tables(documents) if documents else schema.arrow(schema.DOCUMENT).empty_table()
    with lent(connection, incoming=incoming, refused=pa.Table.from_pylist(refused, schema.arrow(schema.REJECT))):
        connection.execute(statement("load_documents"))
        counts = connection.execute(statement("load_counts")).fetchall()
    index_wave(connection)
    return {row[0]: tuple(map(int, row[1:])) for row in counts}, incoming.nbytes


def _connector(connectors: Mapping[str, type[Connector]], batch: Batch) -> type[Connector]:
    if batch.connector not in connectors:
        raise ConfigurationError(
            f"{batch.path} was fetched by connector {batch.connector!r}, which is not there any more"
        )
    return connectors[batch.connector]


def _arrived(number: int, pending: Pending) -> pa.Table:
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


def _load_censuses(connection: duckdb.DuckDBPyConnection, wave: Sequence[Pending]) -> dict[str, tuple[int, ...]]:
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
    with lent(connection, verdicts=pa.Table.from_pylist(rows, schema.arrow(schema.VERDICT))):
        connection.execute(statement("load_census"))
        counts = connection.execute(statement("load_census_counts")).fetchall()
    return {row[0]: tuple(map(int, row[1:])) for row in counts}


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
