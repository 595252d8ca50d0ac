"""What makes two documents the same: hashes over meaning, each field with its length before it."""

import json
from collections.abc import Iterable, Mapping
from hashlib import sha256

from ingestion.model import Document


def content_hash(document: Document) -> str:
    """Hash all that has meaning: never times, and not the order of tags, people, links and attachments."""
    metadata = document.metadata
    parts = [
        _field(document.doc_type),
        _field(document.title),
        _field(document.content),
        _field(document.author),
        _set(map(_field, document.assignees)),
        _set(map(_field, document.participants)),
        _set(map(_field, document.tags)),
        _field(document.channel),
        _field(document.thread_id),
        _field(document.url),
        _field(_CANONICAL.encode(metadata if isinstance(metadata, dict) else dict(metadata)) if metadata else "{}"),
        _set(
            _field(attachment.name)
            + _field(attachment.media_type)
            + _field(attachment.url)
            + _field(None if attachment.content is None else sha256(attachment.content).hexdigest())
            for attachment in document.attachments
        ),
        _set(_field(link.relation) + _field(link.target) + "=" * link.is_source_id for link in document.links),
    ]
    return sha256("".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def text_hash(title: str, content: str) -> str:
    """Hash the text alone, to find the same text in several sources: the content, or the title where there is none.

    Titles often come from the place (a file's name, a subject with `Re:`): the same text under another is the same.
    """
    return sha256((content or title).encode("utf-8", "surrogatepass")).hexdigest()


def _field(value: str | None) -> str:
    return "-" if value is None else f"{len(value)}:{value}"


def _set(members: Iterable[str]) -> str:
    """Join in one order, each member once, with the number of members before them."""
    distinct = sorted(set(members))
    return f"{len(distinct)}{{{''.join(distinct)}"


def _plain(value: object) -> object:
    """Give JSON what it does not know: other mappings as objects, sets in one order, the rest as its text."""
    if isinstance(value, Mapping):
        return dict(value)
    return sorted(value, key=str) if isinstance(value, set | frozenset) else str(value)


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=_plain)
