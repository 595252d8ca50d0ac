"""The words of Tributary as data: what a connector gives, what the raw log keeps, what analysts read.

Everything here is frozen and free of behaviour beyond deriving one field from another.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

BatchKind = Literal["records", "census"]
Verdict = Literal["gone", "suspected", "held", "back"]
"""What a census says of one id: `gone` (tombstone it), `suspected` (missing once, to be confirmed by the next census),
`held` (missing, but the brake is on), `back` (live again, and the connector cannot fetch it singly)."""

ANONYMOUS = "anonymous"
"""The name of an account that is none: what it sees, everybody sees."""


@dataclass(frozen=True, slots=True)
class Record:
    """One upstream item as it was sent."""

    source_id: str
    """Identifies the record within its scope, for ever."""
    record_type: str
    """What the upstream calls it: `issue`, `comment`, `file`."""
    payload: bytes
    """The original bytes, never re-encoded."""
    media_type: str = "application/json"
    """How to read the payload."""
    updated_at: datetime | None = None
    """When the upstream says that it last changed (aware), None where it does not say."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    """Facts that came beside the payload and are not in it: a file's address, a mail's flags."""


@dataclass(frozen=True, slots=True)
class Page:
    """Records fetched together, with the cursor that is true once they are stored."""

    records: tuple[Record, ...]
    cursor: str | None
    """Opaque to everyone but its connector. Give it back to `pages` and nothing after this page is missed."""


@dataclass(frozen=True, slots=True)
class Account:
    """Who the upstream says we are: a census counts only while this stays the same."""

    name: str
    """The account as the upstream names it; ANONYMOUS where there is none."""
    is_authenticated: bool
    detail: str = ""
    """What this account can see, in words for the operator."""
    scope_id: str = ""
    """The upstream's own id of the scope that was asked for, where it has one: names pass to others, ids do not."""


@dataclass(frozen=True, slots=True)
class Link:
    """A directed relation from a document to another document or an address."""

    relation: str
    """`mentions`, `blocks`, `duplicates`, `parent`, `closes`, `moved_to`, ..."""
    target: str
    """An address, or the text as written where it names nothing that we can resolve."""
    is_source_id: bool = False
    """`target` is the source_id of a document in the same scope: what analysts see is its doc_id."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that belongs to a document."""

    name: str
    media_type: str
    url: str | None = None
    content: bytes | None = None
    """The bytes, None where they were not fetched. The load keeps them once per sha256."""


@dataclass(frozen=True, slots=True)
class Document:
    """One searchable item in the shared shape, as a connector maps it. Source and scope are added by `normalize`."""

    source_id: str
    doc_type: str
    title: str
    content: str
    url: str
    author: str | None = None
    assignees: tuple[str, ...] = ()
    participants: tuple[str, ...] = ()
    participants_raw: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    channel: str | None = None
    thread_id: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)
    attachments: tuple[Attachment, ...] = ()
    links: tuple[Link, ...] = ()


@dataclass(frozen=True, slots=True)
class Reject:
    """A record that was refused, whole or in part, with the reason."""

    source_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Batch:
    """One immutable Parquet file of the raw log, known by its footer."""

    source: str
    scope: str
    sequence: int
    """1, 2, 3, ... within the scope, without gaps."""
    kind: BatchKind
    path: str
    connector: str
    """The connector's kind, so that a replay needs no sources.yaml."""
    connector_version: int
    written_at: datetime
    since: str | None
    """The cursor that the fetch started from."""
    cursor: str | None
    """The cursor that is true with this batch stored."""
    is_caught_up: bool
    """No more was to be had when the batch was written."""
    resumes_at: datetime | None
    """When a rate limit said to come back."""
    records_count: int
    account: str
    """Who we were upstream."""
    scope_id: str = ""
    """What the scope was upstream, by its own id; empty where it has none."""
    census_sequence: int | None = None
    """The newest census batch of the scope, this one included."""
    census: "CensusSummary | None" = None
    """What was decided, in a census batch."""

    def has_to_wait(self, now: datetime) -> bool:
        """Tell whether the upstream asked not to be asked before an instant that is yet to come."""
        return self.resumes_at is not None and self.resumes_at > now

    @property
    def batch_id(self) -> str:
        """`source:scope:sequence`, as in `loaded_batches`."""
        return doc_id(self.source, self.scope, f"{self.sequence:010d}")


@dataclass(frozen=True, slots=True)
class CensusSummary:
    """What a complete census found and what was decided, in numbers."""

    live_count: int
    """Ids that the upstream has."""
    missing_count: int
    """Ids that we hold as live and the census did not show."""
    gone_count: int
    """Missing ids that were confirmed to be gone, and are tombstoned."""
    is_held: bool
    """The brake was on: nothing is tombstoned until an operator approves."""
    is_approved: bool
    """An operator approved what the brake would have held."""
    reason: str
    """Why it was held, or what was approved; empty where there was nothing to decide."""
    trusted_account: str
    """Who took the newest census that was not held: a census by somebody else may see less."""


def doc_id(source: str, scope: str, source_id: str) -> str:
    """Give the one string that names a document: `source:scope:source_id`, injective and readable.

    Source names have no colon; `%` and `:` in the scope are percent-encoded, so that the first two colons separate.
    """
    return f"{source}:{scope.replace('%', '%25').replace(':', '%3A')}:{source_id}"
