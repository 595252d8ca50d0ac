"""A batch as a Parquet file: its footer, its rows, and how it becomes durable."""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from ingestion import schema
from ingestion.errors import ConnectorError
from ingestion.model import Batch, CensusSummary, Record
from ingestion.normalize import storable

# Arrow's own choice, mimalloc, keeps much of what was freed: the first sync of 50,000 files peaked at 737 MB with it
# and at 698 MB with jemalloc, at the same CPU. Not every platform's build has jemalloc.
if "jemalloc" in pa.supported_memory_backends():
    pa.set_memory_pool(pa.jemalloc_memory_pool())

FORMAT_VERSION = 1
_FOOTER = b"tributary"
_REPETITIVE = {"record_type", "media_type", "attributes", "fetched_at", "verdict"}
"""Columns worth a dictionary; one of payloads would hold each of them, and be in memory twice."""
_SCHEMAS = {"records": schema.arrow(schema.RAW), "census": schema.arrow(schema.CENSUS)}


def record_rows(records: Sequence[Record], fetched_at: datetime) -> list[dict[str, Any]]:
    """Give the rows of a records batch, each with the hash by which a record that comes again is known."""
    return [_row(record, fetched_at) for record in records]


def _row(record: Record, fetched_at: datetime) -> dict[str, Any]:
    attributes = "{}"
    if record.attributes:
        attributes = storable(json.dumps(dict(record.attributes), sort_keys=True, ensure_ascii=False))
    row: dict[str, Any] = {
        "source_id": storable(record.source_id),
        "record_type": storable(record.record_type),
        "media_type": storable(record.media_type),
        "payload": record.payload,
        "attributes": attributes,
        "updated_at": _instant(record),
        "fetched_at": fetched_at,
    }
    # No field but the payload, which comes last, can hold a NUL: the fields cannot run into each other.
    head = "\x00".join((row["record_type"], row["media_type"], attributes, str(row["updated_at"]), ""))
    row["record_hash"] = hashlib.sha256(head.encode() + record.payload).hexdigest()
    return row


def _instant(record: Record) -> datetime | None:
    if record.updated_at is None:
        return None
    if record.updated_at.tzinfo is None:
        raise ConnectorError(f"record {record.source_id!r} has an updated_at without a time zone")
    try:
        return record.updated_at.astimezone(UTC)
    except OverflowError:  # in the first or last hours of the calendar; the payload has it as it came
        return None


def encode(batch: Batch, rows: Sequence[dict[str, Any]]) -> pa.Buffer:
    """Give the bytes of the Parquet file: rows, and all of `batch` but its path in the footer."""
    arrow = _SCHEMAS[batch.kind]
    footer = {**asdict(batch), "format_version": FORMAT_VERSION}
    del footer["path"]
    columns = [pa.array([row[field.name] for row in rows], field.type) for field in arrow]
    table = pa.Table.from_arrays(
        columns, schema=arrow.with_metadata({_FOOTER: json.dumps(footer, default=str).encode()})
    )
    sink = pa.BufferOutputStream()
    repetitive = [name for name in arrow.names if name in _REPETITIVE]
    pq.write_table(
        table,
        sink,
        compression="zstd",
        compression_level=3,
        use_dictionary=repetitive,  # type: ignore[arg-type]  # the stubs know of bool alone
    )
    return sink.getvalue()


def footer(filesystem: fs.FileSystem, path: str) -> Batch:
    """Read what a batch says of itself, without its rows."""
    return _batch(pq.read_schema(path, filesystem=filesystem), path)


def read(filesystem: fs.FileSystem, path: str, columns: list[str] | None = None) -> pa.Table:
    """Read the rows of a batch."""
    return pq.read_table(path, filesystem=filesystem, columns=columns, use_threads=False, partitioning=None)


def _batch(arrow: pa.Schema, path: str) -> Batch:
    values = json.loads((arrow.metadata or {}).get(_FOOTER, b"{}"))
    if values.pop("format_version", None) != FORMAT_VERSION:
        raise ConnectorError(
            f"{path} is not a raw batch of format {FORMAT_VERSION}: written by another version of Tributary?"
        )
    census = values.pop("census")
    for name in ("written_at", "resumes_at"):
        values[name] = values[name] and datetime.fromisoformat(values[name])
    batch = Batch(**values, path=path)
    return replace(batch, census=CensusSummary(**census)) if census else batch


def to_records(table: pa.Table) -> list[Record]:
    """Give the records of a batch's rows, as the connector sent them."""
    names = ("source_id", "record_type", "payload", "media_type", "updated_at", "attributes")
    columns = zip(*(table[name].to_pylist() for name in names), strict=True)
    return [
        Record(
            source_id,
            record_type,
            payload,
            media_type,
            updated_at,
            {} if attributes == "{}" else json.loads(attributes),
        )
        for source_id, record_type, payload, media_type, updated_at, attributes in columns
    ]


def write_durably(filesystem: fs.FileSystem, path: str, content: pa.Buffer) -> None:
    """Make a file appear whole or not at all, and stay.

    Locally: a temporary name, fsync, rename, fsync of the folder. An object store shows an object when its upload is
    complete, so there the stream's close is the rename. The temporary name is fixed: one writer, and no litter.
    """
    folder, _, _ = path.rpartition("/")
    if not isinstance(filesystem, fs.LocalFileSystem):
        filesystem.create_dir(folder, recursive=True)
        with filesystem.open_output_stream(path) as stream:
            stream.write(content)
        return
    _make_folders(Path(folder))
    temporary = Path(folder, "next.tmp")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_path(Path(folder))


def _make_folders(folder: Path) -> None:
    """Create missing folders, each made durable in its parent: a file in a folder that a crash forgets is lost."""
    if not folder.is_dir():
        _make_folders(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_path(folder.parent)


def sync_path(path: Path) -> None:
    """Make what a file holds durable, or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
