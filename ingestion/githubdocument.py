"""GitHub's records as documents: issues, pull requests, comments, review comments and releases.

https://docs.github.com/en/rest/issues/issues#get-an-issue shows an issue; the others are shaped alike.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, TypeVar

import msgspec

from ingestion.errors import RecordError
from ingestion.jsontext import UNREADABLE, parse
from ingestion.model import Attachment, Document, Link, Record
from ingestion.references import Repository, references
from ingestion.text import clean

_THREAD = re.compile(r"/(?:issues|pulls?)/(\d+)(?:$|#)")
_REPLIES = {"comment", "review_comment"}


class _Pull(msgspec.Struct):
    """What an issue says of the pull request that it is; old ones that are none have it too, with nothing in it."""

    url: str | None = None
    html_url: str | None = None
    merged_at: str | None = None


class Head(msgspec.Struct):
    """The little of a record that its listing needs."""

    id: int | str | None = None
    number: int | str | None = None
    updated_at: str | None = None
    pull_request: _Pull | None = None
    diff_url: str | None = None

    @property
    def at(self) -> datetime | None:
        """When it changed last."""
        return _instant(self.updated_at)

    @property
    def is_pull_request(self) -> bool:
        """It is a pull request, listed among issues or by itself."""
        if self.pull_request is not None:
            return bool(self.pull_request.url or self.pull_request.html_url)
        return self.diff_url is not None and self.number is not None


class _User(msgspec.Struct):
    login: str | None = None


class _Label(msgspec.Struct):
    name: str | None = None


class _Milestone(msgspec.Struct):
    title: str | None = None


class _Asset(msgspec.Struct):
    name: str | None = None
    content_type: str | None = None
    browser_download_url: str | None = None


_Id = int | str | None


class _Item(msgspec.Struct):
    """What documents are made of, as documented; a record in which a field is of another type is read by `_item`."""

    id: _Id = None
    number: _Id = None
    title: str | None = None
    name: str | None = None
    tag_name: str | None = None
    body: str | None = None
    user: _User | None = None
    author: _User | None = None
    labels: list[_Label] | None = None
    assignees: list[_User] | None = None
    milestone: _Milestone | None = None
    state: str | None = None
    state_reason: str | None = None
    draft: bool | None = None
    prerelease: bool | None = None
    locked: bool | None = None
    merged_at: str | None = None
    pull_request: _Pull | None = None
    html_url: str | None = None
    url: str | None = None
    issue_url: str | None = None
    pull_request_url: str | None = None
    path: str | None = None
    in_reply_to_id: _Id = None
    created_at: str | None = None
    updated_at: str | None = None
    published_at: str | None = None
    assets: list[_Asset] | None = None


_Shape = TypeVar("_Shape", Head, _Item)

_heads = msgspec.json.Decoder(Head)
_items = msgspec.json.Decoder(_Item)


def head(payload: bytes) -> Head:
    """Read what a listing needs of a record; what is no object has none of it."""
    try:
        return _heads.decode(payload)
    except UNREADABLE:
        return _field_by_field(_object(payload), Head)


def record_id(found: Head, key: str, payload: bytes) -> str:
    """Give the last part of a record's source_id; one without an id is told from others by what it holds."""
    value = getattr(found, key)
    return str(value) if isinstance(value, int | str) and value != "" else f"unnamed-{sha256(payload).hexdigest()[:16]}"


def github_document(scope: str, record: Record) -> Document:
    """Map one record to its document.

    Raises:
        RecordError: it is not what its listing holds.
    """
    item = _item(record.payload)
    if item.id is None and item.number is None:
        raise RecordError("has neither an id nor a number: not a record of GitHub")
    title, content = _title(record, item), clean(item.body or "")
    written = content if record.record_type in _REPLIES else f"{title}\n\n{content}"
    url = item.html_url or item.url or ""
    author = _login(item.user or item.author)
    assignees = tuple(name for name in map(_login, item.assignees or ()) if name)
    people = (author, *assignees) if author else assignees
    return Document(
        source_id=record.source_id,
        doc_type=record.record_type,
        title=title,
        content=content,
        url=url,
        author=author,
        assignees=assignees,
        participants=tuple(name.lower() for name in people),
        participants_raw=people,
        tags=tuple(_tags(record, item, assignees)),
        channel=scope,
        thread_id=_thread(record, item),
        created_at=_instant(item.published_at) or _instant(item.created_at),
        updated_at=record.updated_at or _instant(item.updated_at),
        metadata=_metadata(item),
        attachments=tuple(_assets(item.assets or ())),
        links=(*_own_links(record, item, url), *references(written, _repository(scope, url))),
    )


def _title(record: Record, item: _Item) -> str:
    if record.record_type in _REPLIES:
        kind = "Comment on" if record.record_type == "comment" else f"Review of {item.path or 'a file'} in"
        return f"{kind} #{_number(item) or '?'}"
    return " ".join(clean(item.title or item.name or item.tag_name or "").split()) or record.source_id


def _tags(record: Record, item: _Item, assignees: Iterable[str]) -> Iterator[str]:
    state = item.state
    if record.record_type == "pull_request" and (item.merged_at or (item.pull_request and item.pull_request.merged_at)):
        state = "merged"
    if state:
        yield f"status:{state.lower()}"
    if item.state_reason:
        yield f"resolution:{item.state_reason.lower()}"
    yield from (f"label:{label.name.lower()}" for label in item.labels or () if label.name)
    if item.milestone and item.milestone.title:
        yield f"milestone:{item.milestone.title.lower()}"
    yield from (f"assignee:{name.lower()}" for name in assignees)
    if item.tag_name:
        yield f"version:{item.tag_name.lower()}"
    yield from (name for name in ("draft", "prerelease", "locked") if getattr(item, name))


def _thread(record: Record, item: _Item) -> str | None:
    """Give the issue that a comment belongs to; an issue begins its own thread, a release has none."""
    if record.record_type in _REPLIES:
        number = _number(item)
        return number and f"issues/{number}"
    return record.source_id if record.record_type in {"issue", "pull_request"} else None


def _number(item: _Item) -> str | None:
    """Give the number of the issue that a comment belongs to; some of 2012 name it in no field but their address."""
    found = _THREAD.search(item.issue_url or item.pull_request_url or item.html_url or "")
    return found[1] if found else None


def _own_links(record: Record, item: _Item, url: str) -> Iterator[Link]:
    if "moved" in record.attributes:
        yield Link("moved_to", url)
    if item.in_reply_to_id is not None:
        yield Link("reply_to", f"pulls/comments/{item.in_reply_to_id}", is_source_id=True)


def _metadata(item: _Item) -> dict[str, object]:
    facts = {"number": item.number, "path": item.path, "tag": item.tag_name}
    return {name: value for name, value in facts.items() if value is not None}


def _assets(assets: Iterable[_Asset]) -> Iterator[Attachment]:
    """Give the files of a release, by their addresses."""
    for asset in assets:
        if asset.name:
            media_type = asset.content_type or "application/octet-stream"
            yield Attachment(asset.name, media_type, asset.browser_download_url)


def _repository(scope: str, url: str) -> Repository:
    """Tell from a record's page where its repository is: `https://HOST/OWNER/NAME/issues/1`."""
    scheme, _, host, owner, name, *_ = *url.split("/", 5), "", "", "", "", ""
    return Repository(f"{scheme}//{host}", frozenset({scope.lower(), f"{owner}/{name}".lower()}))


def _login(user: _User | None) -> str | None:
    """Give an account's name; the accounts of deleted users are null."""
    return (user.login or None) if user else None


def _instant(text: object) -> datetime | None:
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found is not None and found.tzinfo is None else found


def _item(payload: bytes) -> _Item:
    """Read a record. What the fast reader refuses, for its encoding or for a type, is read field by field.

    Raises:
        RecordError: it is no JSON object.
    """
    try:
        return _items.decode(payload)
    except UNREADABLE:
        fields = _object(payload)
    if not fields:
        raise RecordError("is not a JSON object")
    return _field_by_field(fields, _Item)


def _field_by_field(fields: Mapping[str, object], kind: type[_Shape]) -> _Shape:
    shapes = {field.name: field.type for field in msgspec.structs.fields(kind)}
    return kind(**{name: _fitting(fields.get(name), shape) for name, shape in shapes.items()})


def _fitting(value: object, shape: Any) -> Any:  # noqa: ANN401 -- a type, and a value of it
    """Give a value as a field wants it: numbers as text where text is wanted, what does not fit at all as None."""
    if isinstance(value, list):
        value = [one for one in value if isinstance(one, dict)]
    try:
        return msgspec.convert(value, shape, strict=False)
    except msgspec.ValidationError:
        return str(value) if shape == (str | None) and isinstance(value, int | float) else None


def _object(payload: bytes) -> dict[str, Any]:
    """Read JSON whatever is wrong in it; what is no object is an empty one."""
    try:
        value = parse(payload)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
