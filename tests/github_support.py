"""A Tributary whose one source is a GitHub on a real socket, and whose clock stands still unless something waits."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, Unpack

from ingestion.text import clean
from resources import answer, budget
from resources.connectors.github import GitHubConnector
from resources.fetch import Fetched, FetchOptions, ScopeFetch
from resources.known import known
from resources.load import load
from resources.rawlog import ScopeLog
from resources.sender import Patience
from resources.wave import Loaded
from tests.faultserver.github import GitHub
from tests.faultserver.github_payloads import Payload
from tests.faultserver.github_repository import Repository
from tests.faultserver.server import FaultServer, Request
from tests.support import Options, Site

NAME = "octo/hello"
TOKEN = "ghp_T0ken/of+alice=="
"""With characters that encodings change."""


@dataclass
class Clock:
    """Seconds since the epoch, near the machine's own (the server's Date is that); sleeping takes no time."""

    seconds: float = field(default_factory=time.time)
    slept: list[float] = field(default_factory=list)

    def now(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds


CLOCK = Clock()
"""Connectors are made from their settings alone: what they wait by has to stand in their class."""


class Impatient(GitHubConnector):
    """Waits by CLOCK; everything else is GitHubConnector's own."""

    patience: ClassVar[Patience] = Patience(backoff=0.001, sleep=CLOCK.sleep, now=CLOCK.now)


class GitHubSite(Site):
    """Fetches and loads what the server has; documents are mapped by the class that is shipped."""

    def __init__(self, folder: Path, github: GitHub, server: FaultServer, token: str = TOKEN) -> None:
        self.github, self.server, self.token = github, server, token
        super().__init__(folder)

    @property
    def connector(self) -> GitHubConnector:
        return Impatient(base_url=f"{self.server.url}{self.github.root}", token=self.token)

    def clock(self) -> datetime:
        CLOCK.seconds += 0.001
        return datetime.fromtimestamp(CLOCK.seconds, UTC)

    def fetch(self, scope: str = NAME, **options: Unpack[Options]) -> Fetched:
        with known(self.warehouse.snapshot, "64MB") as held:
            return ScopeFetch(
                self.connector, "github", self.log(scope), held, FetchOptions(**options), self.clock
            ).run()

    def load(self) -> list[Loaded]:
        return list(load(self.connection, self.raw_log, {"github": GitHubConnector}, self.warehouse.attachments))

    def sync(self, scope: str = NAME, **options: Unpack[Options]) -> Fetched:
        return super().sync(scope, **options)

    def census(self, scope: str = NAME, **options: Unpack[Options]) -> Fetched:
        options["take_census"] = True
        return self.sync(scope, **options)

    def log(self, scope: str = NAME) -> ScopeLog:
        return self.raw_log.scope("github", scope)

    def batches_count(self, scope: str = NAME) -> int:
        return sum(1 for _ in self.log(scope).after(0))

    def cursor(self, scope: str = NAME) -> str | None:
        newest = self.log(scope).last()
        return newest.cursor if newest else None

    def stored(self, scope: str = NAME) -> dict[str, bytes]:
        """The newest payload of each record in the raw log."""
        found: dict[str, bytes] = {}
        for batch in self.log(scope).after(0):
            if batch.kind == "records":
                rows = self.log(scope).read(batch, ["source_id", "payload"]).to_pydict()
                found |= zip(rows["source_id"], rows["payload"], strict=True)
        return found

    def documents(self, scope: str = NAME) -> dict[str, tuple[str, str]]:
        """The live documents: content and time of the last change, by source_id."""
        rows = self.query("SELECT source_id, content, updated_at FROM documents WHERE scope = ?", scope)
        return {source_id: (content, f"{at:%Y-%m-%dT%H:%M:%SZ}") for source_id, content, at in rows}


def truth(repository: Repository) -> dict[str, tuple[str, str]]:
    """What the documents have to be."""
    return {path: _shown(payload) for path, payload in repository.live().items()}


def _shown(payload: Payload) -> tuple[str, str]:
    return clean(payload["body"] or ""), payload["updated_at"]


def paths(server: FaultServer) -> list[str]:
    """What was asked, in short."""
    return [request.path for request in server.requests]


@contextmanager
def site(folder: Path, github: GitHub | None = None, token: str = TOKEN) -> Iterator[GitHubSite]:
    """Give a site with a server of its own; alice's token is known, and sees no private repository yet."""
    github = github or GitHub()
    CLOCK.seconds = time.time()
    CLOCK.slept.clear()
    github.wall = CLOCK.now
    github.sign_up("alice", TOKEN)
    try:
        with FaultServer(github) as server:
            made = GitHubSite(folder, github, server, token)
            try:
                yield made
            finally:
                made.close()
    finally:
        # Another server may get this port: what was said of this one does not hold for it.
        budget._budgets.clear()
        answer._remembered.clear()


def is_listing(request: Request) -> bool:
    return request.first("per_page") == "100"
