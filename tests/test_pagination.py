"""Pages end by what the upstream says, never go elsewhere, and never go in a circle."""

from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest

from ingestion.errors import ConfigurationError, ConnectorError
from resources.answer import Answer
from resources.http import Http
from resources.pagination import link_pages, offset_pages, token_pages
from tests.faultserver.faults import Fault, Response
from tests.faultserver.server import FaultServer, Handler, Request
from tests.http_support import payload, talk

Link = Callable[[Request], str]


def linked(link: Link) -> Handler:
    """Serve pages 0 to 3, each a list of its own number, that link as the function says."""

    def answer(request: Request) -> Response:
        return Response.json([int(request.first("page", "0"))], headers={"Link": link(request)})

    return answer


def to_next(request: Request) -> str:
    page = int(request.first("page", "0"))
    first = f'<{request.origin}/pages?page=0>; rel="first"'
    return first if page == 3 else f'{first}, <{request.origin}/pages?page={page + 1}>; rel="next"'


def numbers(http: Http) -> list[Any]:
    return [answer.json for answer in link_pages(http, "pages", {"per_page": 1})]


@pytest.mark.parametrize(
    "link",
    [
        to_next,
        lambda request: to_next(request).replace(request.origin, ""),
        lambda request: to_next(request).replace(f"{request.origin}/pages", ""),
        lambda request: to_next(request).replace('"', "").replace("rel=next", "title=x; rel=next"),
    ],
    ids=["whole", "without a host", "the query alone", "without quotes"],
)
def test_links_are_followed_to_the_last(link: Link) -> None:
    with talk(linked(link)) as it:
        assert numbers(it.http) == [[0], [1], [2], [3]]
        assert it.server.requests[0].first("per_page") == "1"


@pytest.mark.parametrize("link", ["", "nonsense", '<>; rel="next"', '</x>; rel="prev"', ",;,<"])
def test_what_links_to_no_next_page_is_the_last(link: str) -> None:
    with talk(linked(lambda _request: link)) as it:
        assert numbers(it.http) == [[0]]


@pytest.mark.parametrize(
    ("target", "expected"),
    [("/pages?per_page=1", [[0]]), ("/pages?page=2", [[0], [2]])],
    ids=["the first page", "itself"],
)
def test_links_in_a_circle_are_an_error_before_a_page_is_read_twice(target: str, expected: list[Any]) -> None:
    found: list[Any] = []
    with talk(linked(lambda _request: f'<{target}>; rel="next"')) as it:
        with pytest.raises(ConnectorError, match="was read before: it would never end"):
            found.extend(answer.json for answer in islice(link_pages(it.http, "pages", {"per_page": 1}), 9))
        assert (found, len(it.server.requests)) == (expected, len(expected))


def test_a_wider_circle_of_links_is_an_error() -> None:
    with talk(linked(lambda request: to_next(request).replace("page=3", "page=1"))) as it:
        pages = link_pages(it.http, "pages")
        assert [next(pages).json for _ in range(3)] == [[0], [1], [2]]
        with pytest.raises(ConnectorError, match="it would never end"):
            next(pages)
        assert len(it.server.requests) == 3


def test_a_link_to_another_host_is_an_error() -> None:
    with FaultServer(payload) as other, talk(linked(lambda _request: f'<{other.url}/x>; rel="next"')) as it:
        pages = link_pages(it.http, "pages")
        assert next(pages).json == [0]
        with pytest.raises(ConnectorError, match="our credential goes to no other host"):
            next(pages)
        assert other.requests == []


def test_a_page_that_redirects_elsewhere_ends_the_listing_loudly() -> None:
    with FaultServer(payload) as other, talk(linked(to_next)) as it:
        it.server.at(2, Fault.redirect(f"{other.url}/pages"))
        pages = link_pages(it.http, "pages")
        assert [next(pages).json for _ in range(2)] == [[0], [1]]
        with pytest.raises(ConfigurationError, match="not followed"):
            next(pages)
        assert other.requests == []


def test_a_page_that_fails_once_neither_ends_nor_doubles_anything() -> None:
    with talk(linked(to_next)) as it:
        for number in (1, 3, 5):
            it.server.at(number, Fault.truncated())
        assert numbers(it.http) == [[0], [1], [2], [3]]
        assert len(it.server.requests) == 7


def token(answer: Answer) -> str | None:
    found: str | None = answer.json["next"]
    return found


@pytest.mark.parametrize("last", [None, ""])
def test_tokens_are_given_back_to_the_last(last: str | None) -> None:
    following = {"": "a+b/c=", "a+b/c=": "é", "é": last}
    with talk(lambda request: Response.json({"next": following[request.first("token")]})) as it:
        pages = list(token_pages(it.http, "pages", {"size": 2, "token": "old"}, parameter="token", token=token))
        assert len(pages) == 3
        assert [dict(request.query) for request in it.server.requests] == [
            {"size": "2"},
            {"size": "2", "token": "a+b/c="},
            {"size": "2", "token": "é"},
        ]


@pytest.mark.parametrize("circle", [["a"], ["a", "b", "c"]], ids=len)
def test_a_token_that_comes_again_is_an_error(circle: list[str]) -> None:
    def answer(request: Request) -> Response:
        return Response.json({"next": circle[request.number % len(circle)]})

    with talk(answer) as it:
        with pytest.raises(ConnectorError, match="the same token twice: it would never end"):
            list(token_pages(it.http, "pages", {}, parameter="token", token=token))
        assert len(it.server.requests) == len(circle) + 1


class Offsets:
    """Serves 25 records by offset, never more than 10 at once, and fewer on some pages."""

    def __call__(self, request: Request) -> Response:
        offset = int(request.first("offset"))
        size = min(int(request.first("limit")), 3 if offset == 10 else 10)
        return Response.json({"rows": [*range(25)][offset : offset + size]})


def rows(answer: Answer) -> int:
    return len(answer.json["rows"])


def test_an_offset_moves_by_what_came() -> None:
    with talk(Offsets()) as it:
        pages = offset_pages(it.http, "pages", {"limit": 100}, parameter="offset", count=rows)
        assert [row for answer in pages for row in answer.json["rows"]] == [*range(25)]
        assert [request.first("offset") for request in it.server.requests] == ["0", "10", "13", "23", "25"]


def test_an_empty_listing_has_no_page() -> None:
    with talk(lambda _request: Response.json({"rows": []})) as it:
        assert list(offset_pages(it.http, "pages", {}, parameter="offset", count=rows)) == []


def test_an_offset_that_is_not_heeded_is_an_error() -> None:
    with talk(lambda _request: Response.json({"rows": [1, 2]})) as it:
        with pytest.raises(ConnectorError, match="does not heed offset"):
            list(offset_pages(it.http, "pages", {}, parameter="offset", count=rows))
        assert len(it.server.requests) == 2
