"""A source whose upstream is an object in this process: a correct pager over a service that misbehaves as it is told.

A payload is JSON that says which documents the record owns and how its mapping behaves, so that `documents` needs
nothing else. Three classes have more and more of the contract: pages alone, a census, and `get`.
"""

import base64
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import Field

from ingestion.errors import ScopeNotFoundError
from ingestion.model import ANONYMOUS, Account, Attachment, Document, Link, Page, Record
from resources.connector import Connector
from resources.counting import count_request

EPOCH = datetime(2020, 1, 1, tzinfo=UTC)

Hook = Callable[["Upstream"], None]
Bend = Callable[[Iterator[str]], Iterator[str]]


@dataclass(frozen=True, slots=True)
class Item:
    """A record as the upstream has it."""

    source_id: str
    payload: bytes
    updated_at: datetime
    is_skipped: bool = False
    """Listed among ours, but of another kind: pull requests among issues."""
    is_private: bool = False
    """For alice's eyes alone; others are told that it does not exist."""

    @property
    def position(self) -> tuple[str, str]:
        """The place in the upstream's order: by time, then by id."""
        return self.updated_at.isoformat(), self.source_id


@dataclass(slots=True)
class Upstream:
    """One scope upstream; its clock ticks a second with every change."""

    page_size: int = 3
    account: str = "alice"
    items: dict[str, Item] = field(default_factory=dict)
    has_details: bool = False
    """A page takes a request more per record: a fault can come in mid-page."""
    requests: int = 0
    faults: dict[int, BaseException] = field(default_factory=dict)
    """What is raised, once, by the request of that number, counted from 0 (`check` makes the first of a sync)."""
    before_request: Hook = lambda _upstream: None
    bend_census: Bend = lambda ids: ids
    _now: datetime = EPOCH

    def put(self, source_id: str, payload: bytes | None = None, at: datetime | None = None, **flags: bool) -> Item:
        """Create or change a record, which moves it to the end of the order unless `at` says otherwise."""
        self._now += timedelta(seconds=1)
        item = Item(source_id, owning(document(source_id)) if payload is None else payload, at or self._now, **flags)
        self.items[source_id] = item
        return item

    def touch(self, source_id: str) -> None:
        """Move a record to the end of the order, as it is."""
        self._now += timedelta(seconds=1)
        self.items[source_id] = replace(self.items[source_id], updated_at=self._now)

    def delete(self, *source_ids: str) -> list[Item]:
        """Delete records; what they were is given back, to return later."""
        return [self.items.pop(source_id) for source_id in source_ids]

    def restore(self, items: Iterable[Item]) -> None:
        """Bring records back as they were, without a new time: no change feed will show them."""
        self.items |= {item.source_id: item for item in items}

    def visible(self) -> list[Item]:
        """What the present account sees, in order."""
        seen = (item for item in self.items.values() if not item.is_private or self.account == "alice")
        return sorted(seen, key=lambda item: item.position)

    def find(self, source_id: str) -> Item | None:
        """What the present account sees of one record."""
        return next((item for item in self.visible() if item.source_id == source_id), None)

    def request(self) -> None:
        """Pass one request: here the world moves, and here things fail."""
        number, self.requests = self.requests, self.requests + 1
        count_request()
        self.before_request(self)
        fault = self.faults.pop(number, None)
        if fault is not None:
            raise fault

    def page_after(self, after: tuple[str, ...]) -> list[Item]:
        """Answer with one page of what the present account sees after a position."""
        self.request()
        return [item for item in self.visible() if item.position > after][: self.page_size]

    def calm(self) -> None:
        """Misbehave no more, and count requests anew."""
        self.requests, self.faults, self.account = 0, {}, "alice"
        self.before_request = lambda _upstream: None
        self.bend_census = lambda ids: ids


UPSTREAMS: dict[str, dict[str, Upstream]] = {}
"""Each upstream by its connector's setting `upstream` and the scope: connectors are frozen and hold no state."""


class Listed(Connector):
    """Pages, and nothing else: nothing is ever tombstoned by absence."""

    upstream: str = Field(description="Which of UPSTREAMS to read.")

    def check(self, scope: str | None = None) -> Account:
        if scope is None:
            return Account("alice", is_authenticated=True)
        upstream = self._scope(scope)
        upstream.request()
        return Account(upstream.account, is_authenticated=upstream.account != ANONYMOUS)

    def pages(self, scope: str, cursor: str | None) -> Iterator[Page]:
        upstream = self._scope(scope)
        after = tuple(json.loads(cursor)) if cursor else ("", "")
        while True:
            found = upstream.page_after(after)
            if not found:
                return
            records = [record for item in found if (record := self._record(upstream, item)) is not None]
            after = found[-1].position
            yield Page(tuple(records), json.dumps(after))

    @staticmethod
    def documents(scope: str, record: Record) -> Iterable[Document]:  # noqa: ARG004  # the contract's parameter
        told = json.loads(record.payload)
        for fields in told["documents"]:
            yield _document(fields)
        if "raise" in told:
            raise {"value": ValueError, "memory": MemoryError, "recursion": RecursionError}[told["raise"]](told["text"])

    def _record(self, upstream: Upstream, item: Item) -> Record | None:
        if upstream.has_details:
            upstream.request()
        now = upstream.find(item.source_id) if upstream.has_details else item
        return None if now is None or now.is_skipped else _as_record(now)

    def _scope(self, scope: str) -> Upstream:
        if scope not in UPSTREAMS[self.upstream]:
            raise ScopeNotFoundError(f"there is no {scope!r}")
        return UPSTREAMS[self.upstream][scope]


class Enumerated(Listed):
    """A census as well, but no way to ask for one record: a second census confirms."""

    def census(self, scope: str) -> Iterator[str]:
        upstream = self._scope(scope)
        yield from upstream.bend_census(self._ids(upstream))

    def _ids(self, upstream: Upstream) -> Iterator[str]:
        after = ("", "")
        while found := upstream.page_after(after):
            after = found[-1].position
            yield from (item.source_id for item in found if not item.is_skipped)


class Complete(Enumerated):
    """All of the contract."""

    def get(self, scope: str, source_id: str) -> Record | None:
        upstream = self._scope(scope)
        upstream.request()
        item = upstream.find(source_id)
        return None if item is None or item.is_skipped else _as_record(item)


KINDS: dict[str, type[Connector]] = {"listed": Listed, "enumerated": Enumerated, "complete": Complete}


def document(source_id: str, content: str = "text", **fields: object) -> dict[str, object]:
    """Give a document in the form of a payload; with no more than this it is valid."""
    url = f"https://example.org/{base64.urlsafe_b64encode(source_id.encode('utf-8', 'surrogatepass')).decode()}"
    return {
        "source_id": source_id,
        "doc_type": "note",
        "title": f"About {source_id}",
        "content": content,
        "url": url,
    } | fields


def owning(*documents: dict[str, object], **behaviour: str) -> bytes:
    """Give the payload of a record that owns these documents; `raise_="value"` makes its mapping raise after them."""
    told: dict[str, object] = {"documents": documents}
    if "raise_" in behaviour:
        told |= {"raise": behaviour["raise_"], "text": behaviour.get("text", "as told")}
    return json.dumps(told).encode()


REFUSED = owning(document("half"), raise_="value")
"""The payload of a record whose mapping raises when half of it is done."""


def _as_record(item: Item) -> Record:
    return Record(item.source_id, "note", item.payload, updated_at=item.updated_at)


def _document(fields: dict[str, Any]) -> Document:
    """Make a document as it is told, whatever the types are: checking them is not a connector's work."""
    made = dict(fields)
    for name in ("created_at", "updated_at"):
        if isinstance(made.get(name), str):
            made[name] = datetime.fromisoformat(made[name])
    made["attachments"] = tuple(
        Attachment(**{**one, "content": one.get("content") and base64.b64decode(one["content"])})
        for one in fields.get("attachments", ())
    )
    made["links"] = tuple(Link(*one) for one in fields.get("links", ()))
    if fields.get("metadata") == "unserializable":
        made["metadata"] = {"what": object()}
    return Document(**made)
