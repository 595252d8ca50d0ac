"""Rows of a batch, mapped and checked: the documents that are right, and the records that are not."""

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs

from ingestion.model import Batch
from ingestion.normalize import normalize
from ingestion.validate import failures
from resources.batches import to_records, write_durably
from resources.connector import Connector

_SLICE = 500
"""Records that are Python objects at once: as such they take several times the memory of their columns."""


def mapped(
    batch: Batch, rows: pa.Table, connector: type[Connector], attachments: Path
) -> tuple[pa.Table, list[dict[str, Any]]]:
    """Map records (`schema.RAW`) to documents (`schema.DOCUMENT`) and rows of rejects (`schema.REJECT`).

    A record of which one document fails a check keeps its others, and is a reject all the same. Attachments are
    written before anything is committed: a file that no document names yet does no harm.
    """
    tables: list[pa.Table] = []
    reasons: dict[str, list[str]] = {}
    for start in range(0, rows.num_rows, _SLICE):
        result = normalize(batch.source, batch.scope, to_records(rows.slice(start, _SLICE)), connector.documents)
        _keep(attachments, result.files)
        tables.append(result.documents)
        reasons |= {reject.source_id: [reject.reason] for reject in result.rejects}
    documents = pa.concat_tables(tables)
    failed = failures(documents)
    for row, reason in failed.items():
        owner, document = (documents[name][row].as_py() for name in ("record_id", "source_id"))
        reasons.setdefault(owner, []).append(f"{document}: {reason}")
    # Of a document that several records own, the last form that passes: a refused one takes it from nobody.
    passed = {name: row for row, name in enumerate(documents["doc_id"].to_pylist()) if row not in failed}
    if len(passed) < documents.num_rows:
        documents = documents.take(pa.array(sorted(passed.values()), pa.int64()))
    return documents, _refused(batch, rows, reasons)


def _refused(batch: Batch, rows: pa.Table, reasons: dict[str, list[str]]) -> list[dict[str, Any]]:
    if not reasons:
        return []
    columns = (rows[name].to_pylist() for name in ("source_id", "payload", "fetched_at"))
    return [
        {
            "source": batch.source,
            "scope": batch.scope,
            "source_id": source_id,
            "batch_id": batch.batch_id,
            "reason": "; ".join(reasons[source_id]),
            "payload": payload,
            "first_seen_at": fetched_at,
            "last_seen_at": fetched_at,
        }
        for source_id, payload, fetched_at in zip(*columns, strict=True)
        if source_id in reasons
    ]


def _keep(attachments: Path, files: dict[str, bytes]) -> None:
    for sha256, content in files.items():
        path = attachments / sha256[:2] / sha256
        if not path.exists():
            write_durably(fs.LocalFileSystem(), str(path), pa.py_buffer(content))
