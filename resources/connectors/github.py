"""Reads repositories of GitHub, or of a GitHub Enterprise Server: issues, pull requests, comments and releases.

Comments come by the listings of the whole repository, 100 per request, and pull requests among the issues; a source_id
is the path of the record below its repository (`issues/12`, `issues/comments/987`, `pulls/comments/5`, `releases/7`).
https://docs.github.com/en/rest/issues/issues, https://docs.github.com/en/rest/issues/comments,
https://docs.github.com/en/rest/pulls/comments, https://docs.github.com/en/rest/releases/releases
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, ClassVar, Self

from pydantic import Field

from ingestion.errors import ConfigurationError, TransientError
from ingestion.githubdocument import github_document
from ingestion.githubrecord import Head, head, record_id
from ingestion.model import ANONYMOUS, Account, Document, Page, Record
from resources.answer import Answer
from resources.connector import Connector
from resources.http import Http
from resources.keyset import Position, Row, Window, interleaved, walk
from resources.sender import Patience

_PUBLIC_API = "https://api.github.com"
_SCOPE = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
_NOT_OFFERED = (404, 409, 410)
"""A listing that a repository lacks: issues are disabled (410), pull requests are (404), nothing is in it (409)."""
_SINCE_BEGINS = datetime(1971, 1, 1, tzinfo=UTC)
"""Listings that begin earlier are read without `since`."""
_VOLATILE = re.compile(rb'"download_count":\s*\d+')
"""Counts of downloads change by the minute, and say nothing new of a release."""


@dataclass(frozen=True, slots=True)
class _Listing:
    """A listing of a whole repository."""

    path: str
    record_type: str
    id_key: str
    params: Mapping[str, str]
    has_since: bool = True


_BY_TIME = {"sort": "updated", "direction": "asc"}
_LISTINGS = (
    _Listing("issues", "issue", "number", {"state": "all", **_BY_TIME}),
    _Listing("issues/comments", "comment", "id", _BY_TIME),
    _Listing("pulls/comments", "review_comment", "id", _BY_TIME),
    _Listing("releases", "release", "id", {}, has_since=False),
)
_PULLS = _Listing("pulls", "pull_request", "number", {"state": "all", **_BY_TIME}, has_since=False)
"""For repositories without issues, where pull requests are not among these."""


class GitHubConnector(Connector):
    """A scope is a repository, `owner/name`. Without a token: public ones, at 60 requests an hour."""

    token: str = Field(default="", repr=False, description="A token that may read the repositories; from {env: NAME}.")
    base_url: str = Field(
        default=_PUBLIC_API, description="The REST API's address: `https://HOST/api/v3` for GitHub Enterprise Server."
    )
    verify: bool = Field(
        default=True, description="Check the server's certificate; false for a server of your own only."
    )

    patience: ClassVar[Patience] = Patience()

    def check(self, scope: str | None = None) -> Account:
        """Ask who we are, and whether the repository is there for us."""
        with self._http() as http:
            account = self._account(http)
            if scope is None:
                http.get("rate_limit", accept=(404,))  # costs nothing; 404 where an Enterprise Server has no limits
                return account
            repository = _repository(http, scope)
        name = str(repository.get("full_name") or scope)
        moved = f"; {scope} is called {name} now" if name.lower() != scope.lower() else ""
        return replace(account, detail=account.detail + moved, scope_id=str(repository.get("id", "")))

    def pages(self, scope: str, cursor: str | None) -> Iterator[Page]:
        """Yield what changed in each listing, a page of each in turn."""
        return self._pages(scope, cursor)

    def census(self, scope: str) -> Iterator[str]:
        """Yield the id of everything in the listings, read from their beginning."""
        with self._http() as http:
            reader = _Reader.of(http, scope)
            for listing in reader.listings:
                for records, _ in walk(partial(reader.window, listing), Position()):
                    yield from (record.source_id for record in records)

    def get(self, scope: str, source_id: str) -> Record | None:
        """Fetch one record. One that was transferred is fetched from where it is now, and stays what it was here."""
        with self._http() as http:
            answer = http.get(f"repos/{scope}/{source_id}", accept=_NOT_OFFERED)
            if answer.is_moved:  # by a transfer, or only because the repository is called otherwise now
                answer = http.get(f"{_Reader.of(http, scope).base}/{source_id}", accept=_NOT_OFFERED)
            if not answer.is_success:
                answer = _confirmed_gone(http, scope, source_id) or answer
        return _single(answer, source_id) if answer.is_success else None

    def changed(self, scope: str, cursor: str | None) -> bool:
        """Tell whether any listing has news; answers that still hold cost nothing of the quota."""
        return any(page.records for page in self._pages(scope, cursor, is_conditional=True))

    @staticmethod
    def documents(scope: str, record: Record) -> Iterable[Document]:
        """Map an issue, pull request, comment or release to its document."""
        return (github_document(scope, record),)

    def _pages(self, scope: str, cursor: str | None, *, is_conditional: bool = False) -> Iterator[Page]:
        # A poll has a minute for all scopes: what it cannot have at once, the next sync has.
        patience = replace(self.patience, attempts=1, longest_wait=0.0) if is_conditional else self.patience
        with self._http(patience) as http:
            reader = _Reader.of(http, scope, is_conditional=is_conditional)
            yield from interleaved({one.path: partial(reader.window, one) for one in reader.listings}, cursor)

    def _http(self, patience: Patience | None = None) -> Http:
        if not self.verify and self.base_url.rstrip("/") == _PUBLIC_API:
            raise ConfigurationError("verify: false is for a server of your own, not for api.github.com")
        token = self.token.strip()
        return Http(
            self.base_url,
            authorization=f"Bearer {token}" if token else "",
            headers={"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"},
            verify=self.verify,
            patience=patience or self.patience,
        )

    def _account(self, http: Http) -> Account:
        """Give whose token it is. An app's (GITHUB_TOKEN in Actions) belongs to no user, and is told so (403, 404)."""
        if not self.token.strip():
            return Account(ANONYMOUS, is_authenticated=False, detail="public repositories, 60 requests an hour")
        answer = http.get("user", accept=(403, 404))
        if not answer.is_success:
            return Account(
                "an app", is_authenticated=True, detail="an app's token: the repositories it is installed for"
            )
        granted = answer.headers.get("x-oauth-scopes")
        detail = "a fine-grained token" if granted is None else f"a classic token with {granted or 'no scopes'}"
        return Account(str(answer.json.get("login")), is_authenticated=True, detail=detail)


def _repository(http: Http, scope: str, *, is_conditional: bool = False) -> dict[str, Any]:
    """Ask for the repository, which may have another name by now: old names redirect."""
    if not _SCOPE.fullmatch(scope) or set(scope.split("/")) & {".", ".."}:
        raise ConfigurationError(f"{scope!r} is not the name of a repository: write owner/name")
    found: dict[str, Any] = http.get(f"repos/{scope}", is_conditional=is_conditional).json
    return found


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the listings of one repository."""

    http: Http
    base: str
    """The path of the repository under its present name: under an old one each request would be redirected."""
    is_conditional: bool
    listings: Sequence[_Listing]
    """What the repository has; each is read from its beginning when it comes (back) into being."""

    @classmethod
    def of(cls, http: Http, scope: str, *, is_conditional: bool = False) -> Self:
        """Find out what the repository is called now, and whether it has issues."""
        found = _repository(http, scope, is_conditional=is_conditional)
        name = str(found.get("full_name") or scope)
        listings = (_PULLS, *_LISTINGS[1:]) if found.get("has_issues") is False else _LISTINGS
        return cls(http, f"repos/{name if _SCOPE.fullmatch(name) else scope}", is_conditional, listings)

    def window(self, listing: _Listing, since: datetime | None, link: str | None) -> Window:
        """Fetch one page of a listing: what changed since, or what is behind a link."""
        # GitHub takes whole seconds, and answers nothing to the epoch, whatever there is.
        params: dict[str, str | int | None] = {**listing.params, "per_page": 100}
        if listing.has_since and since is not None and since >= _SINCE_BEGINS:
            params["since"] = f"{since:%Y-%m-%dT%H:%M:%SZ}"
        answer = self.http.get(
            link or f"{self.base}/{listing.path}",
            None if link else params,
            kind=list,
            accept=_NOT_OFFERED,
            is_conditional=self.is_conditional,
        )
        if answer.is_success:
            return Window([_row(listing, element) for element in answer.elements()], self._next(answer), _now(answer))
        # Where the repository is hidden from us by now, this raises: nothing would be empty.
        found = self.http.get(self.base).json
        kind = listing.path.partition("/")[0]
        if found.get({"issues": "has_issues", "pulls": "has_pull_requests"}.get(kind)):
            raise TransientError(f"{self.base} has {kind}, and answers {answer.status} for them")
        if listing.path == "issues" and "has_issues" not in found:
            return self.window(_PULLS, since, None)
        return Window((), None, _now(answer))

    def _next(self, answer: Answer) -> str | None:
        """Give the next page without its host, which may be called otherwise when a cursor is read that holds it.

        A page on another host is refused here, before it is in a cursor, and there for ever.
        """
        following = answer.next_url
        return self.http.own_url(following).raw_path.decode("ascii") if following else None


def _row(listing: _Listing, payload: bytes) -> Row:
    found = head(payload)
    record = _record(found, listing, payload)
    essence = _VOLATILE.sub(b"", payload) if listing.path == "releases" else payload
    return Row(record, found.at if listing.has_since else None, essence)


def _record(found: Head, listing: _Listing, payload: bytes) -> Record:
    place = "issues" if listing is _PULLS else listing.path
    record_type = "pull_request" if found.is_pull_request else listing.record_type
    return Record(f"{place}/{record_id(found, listing.id_key, payload)}", record_type, payload, updated_at=found.at)


def _single(answer: Answer, source_id: str) -> Record:
    place, _, _ = source_id.rpartition("/")
    listing = next((one for one in _LISTINGS if one.path == place), _LISTINGS[0])
    found = head(answer.body)
    record = _record(found, listing, answer.body)
    if record.source_id == source_id and not answer.is_moved:
        return record
    return Record(source_id, record.record_type, answer.body, updated_at=found.at, attributes={"moved": "true"})


def _confirmed_gone(http: Http, scope: str, source_id: str) -> Answer | None:
    """Make sure that a record which is not there is gone, and not merely hidden with all of its kind.

    Gives the answer for a pull request where issues are disabled, None where the record is gone.

    Raises:
        ConfigurationError: nothing can be said, as the repository does not offer such records any more.
    """
    place, _, number = source_id.rpartition("/")
    if http.get(f"repos/{scope}/{place}", {"per_page": 1}, kind=list, accept=_NOT_OFFERED).is_success:
        return None
    if place == "issues":
        answer = http.get(f"repos/{scope}/pulls/{number}", accept=_NOT_OFFERED)
        if answer.is_success:
            return answer
    _repository(http, scope)  # raises where it is hidden from us by now: that says more
    raise ConfigurationError(
        f"{scope} does not offer {place} any more (disabled?): whether {source_id} still exists, nobody can say; "
        "nothing was tombstoned"
    )


def _now(answer: Answer) -> datetime:
    try:
        return parsedate_to_datetime(answer.headers["date"])
    except (KeyError, ValueError, TypeError):
        return datetime.now(UTC)
