"""Listings of GitHub: which records a query asks for, in which order, on which page, and the Link to the others.

https://docs.github.com/en/rest/using-the-rest-api/using-pagination-in-the-rest-api
"""

import base64
import json
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from urllib.parse import urlencode

from tests.faultserver.github_payloads import Entry
from tests.faultserver.github_repository import SORT_KEYS, Repository
from tests.faultserver.github_world import World
from tests.faultserver.server import Request

EPOCH = "1970-01-01T00:00:00Z"
MAX_SIZE = 100
_COMMENTS = {"created": "created", "updated": "updated"}
_SORTS: Mapping[str, Mapping[str, str]] = {
    "issues": {"created": "created", "updated": "updated", "comments": "comments"},
    "pulls": {"created": "created", "updated": "updated", "popularity": "comments", "long-running": "created"},
    "issues/comments": _COMMENTS,
    "pulls/comments": _COMMENTS,
    "releases": {},
}
"""The values of `sort` for each listing, and the order that each stands for."""


class RefusalError(Exception):
    """An answer other than 200: what is wrong with the request, in GitHub's words."""

    def __init__(self, status: HTTPStatus, message: str, location: str = "") -> None:
        super().__init__(message)
        self.status, self.message, self.location = status, message, location


@dataclass(frozen=True, slots=True)
class _Query:
    """The parameters of a listing, with the documented defaults in place of what is not there."""

    sort: str
    is_descending: bool
    state: str
    since: str
    size: int
    page: int
    after: tuple[object, ...] | None

    @classmethod
    def of(cls, request: Request, kind: str, world: World) -> "_Query":
        sort, is_descending = _order(kind, "" if world.ignores_order else request.first("sort"), request)
        state = request.first("state", "open") if kind in {"issues", "pulls"} else "all"
        after = request.first("after") if world.has_cursors and kind == "issues" else ""
        return cls(
            sort,
            is_descending=(kind not in {"issues/comments", "pulls/comments"}) if world.ignores_order else is_descending,
            state=_one_of(state, {"open", "closed", "all"}, "state"),
            since=_instant(request.first("since")) if kind not in {"pulls", "releases"} else "",
            size=min(_number(request.first("per_page"), 30), MAX_SIZE),
            page=_number(request.first("page"), 1),
            after=tuple(json.loads(base64.urlsafe_b64decode(after))) if after else None,
        )


def listing(world: World, repository: Repository, kind: str, request: Request) -> tuple[list[Entry], str]:
    """Give a page of a listing and its Link header (empty where there is only one page).

    Raises:
        RefusalError: a parameter is none, or the page is beyond the cap.
    """
    query = _Query.of(request, kind, world)
    rows, key = _rows(repository, kind, query), SORT_KEYS[query.sort]
    start = (query.page - 1) * query.size
    if query.after is not None:
        passed = query.after
        start = (
            len(rows) - bisect_left(rows, passed, key=key)
            if query.is_descending
            else bisect_right(rows, passed, key=key)
        )
    elif world.max_page is not None and query.page > world.max_page:
        if not world.is_silent_cap:
            raise RefusalError(HTTPStatus.UNPROCESSABLE_ENTITY, _too_far(world, kind))
        start = len(rows)
    shown = (rows[::-1] if query.is_descending else rows)[start : start + query.size]
    address = f"{world.address(request, repository.id)}/{kind}"
    if world.has_cursors and kind == "issues":
        is_last = not shown or start + query.size >= len(rows)
        return shown, "" if is_last else _link(address, request, query.page + 1, "next", after=_cursor(key(shown[-1])))
    pages = -(-len(rows) // query.size)
    if world.is_silent_cap and world.max_page is not None:
        pages = min(pages, world.max_page)
    return shown, _page_links(address, request, query.page, pages)


def _rows(repository: Repository, kind: str, query: _Query) -> list[Entry]:
    """Give the matching records in ascending order."""
    rows = repository.ordered("issues" if kind == "pulls" else kind, query.sort, query.state)
    if kind == "pulls":
        rows = [entry for entry in rows if entry.is_pull]
    elif kind.startswith("issues") and not repository.has_issues:
        rows = [entry for entry in rows if repository.is_of_pull(entry)]
    if query.since == EPOCH:
        return []  # seen at GitHub itself: https://github.com/chaoss/grimoirelab-perceval/issues/865
    if not query.since:
        return rows
    if query.sort == "updated":
        return rows[bisect_left(rows, query.since, key=lambda entry: entry.updated_at) :]
    return [entry for entry in rows if entry.updated_at >= query.since]


def _order(kind: str, asked: str, request: Request) -> tuple[str, bool]:
    """Tell the order and whether it descends. Comments ignore `direction` without `sort`; releases know neither."""
    is_comments, sorts = kind in {"issues/comments", "pulls/comments"}, _SORTS[kind]
    if is_comments and not asked:
        return "id", False
    if not sorts:
        return "created", True
    sort = _one_of(asked or "created", set(sorts), "sort")
    default = "asc" if kind == "pulls" and sort != "created" else "desc"
    return sorts[sort], _one_of(request.first("direction", default), {"asc", "desc"}, "direction") == "desc"


def _one_of(value: str, known: set[str], name: str) -> str:
    if value not in known:
        raise RefusalError(HTTPStatus.UNPROCESSABLE_ENTITY, f"Validation Failed: {name} is not one of {sorted(known)}")
    return value


def _number(text: str, default: int) -> int:
    return int(text) if text.isdecimal() and int(text) > 0 else default


def _instant(text: str) -> str:
    """Give an instant as records have it; what is none is refused (https://github.com/lampepfl/bench/pull/581)."""
    if not text:
        return ""
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        message = "The since parameter needs to be in ISO 8601 format: YYYY-MM-DDTHH:MM:SSZ"
        raise RefusalError(HTTPStatus.UNPROCESSABLE_ENTITY, message) from None
    return f"{parsed.replace(tzinfo=parsed.tzinfo or UTC).astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _too_far(world: World, kind: str) -> str:
    """Both are seen at GitHub; the first since 2025: https://github.com/josegonzalez/python-github-backup/issues/429."""
    if world.has_cursors and kind == "issues":
        return (
            "Pagination with the page parameter is not supported for large datasets, "
            "please use cursor based pagination (after/before)"
        )
    return "In order to keep the API fast for everyone, pagination is limited for this resource."


def _cursor(key: tuple[object, ...]) -> str:
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode()


def _page_links(address: str, request: Request, page: int, pages: int) -> str:
    links = []
    if page > 1:
        links.append(_link(address, request, min(page - 1, max(pages, 1)), "prev"))
    if page < pages:
        links += [_link(address, request, page + 1, "next"), _link(address, request, pages, "last")]
    if page > 1:
        links.append(_link(address, request, 1, "first"))
    return ", ".join(links)


def _link(address: str, request: Request, page: int, rel: str, **more: str) -> str:
    """Write one link: GitHub names the repository by its id and keeps the query in its order."""
    kept = [(name, value) for name, value in request.query if name not in {"page", "after"}]
    return f'<{address}?{urlencode([*kept, *more.items(), ("page", str(page))])}>; rel="{rel}"'
