"""One text file to one document: its front matter becomes the document's fields."""

import posixpath
import re
from datetime import datetime

from ingestion.errors import RecordError
from ingestion.frontmatter import instant, plain, words
from ingestion.markup import TEXT, read_markup
from ingestion.model import Document, Record
from ingestion.paths import readable_path

_MAX_TITLE = 300
_BINARY = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_SAMPLE = 4_096


def file_document(record: Record) -> Document:
    """Map a file as `FilesConnector` records it; raises RecordError where it is no text at all."""
    path = readable_path(record.source_id)
    if record.media_type == TEXT:
        _refuse_binary(record.payload)
    markup = read_markup(record.payload, record.media_type, path)
    fields = dict(markup.front.fields)
    people = _people(fields)
    created_at = _take_instant(fields, "created", "date")
    updated_at = _take_instant(fields, "updated", "modified")
    tags = dict.fromkeys(f"tag:{tag.lstrip('#').lower()}" for tag in words(fields.pop("tags", None)))
    name = posixpath.basename(path)
    title = _take_title(fields) or markup.title or posixpath.splitext(name)[0].strip() or name
    metadata: dict[str, object] = {"path": path, "media_type": record.media_type}
    aliases = words(fields.pop("aliases", None))
    if aliases:
        metadata["aliases"] = list(aliases)
    if fields:
        metadata["front_matter"] = plain(fields)
    if markup.front.error:
        metadata["front_matter_error"] = markup.front.error
    return Document(
        source_id=record.source_id,
        doc_type="file",
        title=" ".join(title.split())[:_MAX_TITLE].rstrip(),
        content=markup.text,
        url=record.attributes.get("url", ""),
        author=people[0] if people else None,
        participants=people,
        tags=tuple(tags),
        channel=posixpath.dirname(path) or None,
        created_at=created_at,
        updated_at=updated_at or record.updated_at,
        metadata=metadata,
        links=markup.links,
    )


def _refuse_binary(payload: bytes) -> None:
    """Refuse what an `include` of everything brings in: pictures, archives."""
    sample = payload[:_SAMPLE]
    if b"\0" not in sample or sample.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")):
        return
    if sample.count(0) < len(sample) // 3 and len(_BINARY.findall(sample.decode("latin-1"))) > len(sample) // 20:
        raise RecordError("is not text: give its kind in `ignore`")


def _people(fields: dict[str, object]) -> tuple[str, ...]:
    """Take the authors: `author` as one name, whatever commas it has, and `authors` as a list."""
    author = fields.pop("author", None)
    names = words(author if isinstance(author, list) else [author]) + words(fields.pop("authors", None))
    return tuple(dict.fromkeys(names))


def _take_instant(fields: dict[str, object], *names: str) -> datetime | None:
    """Take the first date that can be read; what cannot stays among the fields."""
    for name in names:
        found = instant(fields.get(name))
        if found is not None:
            del fields[name]
            return found
    return None


def _take_title(fields: dict[str, object]) -> str:
    title = plain(fields.get("title"))
    if title is None or isinstance(title, dict | list):
        return ""
    del fields["title"]
    return str(title)
