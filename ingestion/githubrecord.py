"""GitHub's records as their API sends them, read whatever is wrong in them.

https://docs.github.com/en/rest/issues/issues#get-an-issue shows an issue; the others are shaped alike.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, TypeVar

import msgspec

from ingestion.errors import RecordError
from ingestion.jsontext import UNREADABLE, parse


class Pull(msgspec.Struct):
    """What an issue says of the pull request that it is; old ones that are none have it too, with nothing in it."""

    url: str | None = None
    html_url: str | None = None
    merged_at: str | None = None


class Head(msgspec.Struct):
    """The little of a record that its listing needs."""

    id: int | str | None = None
    number: int | str | None = None
    updated_at: str | None = None
    pull_request: Pull | None = None
    diff_url: str | None = None

    @property
    def at(self) -> datetime | None:
        """When it changed last."""
        return instant(self.updated_at)

    @property
    def is_pull_request(self) -> bool:
        """It is a pull request, listed among issues or by itself."""
        if self.pull_request is not None:
            return bool(self.pull_request.url or self.pull_request.html_url)
        return self.diff_url is not None and self.number is not None


class User(msgspec.Struct):
    """An account; those of deleted users are null."""

    login: str | None = None


class Label(msgspec.Struct):
    """A label of an issue."""

    name: str | None = None


class Milestone(msgspec.Struct):
    """What an issue is planned for."""

    title: str | None = None


class Asset(msgspec.Struct):
    """A file of a release."""

    name: str | None = None
    content_type: str | None = None
    browser_download_url: str | None = None


_Id = int | str | None


class Item(msgspec.Struct):
    """What documents are made of; a record in which a field is not of the documented type is read field by field."""

    id: _Id = None
    number: _Id = None
    title: str | None = None
    name: str | None = None
    tag_name: str | None = None
    body: str | None = None
    user: User | None = None
    author: User | None = None
    labels: list[Label] | None = None
    assignees: list[User] | None = None
    milestone: Milestone | None = None
    state: str | None = None
    state_reason: str | None = None
    draft: bool | None = None
    prerelease: bool | None = None
    locked: bool | None = None
    merged_at: str | None = None
    pull_request: Pull | None = None
    html_url: str | None = None
    url: str | None = None
    issue_url: str | None = None
    pull_request_url: str | None = None
    path: str | None = None
    in_reply_to_id: _Id = None
    created_at: str | None = None
    updated_at: str | None = None
    published_at: str | None = None
    assets: list[Asset] | None = None


_Shape = TypeVar("_Shape", Head, Item)

_heads = msgspec.json.Decoder(Head)
_items = msgspec.json.Decoder(Item)


def head(payload: bytes) -> Head:
    """Read what a listing needs of a record; what is no object has none of it."""
    try:
        return _heads.decode(payload)
    except UNREADABLE:
        return _field_by_field(_object(payload), Head)


def read(payload: bytes) -> Item:
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
    return _field_by_field(fields, Item)


def record_id(found: Head, key: str, payload: bytes) -> str:
    """Give the last part of a record's source_id; one without an id is told from others by what it holds."""
    value = getattr(found, key)
    return str(value) if isinstance(value, int | str) and value != "" else f"unnamed-{sha256(payload).hexdigest()[:16]}"


def instant(text: object) -> datetime | None:
    """Read a time, in UTC where it names no zone; None for what is none."""
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found is not None and found.tzinfo is None else found


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
