"""GitHub's records as documents: issues, pull requests, comments, review comments and releases.

https://docs.github.com/en/rest/issues/issues#get-an-issue shows an issue; the others are shaped alike.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from ingestion.errors import RecordError
from ingestion.jsontext import parse
from ingestion.model import Attachment, Document, Link, Record
from ingestion.references import Repository, references
from ingestion.text import clean

_THREAD = re.compile(r"/(?:issues|pulls)/(\d+)$")


class Head(msgspec.Struct):
    """The little of a record that its listing needs; every field as it came."""

    id: Any = None
    number: Any = None
    updated_at: Any = None
    pull_request: Any = None
    diff_url: Any = None

    @property
    def at(self) -> datetime | None:
        """When it changed last."""
        return _instant(self.updated_at)

    @property
    def is_pull_request(self) -> bool:
        """It is a pull request, listed among issues or by itself."""
        return self.pull_request is not None or (self.diff_url is not None and self.number is not None)


class _Item(msgspec.Struct):
    """What documents are made of; any field may be missing, null, or of another type than documented."""

    id: Any = None
    number: Any = None
    title: Any = None
    name: Any = None
    tag_name: Any = None
    body: Any = None
    user: Any = None
    author: Any = None
    labels: Any = None
    assignees: Any = None
    milestone: Any = None
    state: Any = None
    state_reason: Any = None
    draft: Any = None
    prerelease: Any = None
    locked: Any = None
    merged_at: Any = None
    pull_request: Any = None
    html_url: Any = None
    url: Any = None
    issue_url: Any = None
    pull_request_url: Any = None
    path: Any = None
    in_reply_to_id: Any = None
    created_at: Any = None
    updated_at: Any = None
    published_at: Any = None
    assets: Any = None


_heads = msgspec.json.Decoder(Head)
_items = msgspec.json.Decoder(_Item)


def head(payload: bytes) -> Head:
    """Read what a listing needs of a record; what is no object has none of it."""
    try:
        return _heads.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _leniently(payload, Head)


def record_id(found: Head, key: str, payload: bytes) -> str:
    """Give the last part of a record's source_id; one without an id is told from others by what it holds."""
    value = getattr(found, key)
    return str(value) if isinstance(value, int | str) and value != "" else f"unnamed-{sha256(payload).hexdigest()[:16]}"


def github_document(scope: str, record: Record) -> Document:
    """Map one record to its document.

    Raises:
        RecordError: it is not what its listing holds.
    """
    try:
        item = _items.decode(record.payload)
    except (msgspec.DecodeError, UnicodeDecodeError):
        item = _leniently(record.payload, _Item)
    if item.id is None and item.number is None:
        raise RecordError("has neither an id nor a number: not a record of GitHub")
    title, content = _title(record, item), clean(_text(item.body))
    url = _text(item.html_url) or _text(item.url)
    author = _login(item.user if item.user is not None else item.author)
    assignees = tuple(_logins(item.assignees))
    return Document(
        source_id=record.source_id,
        doc_type=record.record_type,
        title=title,
        content=content,
        url=url,
        author=author,
        assignees=assignees,
        participants=tuple(dict.fromkeys(name.lower() for name in (author, *assignees) if name)),
        participants_raw=tuple(dict.fromkeys(name for name in (author, *assignees) if name)),
        tags=tuple(dict.fromkeys(_tags(record, item, assignees))),
        channel=scope,
        thread_id=_thread(record, item),
        created_at=_instant(item.published_at) or _instant(item.created_at),
        updated_at=_instant(item.updated_at) or record.updated_at,
        metadata=_metadata(item),
        attachments=tuple(_assets(item.assets)),
        links=(*_own_links(record, item, url), *references(f"{title}\n\n{content}", _repository(scope, url))),
    )


def _title(record: Record, item: _Item) -> str:
    if record.record_type == "comment":
        return f"Comment on #{_number(item.issue_url)}"
    if record.record_type == "review_comment":
        return f"Review of {_text(item.path)} in #{_number(item.pull_request_url)}"
    written = _text(item.title) or _text(item.name) or _text(item.tag_name)
    return " ".join(clean(written).split()) or record.source_id


def _tags(record: Record, item: _Item, assignees: Iterable[str]) -> Iterator[str]:
    state = _text(item.state)
    if record.record_type == "pull_request" and _merged_at(item):
        state = "merged"
    if state:
        yield f"status:{state.lower()}"
    if _text(item.state_reason):
        yield f"resolution:{_text(item.state_reason).lower()}"
    for label in item.labels if isinstance(item.labels, list) else ():
        name = _text(label.get("name") if isinstance(label, dict) else label)
        if name:
            yield f"label:{name.lower()}"
    if isinstance(item.milestone, dict) and _text(item.milestone.get("title")):
        yield f"milestone:{_text(item.milestone['title']).lower()}"
    yield from (f"assignee:{name.lower()}" for name in assignees)
    if _text(item.tag_name):
        yield f"version:{_text(item.tag_name).lower()}"
    yield from (name for name in ("draft", "prerelease", "locked") if getattr(item, name) is True)


def _merged_at(item: _Item) -> object:
    """Give when a pull request was merged: listed among issues it says so one level deeper."""
    return item.merged_at or (isinstance(item.pull_request, dict) and item.pull_request.get("merged_at"))


def _thread(record: Record, item: _Item) -> str | None:
    """Give the issue that a comment belongs to; an issue begins its own thread, a release has none."""
    if record.record_type in {"comment", "review_comment"}:
        return f"issues/{_number(item.issue_url or item.pull_request_url)}"
    return record.source_id if record.record_type in {"issue", "pull_request"} else None


def _number(url: object) -> str:
    found = _THREAD.search(_text(url))
    if found is None:
        raise RecordError("a comment that names no issue")
    return found[1]


def _own_links(record: Record, item: _Item, url: str) -> Iterator[Link]:
    if "moved" in record.attributes:
        yield Link("moved_to", url)
    if item.in_reply_to_id is not None:
        yield Link("reply_to", f"pulls/comments/{item.in_reply_to_id}", is_source_id=True)


def _metadata(item: _Item) -> dict[str, object]:
    facts = {"number": item.number, "path": item.path, "tag": item.tag_name}
    return {name: value for name, value in facts.items() if isinstance(value, int | str)}


def _assets(assets: object) -> Iterator[Attachment]:
    """Give the files of a release, by their addresses."""
    for asset in assets if isinstance(assets, list) else ():
        if isinstance(asset, dict) and _text(asset.get("name")):
            media_type = _text(asset.get("content_type")) or "application/octet-stream"
            yield Attachment(_text(asset["name"]), media_type, _text(asset.get("browser_download_url")) or None)


def _repository(scope: str, url: str) -> Repository:
    parts = urlsplit(url)
    name = "/".join(parts.path.split("/")[1:3])
    return Repository(f"{parts.scheme}://{parts.netloc}", frozenset({scope.lower(), name.lower()}))


def _logins(users: object) -> Iterator[str]:
    for user in users if isinstance(users, list) else ():
        name = _login(user)
        if name:
            yield name


def _login(user: object) -> str | None:
    """Give an account's name; the accounts of deleted users are null."""
    return _text(user.get("login") if isinstance(user, dict) else user) or None


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None or isinstance(value, list | dict) else str(value)


def _instant(text: object) -> datetime | None:
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found is not None and found.tzinfo is None else found


_Shape = TypeVar("_Shape", Head, _Item)


def _leniently(payload: bytes, kind: type[_Shape]) -> _Shape:
    """Read what the fast reader refuses: lone surrogates, broken UTF-8; what is no JSON object has no fields."""
    try:
        value = parse(payload)
    except ValueError:
        return kind()
    return kind(**{name: value.get(name) for name in kind.__struct_fields__}) if isinstance(value, dict) else kind()
