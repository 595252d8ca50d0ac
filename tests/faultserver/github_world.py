"""What GitHub knows, and the verbs by which tests change it; no HTTP here.

Time stands still until a test calls `advance`: whatever happens meanwhile carries one and the same second.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count

from tests.faultserver.github_repository import Repository
from tests.faultserver.server import Request

HOUR = 3600


@dataclass
class Quota:
    """The requests that one token may make; full again when `wall` passes `reset_at` (seconds since the epoch)."""

    limit: int
    remaining: int
    reset_at: int


@dataclass
class Account:
    """Who a token stands for, and which private repositories it sees (their ids)."""

    login: str
    sees: set[int] = field(default_factory=set)
    is_revoked: bool = False
    """Answered with 401."""
    is_downgraded: bool = False
    """Answered as a stranger is: public repositories as before, private ones with 404."""


@dataclass
class World:
    """Accounts and repositories. Each knob below makes this GitHub less friendly."""

    now: datetime = datetime(2024, 1, 1, tzinfo=UTC)
    wall: Callable[[], float] = time.time
    """The clock of the quotas; give the client's own where that is not real."""
    tokens: dict[str, Account] = field(default_factory=dict)
    quotas: dict[str, Quota] = field(default_factory=dict)
    """By token; `""` is for requests without one. Read and set them through `quota`."""
    root: str = ""
    """What stands before every path: `/api/v3` at an Enterprise server."""
    max_page: int | None = None
    """Listings answer 422 for a page beyond this."""
    is_silent_cap: bool = False
    """Beyond `max_page` there is simply nothing more, and nothing says so."""
    ignores_order: bool = False
    """`sort` and `direction` change nothing: every listing is in its default order."""
    has_cursors: bool = False
    """Issues are paged by an opaque `after` in the Link, as at GitHub since 2025; `max_page` holds for `page` alone."""
    serves_pulls_when_disabled: bool = False
    """With issues disabled, the issues endpoints still serve the pull requests and their comments instead of 410."""

    def __post_init__(self) -> None:
        self.repositories: dict[int, Repository] = {}
        self.names: dict[str, int] = {}
        self.former_names: dict[str, int] = {}
        self.ids: Iterator[int] = count(2_900_000_001)  # beyond 31 bits, as GitHub's are

    @property
    def stamp(self) -> str:
        """The time now, as GitHub writes it."""
        return f"{self.now:%Y-%m-%dT%H:%M:%SZ}"

    def address(self, request: Request, repository_id: int) -> str:
        """Give the absolute URL of a repository by its id, as the client reached this server."""
        return f"{request.origin}{self.root}/repositories/{repository_id}"

    def advance(self, seconds: int = 1) -> None:
        self.now += timedelta(seconds=seconds)

    def sign_up(self, login: str, token: str, sees: Iterable[Repository] = ()) -> Account:
        """Make a token for an account; it sees the public repositories and these private ones."""
        self.tokens[token] = Account(login, {repository.id for repository in sees})
        return self.tokens[token]

    def quota(self, token: str = "") -> Quota:
        """Give the quota of a token, refilled where its hour is over."""
        if token not in self.quotas or self.wall() >= self.quotas[token].reset_at:
            limit = self.quotas[token].limit if token in self.quotas else (5000 if token else 60)
            self.quotas[token] = Quota(limit, limit, int(self.wall()) + HOUR)
        return self.quotas[token]

    def create(self, full_name: str, **flags: bool) -> Repository:
        """Create a repository; a former name of another one thereby stops to redirect there."""
        repository = Repository(self, next(self.ids), full_name, **flags)
        self.repositories[repository.id] = repository
        self._give_name(repository)
        return repository

    def rename(self, repository: Repository, full_name: str) -> None:
        """Rename a repository, or move it to another owner: its old name redirects to it."""
        self.former_names[repository.full_name.lower()] = self.names.pop(repository.full_name.lower())
        repository.full_name = full_name
        self._give_name(repository)
        repository.render_anew()

    def take_over(self, former_name: str, **flags: bool) -> Repository:
        """Let a stranger create a repository under a name that another one has left."""
        assert former_name.lower() in self.former_names, f"{former_name} was never left"
        return self.create(former_name, **flags)

    def remove(self, repository: Repository) -> None:
        """Delete a repository: it is not there for anybody."""
        del self.repositories[repository.id], self.names[repository.full_name.lower()]

    def _give_name(self, repository: Repository) -> None:
        name = repository.full_name.lower()
        assert name not in self.names, f"{name} is taken"
        self.former_names.pop(name, None)
        self.names[name] = repository.id
