"""A Tributary of one's own for a test: raw log, warehouse and snapshot in one folder, and a clock of its own."""

from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypedDict, Unpack

import duckdb

from ingestion import schema
from resources.connector import Connector
from resources.fetch import Fetched, FetchOptions, ScopeFetch
from resources.known import known
from resources.load import load
from resources.publish import publish
from resources.rawlog import RawLog
from resources.sql import statement
from resources.warehouse import Warehouse
from resources.wave import Loaded
from tests.scripted import KINDS, UPSTREAMS, Complete, Listed, Upstream

SOURCE, SCOPE = "source", "scope"

Rows = list[tuple[Any, ...]]


class Options(TypedDict, total=False):
    """The fields of FetchOptions, for tests to name the ones that matter."""

    take_census: bool
    max_pages: int | None
    approve_deletions: bool
    brake_ids: int
    brake_share: float


@dataclass
class Site:
    """Everything that `sources.yaml` would set up, for one scripted source."""

    folder: Path
    kind: type[Listed] = Complete
    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    upstreams: dict[str, Upstream] = field(default_factory=dict)

    def __post_init__(self) -> None:
        UPSTREAMS[str(self.folder)] = self.upstreams
        self.upstreams.setdefault(SCOPE, Upstream())
        self.raw_log = RawLog(root=str(self.folder / "raw"), locks=str(self.folder / "locks"))
        self.warehouse = Warehouse(data=str(self.folder), memory_limit="128MB", lock_timeout=0.0)
        self._opened: tuple[ExitStack, duckdb.DuckDBPyConnection] | None = None

    @property
    def upstream(self) -> Upstream:
        """The upstream of the scope that is meant where none is named."""
        return self.upstreams[SCOPE]

    @property
    def connector(self) -> Connector:
        return self.kind(upstream=str(self.folder))

    def clock(self) -> datetime:
        """Tell the time, which no other call has told: every instant in the tables is distinct and the same again."""
        self.now += timedelta(seconds=1)
        return self.now

    def fetch(self, scope: str = SCOPE, **options: Unpack[Options]) -> Fetched:
        """Fetch one scope as the graph does; a request of the upstream is counted from the fetch's first."""
        self.upstreams[scope].requests = 0
        kind = next(name for name, cls in KINDS.items() if cls is self.kind)
        with known(self.warehouse.snapshot, "64MB") as held:
            log = self.raw_log.scope(SOURCE, scope)
            return ScopeFetch(self.connector, kind, log, held, FetchOptions(**options), self.clock).run()

    def load(self) -> list[Loaded]:
        return list(load(self.connection, self.raw_log, KINDS, self.warehouse.attachments))

    def sync(self, scope: str = SCOPE, **options: Unpack[Options]) -> Fetched:
        """Fetch and load."""
        fetched = self.fetch(scope, **options)
        self.load()
        return fetched

    def census(self, **options: Unpack[Options]) -> Fetched:
        """Fetch with a census, and load."""
        options["take_census"] = True
        return self.sync(**options)

    def publish(self) -> Path | None:
        self.close()
        with self.warehouse.locked("publishing"):
            return publish(self.warehouse)

    def replay(self) -> None:
        """Drop the warehouse and load the raw log again."""
        self.close()
        self.warehouse.drop()
        self.load()

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The warehouse, which stays open from one step to the next: opening it takes longer than most steps do."""
        if self._opened is None:
            stack = ExitStack()
            stack.enter_context(self.warehouse.locked("a test"))
            self._opened = stack, stack.enter_context(self.warehouse.connect())
        return self._opened[1]

    def close(self) -> None:
        if self._opened is not None:
            self._opened[0].close()
            self._opened = None

    def query(self, sql: str, *parameters: object) -> Rows:
        return self.connection.execute(sql, parameters or None).fetchall()

    def tables(self) -> dict[str, Rows]:
        """Everything that the warehouse knows, but for the time when its file was made and the index's numbers."""
        without = {"document_versions": "SELECT * EXCLUDE (docid) FROM"}
        return {name: self.query(f"{without.get(name, 'FROM')} {name} ORDER BY ALL") for name in schema.TABLES}

    def live(self) -> dict[str, str]:
        """The live documents: their content by source_id."""
        return dict(self.query("SELECT source_id, content FROM documents"))

    def deleted(self) -> set[str]:
        """The tombstoned documents."""
        return {row[0] for row in self.query("SELECT source_id FROM documents_all WHERE is_deleted")}

    def rejects(self) -> dict[str, str]:
        """The records that are refused now, with their reasons."""
        return dict(self.query("SELECT source_id, reason FROM rejects"))

    def doubles(self) -> Rows:
        """What is there more than once and must not be."""
        return self.query(statement("check_unique_keys"))
