"""A source of the kind `github` with one scope, and what Tributary keeps of it: a sync without the graph around it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resources.connectors.github import GitHubConnector
from resources.discovery import connectors
from resources.fetch import Fetched, FetchOptions, ScopeFetch
from resources.known import known
from resources.load import load_all
from resources.publish import publish
from resources.rawlog import RawLog
from resources.warehouse import Warehouse
from tests.real.support import read_only


@dataclass
class Site:
    """All of it stands in one folder."""

    connector: GitHubConnector
    scope: str
    folder: Path

    def __post_init__(self) -> None:
        self.raw_log = RawLog(root=str(self.folder / "raw"), locks=str(self.folder / "locks"))
        self.warehouse = Warehouse(data=str(self.folder))

    def sync(self, *, take_census: bool = False) -> Fetched:
        """Fetch to the end, load and publish."""
        log, options = self.raw_log.scope("github", self.scope), FetchOptions(take_census=take_census)
        with self.raw_log.lock("github", timeout=1), known(self.warehouse.snapshot, "256MB") as held:
            fetched = ScopeFetch(self.connector, "github", log, held, options).run()
        assert fetched.is_caught_up
        with self.warehouse.locked("a test"):
            load_all(self.warehouse, self.raw_log, connectors())
            publish(self.warehouse)
        return fetched

    def cursor(self) -> str | None:
        newest = self.raw_log.scope("github", self.scope).last()
        return newest.cursor if newest else None

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        with read_only(self.warehouse.snapshot) as connection:
            return connection.execute(sql).fetchall()

    def live(self) -> set[str]:
        return {row[0] for row in self.query("SELECT source_id FROM documents")}
