"""GitHub's REST API, version 3, in memory: https://docs.github.com/en/rest.

    github = GitHub()
    repository = github.create("octo/hello")
    repository.bulk(5000)
    with FaultServer(github) as server: ...  # the connector's base_url is server.url

State, verbs and knobs: github_world. What the documentation does not say is marked where it was seen.
"""

import hashlib
import json
import re
from dataclasses import dataclass, replace
from http import HTTPStatus
from urllib.parse import urlencode

from tests.faultserver.faults import Fault, Response
from tests.faultserver.github_details import account_payload, pull_payload, repository_payload
from tests.faultserver.github_listing import RefusalError, listing
from tests.faultserver.github_payloads import Entry, Payload, render, user
from tests.faultserver.github_repository import Repository
from tests.faultserver.github_world import Account, World
from tests.faultserver.server import Request

DOCUMENTATION = "https://docs.github.com/rest"
_REPOSITORY = re.compile(r"/(?:repos/(?P<name>[^/]+/[^/]+)|repositories/(?P<id>\d+))(?P<rest>/.*)?")
_RECORDS = re.compile(r"/(?P<kind>issues/comments|pulls/comments|issues|pulls|releases)(?:/(?P<number>\d+))?")


@dataclass(frozen=True, slots=True)
class _Caller:
    account: Account | None
    token: str

    def sees(self, repository: Repository) -> bool:
        return not repository.private or (self.account is not None and repository.id in self.account.sees)


class GitHub(World):
    """The handler for a FaultServer; state, verbs and knobs are those of World."""

    def __call__(self, request: Request) -> Response:
        path = request.path.removeprefix(self.root)
        request = replace(request, path=path if request.path.startswith(self.root) else "/")
        try:
            caller = self._caller(request)
        except RefusalError as refusal:
            return self._limited(_refused(refusal), "")
        quota, is_free = self.quota(caller.token), request.path == "/rate_limit"
        if quota.remaining <= 0 and not is_free:
            return self._limited(_refused(RefusalError(HTTPStatus.FORBIDDEN, _exceeded(caller))), caller.token)
        try:
            response = self._tagged(request, self._routed(request, caller))
        except RefusalError as refusal:
            response = _refused(refusal)
        # https://docs.github.com/en/rest/using-the-rest-api/best-practices-for-using-the-rest-api#use-conditional-requests
        is_free = is_free or (response.status == HTTPStatus.NOT_MODIFIED and caller.token != "")
        if not is_free:
            quota.remaining -= 1
        return self._limited(response, caller.token)

    def _caller(self, request: Request) -> _Caller:
        token = request.headers.get("authorization", "").partition(" ")[2]
        if not token:
            return _Caller(None, "")
        account = self.tokens.get(token)
        if account is None or account.is_revoked:
            raise RefusalError(HTTPStatus.UNAUTHORIZED, "Bad credentials")
        return _Caller(None, "") if account.is_downgraded else _Caller(account, token)

    def _limited(self, response: Response, token: str) -> Response:
        """Add the headers of https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api."""
        return response.having(**{f"x-ratelimit-{key}": str(value) for key, value in self._rate(token).items()})

    def _rate(self, token: str) -> Payload:
        quota = self.quota(token)
        numbers = {"limit": quota.limit, "remaining": quota.remaining, "used": quota.limit - quota.remaining}
        return numbers | {"reset": quota.reset_at, "resource": "core"}

    @staticmethod
    def _tagged(request: Request, response: Response) -> Response:
        """Answer 304 to the client that has this already; the tag depends on who asks, as the quota's Vary says."""
        who = request.headers.get("authorization", "")
        digest = hashlib.sha256(b"\0".join([who.encode(), response.headers.get("Link", "").encode(), response.body]))
        tag = f'W/"{digest.hexdigest()}"'
        response = response.having(ETag=tag, Vary="Accept, Authorization", Cache_Control="private, max-age=60")
        known = {one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")}
        return replace(response, status=304, body=b"") if tag.removeprefix("W/") in known else response

    def _routed(self, request: Request, caller: _Caller) -> Response:
        if request.path == "/rate_limit":
            rate = self._rate(caller.token)
            return Response.json({"resources": {"core": rate, "search": rate | {"resource": "search"}}, "rate": rate})
        if request.path == "/user":
            if caller.account is None:
                raise RefusalError(HTTPStatus.UNAUTHORIZED, "Requires authentication")
            return Response.json(account_payload(caller.account.login))
        found = _REPOSITORY.fullmatch(request.path)
        if found is None or request.method != "GET":
            raise _not_found()
        rest = found["rest"] or ""
        repository = self._repository(request, found["name"], found["id"], rest, caller)
        if not rest:
            return Response.json(repository_payload(repository))
        records = _RECORDS.fullmatch(rest)
        if records is None:
            raise _not_found()
        if records["number"] is None:
            return self._listing(request, repository, records["kind"])
        return self._one(request, repository, records["kind"], int(records["number"]), caller)

    def _repository(
        self, request: Request, name: str | None, number: str | None, rest: str, caller: _Caller
    ) -> Repository:
        """Find a repository that the caller sees; a former name redirects to the id, query and all."""
        former = self.former_names.get((name or "").lower())
        key = int(number) if number else self.names.get((name or "").lower(), former)
        repository = self.repositories.get(key or 0)
        if repository is None or not caller.sees(repository):
            raise _not_found()
        if name and key == former:
            query = f"?{urlencode(request.query)}" if request.query else ""
            raise _moved(f"{self.address(request, repository.id)}{rest}{query}")
        return repository

    def _one(self, request: Request, repository: Repository, kind: str, number: int, caller: _Caller) -> Response:
        path = f"{'issues' if kind == 'pulls' else kind}/{number}"
        entry = repository.entries.get(path)
        self._refuse_disabled(repository, kind, entry)
        if entry is None and kind == "issues" and path in repository.moved:
            other, new_path = repository.moved[path]
            if caller.sees(other):
                raise _moved(f"{self.address(request, other.id)}/{new_path}")
        if entry is None and kind == "issues" and path in repository.deleted:
            raise RefusalError(HTTPStatus.GONE, "This issue was deleted")
        if entry is None or (kind == "pulls" and not entry.is_pull):
            raise _not_found()
        if kind == "pulls":
            return Response.json(pull_payload(repository, entry, is_alone=True))
        return _json(render(repository.full_name, entry))

    def _refuse_disabled(self, repository: Repository, kind: str, entry: Entry | None = None) -> None:
        if kind.startswith("pulls") and not repository.has_pulls:
            raise _not_found()
        if not kind.startswith("issues") or repository.has_issues:
            return
        if not self.serves_pulls_when_disabled or (entry is not None and not repository.is_of_pull(entry)):
            raise RefusalError(HTTPStatus.GONE, "Issues has been disabled in this repository.")

    def _listing(self, request: Request, repository: Repository, kind: str) -> Response:
        self._refuse_disabled(repository, kind)
        shown, link = listing(self, repository, kind, request)
        if kind == "pulls":
            return _json(json.dumps([pull_payload(repository, entry) for entry in shown]).encode(), link)
        return _json(b"[" + b",".join([render(repository.full_name, entry) for entry in shown]) + b"]", link)


def secondary_limit(retry_after: str | None = None, status: int = 403) -> Fault:
    """The secondary rate limit, with Retry-After (seconds or a date) or without.

    https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api#exceeding-the-rate-limit
    """
    body = {
        "message": "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.",
        "documentation_url": f"{DOCUMENTATION}/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits",
    }
    return Fault.status(status, json.dumps(body).encode(), {} if retry_after is None else {"Retry-After": retry_after})


def _exceeded(caller: _Caller) -> str:
    """Words that clients tell the primary limit by."""
    if caller.account is None:
        return "API rate limit exceeded for 127.0.0.1. (Authenticated requests get a higher rate limit.)"
    return f"API rate limit exceeded for user ID {user(caller.account.login)['id']}."


def _not_found() -> RefusalError:
    return RefusalError(HTTPStatus.NOT_FOUND, "Not Found")


def _moved(location: str) -> RefusalError:
    return RefusalError(HTTPStatus.MOVED_PERMANENTLY, "Moved Permanently", location)


def _refused(refusal: RefusalError) -> Response:
    problem = {"message": refusal.message, "documentation_url": DOCUMENTATION, "status": str(int(refusal.status))}
    if not refusal.location:
        return Response.json(problem, refusal.status)
    return Response.json(problem | {"url": refusal.location}, refusal.status, {"Location": refusal.location})


def _json(body: bytes, link: str = "") -> Response:
    kind = {"Content-Type": "application/json; charset=utf-8"}
    return Response(200, body, kind | {"Link": link} if link else kind)
