"""The connector contract: what a source has to offer, and the little it may assume.

A connector is a Dagster resource and nothing else: one class in one module of `resources/connectors/`, found there by
`resources.discovery`. Secrets are `str` fields declared with `Field(repr=False)` and arrive as Dagster `EnvVar`.
What only some upstreams can do is a small protocol below; a connector has a capability by having the method.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import ClassVar, Protocol, runtime_checkable

from dagster import ConfigurableResource
from pydantic import ConfigDict

from ingestion.model import Account, Document, Page, Record


class Connector(ConfigurableResource):  # type: ignore[type-arg]  # dagster: its argument is for resources that build another object
    """Reads one kind of upstream. Stateless between calls; called from several threads, one scope each."""

    model_config = ConfigDict(extra="forbid")

    census_every_sync: ClassVar[bool] = False
    """Take a census in every sync: for upstreams that are enumerated as cheaply as they are asked for changes."""

    version: ClassVar[int] = 1
    """Raise it when `documents` maps the same record differently: records that come again are then mapped again."""

    @abstractmethod
    def check(self, scope: str | None = None) -> Account:
        """Prove credentials and reachability (and that `scope` is there) with the cheapest authenticated call.

        Raises:
            ConfigurationError: a credential or setting is wrong; the text says what to do.
            ScopeNotFoundError: the scope is not there for this account.
            TransientError: the upstream cannot be reached now.
        """

    @abstractmethod
    def pages(self, scope: str, cursor: str | None) -> Iterator[Page]:
        """Yield what changed since `cursor` (None: everything), oldest change first, and end when nothing is left.

        Each page's cursor must be safe once that page is stored: continuing from it misses nothing, whatever moves
        meanwhile. Records at the cursor may come again; the cursor must move even when one instant has many records.
        Raises the errors of `check`; what was yielded before is kept.
        """

    @staticmethod
    @abstractmethod
    def documents(scope: str, record: Record) -> Iterable[Document]:
        """Map one record to the documents that it owns, from its bytes and attributes alone.

        No network, token, clock or instance: a replay calls this years later. Raises anything: it becomes a reject.
        """


@runtime_checkable
class SupportsCensus(Protocol):
    """An upstream that can be enumerated. Without this, nothing of the source is ever tombstoned by absence."""

    def census(self, scope: str) -> Iterator[str]:
        """Yield the source_id of every record that exists now; raise rather than stop early."""


@runtime_checkable
class SupportsGet(Protocol):
    """An upstream that can be asked for one record. Without this, a missing id is confirmed by the next census."""

    def get(self, scope: str, source_id: str) -> Record | None:
        """Fetch one record as it is now; None means that the upstream confirmed that it is gone."""


@runtime_checkable
class SupportsChanged(Protocol):
    """An upstream with a cheap way to ask whether anything is new; it gets a poll sensor."""

    def changed(self, scope: str, cursor: str | None) -> bool:
        """Tell whether `pages(scope, cursor)` would yield something new; may err towards True."""
