"""Ways in which upstreams cut a listing into pages, each as a small iterator over answers.

All of them end by what the upstream says, and all refuse to be led in a circle. None of them is safe against records
that move between two pages: for what changed since a cursor, use `resources.keyset`.
"""

from collections.abc import Callable, Iterator

from ingestion.errors import ConnectorError
from resources.answer import Answer, masked
from resources.http import Http, Params


def link_pages(http: Http, path: str, params: Params | None = None) -> Iterator[Answer]:
    """Follow `rel="next"` of the Link header (RFC 8288), on the same host."""
    answer = http.get(path, params, kind=list)
    seen = {str(answer.url)}
    while True:
        yield answer
        following = answer.next_url
        if following is None:
            return
        if following in seen:
            raise ConnectorError(f"{masked(answer.url)} leads to a page that was read before: it would never end")
        seen.add(following)
        answer = http.get(following, kind=list)


def token_pages(
    http: Http, path: str, params: Params, *, parameter: str, token: Callable[[Answer], str | None]
) -> Iterator[Answer]:
    """Give each page's token back as `parameter` until `token` finds none (or an empty one) in an answer."""
    seen: set[str] = set()
    given: str | None = None
    while True:
        answer = http.get(path, {**params, parameter: given})
        yield answer
        given = token(answer)
        if not given:
            return
        if given in seen:
            raise ConnectorError(f"{masked(answer.url)} gave the same {parameter} twice: it would never end")
        seen.add(given)


def offset_pages(
    http: Http, path: str, params: Params, *, parameter: str, count: Callable[[Answer], int]
) -> Iterator[Answer]:
    """Move an offset on by what came, not by what was asked for: upstreams cap pages as they like.

    Ends with the first page of which `count` finds nothing.
    """
    offset = 0
    before = b""
    while True:
        answer = http.get(path, {**params, parameter: offset})
        came = count(answer)
        if not came:
            return
        if answer.body == before:
            raise ConnectorError(f"{masked(answer.url)} gives the page before again: it does not heed {parameter}")
        before = answer.body
        yield answer
        offset += came
