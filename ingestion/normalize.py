"""Records and a mapping in, rows of documents and rejects out. What a connector's mapping does wrong ends here."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from ingestion import schema
from ingestion.chunks import chunk_starts
from ingestion.errors import RecordError
from ingestion.hashing import content_hash, text_hash
from ingestion.model import Attachment, Document, Link, Record, Reject, doc_id

Mapper = Callable[[str, Record], Iterable[Document]]
_Row = tuple[Any, ...]
_ENCODER = json.JSONEncoder(sort_keys=True, ensure_ascii=False, allow_nan=False)
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
"""In JSON, an escape of one alone is malformed: it is kept as the text of that escape."""


@dataclass(frozen=True, slots=True)
class Normalized:
    """What some records of one scope became."""

    documents: pa.Table
    """Rows in the form of `schema.DOCUMENT`, in the order of the records; a `doc_id` may come several times."""
    rejects: Sequence[Reject]
    files: dict[str, bytes]
    """The attachments' bytes by sha256."""


def normalize(source: str, scope: str, records: Iterable[Record], mapping: Mapper) -> Normalized:
    """Map records to document rows; a record whose mapping raises becomes a reject, whole, and costs nothing else."""
    rows: list[_Row] = []
    rejects: list[Reject] = []
    files: dict[str, bytes] = {}
    for record in records:
        try:
            # Mapped to the end before anything is kept: a record that fails half-way leaves no half of itself.
            documents = tuple(mapping(scope, record))
            mapped = [_row(source, scope, record, document) for document in documents]
        except Exception as error:  # noqa: BLE001 -- law 6: whatever a mapping raises costs this one record, and is kept
            rejects.append(Reject(record.source_id, storable(f"{type(error).__name__}: {error}")))
            continue
        rows += mapped
        for attachment in (a for document in documents for a in document.attachments):
            if attachment.content is not None:
                files[hashlib.sha256(attachment.content).hexdigest()] = attachment.content
    return Normalized(_table(rows), rejects, files)


def storable(text: str) -> str:
    r"""Give text that Arrow, DuckDB and every reader take: NUL and lone surrogates as escapes, `\x00` and `\udc80`.

    Escaped and not dropped: two ids that differ must not become one.
    """
    if "\x00" in text:
        text = text.replace("\x00", r"\x00")
    if text.isascii():  # known without looking
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text


def _table(rows: Iterable[_Row]) -> pa.Table:
    arrow = schema.arrow(schema.DOCUMENT)
    columns = list(zip(*rows, strict=True)) or [()] * len(arrow)
    return pa.Table.from_arrays(
        [pa.array(values, field.type) for values, field in zip(columns, arrow, strict=True)], schema=arrow
    )


def _row(source: str, scope: str, record: Record, document: Document) -> _Row:
    """Order the document's fields as in `schema.DOCUMENT`; wrong types raise here, where they cost one record."""
    source_id = _text(document.source_id, "source_id")
    return (
        doc_id(source, scope, source_id),
        source,
        scope,
        source_id,
        record.source_id,
        _text(document.doc_type, "doc_type"),
        _text(document.title, "title"),
        _text(document.content, "content"),
        _optional(document.author, "author"),
        _texts(document.assignees, "assignees"),
        _texts(document.participants, "participants"),
        _texts(document.participants_raw, "participants_raw"),
        _texts(document.tags, "tags"),
        _optional(document.channel, "channel"),
        _optional(document.thread_id, "thread_id"),
        _text(document.url, "url"),
        _instant(document.created_at, "created_at"),
        _instant(document.updated_at, "updated_at"),
        _json(document.metadata),
        [_attachment(attachment) for attachment in document.attachments] if document.attachments else [],
        [_link(source, scope, link) for link in document.links] if document.links else [],
        chunk_starts(document.doc_type, document.content),
        content_hash(document),
        text_hash(document.title, document.content),
    )


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise RecordError(f"{name} is {type(value).__name__}, not text")
    return storable(value)


def _optional(value: object, name: str) -> str | None:
    return None if value is None else _text(value, name)


def _texts(values: Iterable[object], name: str) -> list[str]:
    if not values:
        return []
    if isinstance(values, str):
        raise RecordError(f"{name} is one text, not several")
    return list(dict.fromkeys(_text(value, name) for value in values))


def _instant(value: object, name: str) -> datetime | None:
    if value is None:
        return None
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise RecordError(f"{name} is not an instant with a time zone")
    return value.astimezone(UTC)


def _json(metadata: Mapping[str, object]) -> str:
    if not metadata:
        return "{}"
    text = _ENCODER.encode(dict(metadata))
    return text if text.isascii() else _LONE_SURROGATE.sub(lambda found: rf"\\u{ord(found[0]):04x}", text)


def _attachment(attachment: Attachment) -> dict[str, object]:
    content = attachment.content
    return {
        "name": _text(attachment.name, "attachment name"),
        "media_type": _text(attachment.media_type, "attachment media_type"),
        "url": _optional(attachment.url, "attachment url"),
        "size_bytes": None if content is None else len(content),
        "sha256": None if content is None else hashlib.sha256(content).hexdigest(),
    }


def _link(source: str, scope: str, link: Link) -> dict[str, str]:
    target = _text(link.target, "link target")
    return {
        "relation": _text(link.relation, "link relation"),
        "target": doc_id(source, scope, target) if link.is_source_id else target,
    }
