"""What makes two documents the same: hashes over meaning, in a form in which no two meanings look alike."""

import json
from collections.abc import Mapping
from hashlib import sha256

import msgspec

from ingestion.model import Attachment, Document

_encode = msgspec.msgpack.Encoder().encode


def content_hash(document: Document) -> str:
    """Hash all that has meaning: never times, and not the order of tags, people, links and attachments."""
    metadata = document.metadata
    meaning = (
        document.doc_type,
        document.title,
        document.content,
        document.author,
        sorted(set(document.assignees)),
        sorted(set(document.participants)),
        sorted(set(document.tags)),
        document.channel,
        document.thread_id,
        document.url,
        _CANONICAL.encode(metadata if isinstance(metadata, dict) else dict(metadata)) if metadata else "{}",
        sorted({_attachment(one) for one in document.attachments}),
        sorted({(link.relation, link.target, link.is_source_id) for link in document.links}),
    )
    try:
        encoded = _encode(meaning)  # MessagePack: each text and list has its length before it
    except UnicodeEncodeError:  # a lone surrogate
        encoded = repr(meaning).encode()
    return sha256(encoded).hexdigest()


def text_hash(title: str, content: str) -> str:
    """Hash the text alone, to find the same text in several sources: the content, or the title where there is none.

    Titles often come from the place (a file's name, a subject with `Re:`): the same text under another is the same.
    """
    return sha256((content or title).encode("utf-8", "surrogatepass")).hexdigest()


def _attachment(attachment: Attachment) -> tuple[str, ...]:
    content = attachment.content
    digest = ("unread",) if content is None else ("read", sha256(content).hexdigest())
    return attachment.name, attachment.media_type, *digest, *(() if attachment.url is None else (attachment.url,))


def _plain(value: object) -> object:
    """Give JSON what it does not know: other mappings as objects, sets in one order, the rest as its text."""
    if isinstance(value, Mapping):
        return dict(value)
    return sorted(value, key=str) if isinstance(value, set | frozenset) else str(value)


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=_plain)
