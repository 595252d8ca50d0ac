"""One repository of GitHub: its records, and the verbs by which tests change them."""

import json
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol

from tests.faultserver.github_payloads import Entry, Payload, render

SortKey = Callable[[Entry], tuple[Any, int]]
SORT_KEYS: dict[str, SortKey] = {
    "created": lambda entry: (entry.created_at, entry.id),
    "updated": lambda entry: (entry.updated_at, entry.id),
    "comments": lambda entry: (entry.comment_count, entry.id),
    "id": lambda entry: (0, entry.id),
}


class Surroundings(Protocol):
    """What a repository needs of the world around it."""

    ids: Iterator[int]

    @property
    def stamp(self) -> str: ...


@dataclass(eq=False)
class Repository:
    """One repository and its records, by their API paths relative to it (`issues/12`)."""

    world: Surroundings
    id: int
    full_name: str
    private: bool = False
    archived: bool = False
    has_issues: bool = True
    has_pulls: bool = True

    def __post_init__(self) -> None:
        self.created_at = self.world.stamp
        self.entries: dict[str, Entry] = {}
        self.deleted: set[str] = set()
        self.moved: dict[str, tuple[Repository, str]] = {}
        self._numbers = count(1)
        self._orders: dict[tuple[str, str, str], list[Entry]] = {}

    def issue(self, at: str | None = None, *, is_pull: bool = False, **fields: object) -> Entry:
        """Open an issue (or pull request); `at` (default: now) is its created_at and updated_at, here and below."""
        stamp = at or self.world.stamp
        entry = Entry("issues", next(self.world.ids), next(self._numbers), stamp, stamp, is_pull=is_pull, fields=fields)
        return self._put(entry)

    def pull(self, at: str | None = None, **fields: object) -> Entry:
        return self.issue(at, is_pull=True, **fields)

    def bulk(self, number: int, at: str | None = None, *, is_pull: bool = False) -> list[Entry]:
        """Import this many issues within one second."""
        return [self.issue(at, is_pull=is_pull) for _ in range(number)]

    def comment(self, parent: Entry, at: str | None = None, **fields: object) -> Entry:
        """Comment an issue or pull request, whose updated_at moves with it."""
        return self._reply("issues/comments", parent, at, fields)

    def review(self, parent: Entry, at: str | None = None, **fields: object) -> Entry:
        """Comment a line of a pull request, whose updated_at moves with it."""
        return self._reply("pulls/comments", parent, at, fields)

    def release(self, at: str | None = None, **fields: object) -> Entry:
        return self._put(self._new("releases", at, 0, fields))

    def edit(self, entry: Entry, at: str | None = None, **fields: object) -> None:
        """Change fields of a record and its updated_at; an `at` in the past is a commit that comes late."""
        with self._changing(entry):
            entry.fields |= fields
            entry.updated_at = at or self.world.stamp

    touch = edit
    """Called without fields: the record moves to the end of the order, as it is."""

    def close(self, entry: Entry, reason: str = "completed") -> None:
        self.edit(entry, state="closed", closed_at=self.world.stamp, state_reason=reason)

    def merge(self, entry: Entry) -> None:
        """Merge a pull request."""
        links = json.loads(render(self.full_name, entry))["pull_request"]
        self.edit(
            entry, state="closed", closed_at=self.world.stamp, pull_request=links | {"merged_at": self.world.stamp}
        )

    def reopen(self, entry: Entry) -> None:
        self.edit(entry, state="open", closed_at=None, state_reason="reopened")

    def convert(self, entry: Entry) -> None:
        """Convert an issue to a discussion: the API goes on to list it, closed and locked, and says no more."""
        self.edit(entry, state="closed", closed_at=self.world.stamp, locked=True)

    def delete(self, entry: Entry) -> None:
        """Delete a record; with an issue go its comments. An issue answers 410 from now on, everything else 404."""
        for gone in [entry, *self._replies(entry)]:
            self._drop(gone)
            self.deleted.add(gone.path)
        parent = self.entries.get(f"issues/{entry.parent}")
        if parent is not None and entry.kind == "issues/comments":
            with self._changing(parent):
                parent.comment_count -= 1

    def transfer(self, entry: Entry, other: "Repository") -> Entry:
        """Move an issue with its comments to another repository: new ids there, a redirect for the issue alone here."""
        moved = other.issue(entry.created_at, **entry.fields)
        for reply in self._replies(entry):
            other.edit(other.comment(moved, reply.created_at, **reply.fields), reply.updated_at)
            self._drop(reply)
        self._drop(entry)
        self.moved[entry.path] = other, moved.path
        other.touch(moved)
        return moved

    def live(self) -> dict[str, Payload]:
        """The plain truth: every record that exists, as it is sent, by its path."""
        return {path: json.loads(render(self.full_name, entry)) for path, entry in self.entries.items()}

    def is_of_pull(self, entry: Entry) -> bool:
        """Tell whether a record is a pull request or a comment of one."""
        parent = self.entries.get(f"issues/{entry.parent}")
        return entry.is_pull or (parent is not None and parent.is_pull)

    def render_anew(self) -> None:
        """Forget the bytes of every record, because what all of them contain has changed."""
        for entry in self.entries.values():
            entry.rendered = None

    def ordered(self, kind: str, sort: str, state: str = "all") -> list[Entry]:
        """Give the records of a kind, in ascending order; the list is kept, and follows every change."""
        key = kind, sort, state
        if key not in self._orders:
            found = (entry for entry in self.entries.values() if entry.kind == kind and state in {"all", entry.state})
            self._orders[key] = sorted(found, key=SORT_KEYS[sort])
        return self._orders[key]

    def _new(self, kind: str, at: str | None, parent: int, fields: dict[str, object]) -> Entry:
        stamp, number = at or self.world.stamp, next(self.world.ids)
        return Entry(kind, number, number, stamp, stamp, parent, fields=fields)

    def _reply(self, kind: str, parent: Entry, at: str | None, fields: dict[str, object]) -> Entry:
        entry = self._put(self._new(kind, at, parent.number, fields))
        with self._changing(parent):
            parent.comment_count += kind == "issues/comments"
            parent.updated_at = max(entry.created_at, parent.updated_at)
        return entry

    def _replies(self, entry: Entry) -> list[Entry]:
        found = [one for one in self.entries.values() if one.parent == entry.number] if entry.kind == "issues" else []
        return sorted(found, key=SORT_KEYS["created"])

    def _put(self, entry: Entry) -> Entry:
        self.entries[entry.path] = entry
        self._list(entry)
        return entry

    def _drop(self, entry: Entry) -> None:
        self._unlist(entry)
        del self.entries[entry.path]

    @contextmanager
    def _changing(self, entry: Entry) -> Iterator[None]:
        """Take a record out of the orders, and put it in again as it then is: sorting 200,000 anew takes too long."""
        self._unlist(entry)
        yield
        entry.rendered = None
        self._list(entry)

    def _list(self, entry: Entry) -> None:
        for rows, key in self._orders_of(entry):
            insort(rows, entry, key=key)

    def _unlist(self, entry: Entry) -> None:
        for rows, key in self._orders_of(entry):
            place = bisect_left(rows, key(entry), key=key)
            assert rows[place] is entry, f"{entry.path} was changed without a verb"
            del rows[place]

    def _orders_of(self, entry: Entry) -> Iterator[tuple[list[Entry], SortKey]]:
        for (kind, sort, state), rows in self._orders.items():
            if kind == entry.kind and state in {"all", entry.state}:
                yield rows, SORT_KEYS[sort]
