"""GitHub as PyGithub's authors recorded it, from 2012 on: their files read, and answered again over loopback.

scripts/test_real.sh fetches PyGithub's sdist. A file is a row of exchanges, each of ten lines and an empty one: scheme,
method, host, port, target, request headers, request body, status, response headers, response body; the headers are
Python literals: https://github.com/PyGithub/PyGithub/blob/v2.7.0/tests/Framework.py
"""

import ast
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from ingestion.jsontext import elements
from tests.faultserver.faults import Response
from tests.faultserver.server import Request
from tests.real.support import ROOT

RECORDINGS = ROOT / ".venv" / "pygithub" / "tests" / "ReplayData"
_GITHUB = "https://api.github.com"
_SCHEMES = frozenset({b"https", b"http"})
_METHODS = frozenset({b"GET", b"POST", b"PUT", b"PATCH", b"DELETE"})
_LINES = 10
_LISTINGS = frozenset({"comments", "pulls", "releases"})
_OF_THE_CONNECTION = frozenset({"connection", "content-encoding", "content-length", "transfer-encoding"})
"""Headers that describe how the body was sent then: PyGithub kept it unpacked and whole."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its answer, as recorded."""

    recording: str
    method: str
    target: str
    """Path and query."""
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def place(self) -> tuple[str, str]:
        """What finds the answer again: the path and the number of the page."""
        target = urlsplit(self.target)
        return target.path, dict(parse_qsl(target.query)).get("page", "1")

    def payloads(self) -> list[bytes]:
        """Give the bytes of each element of a list, or of the one object; what is no JSON has none."""
        if self.body[:1] == b"[":
            return elements(self.body)
        return [self.body] if self.body[:1] == b"{" else []


def exchanges(*names: str) -> Iterator[Exchange]:
    """Read recordings by their names, `Issue33.testClosedIssues`; all where none is named."""
    for path in [RECORDINGS / f"{name}.txt" for name in names] or sorted(RECORDINGS.glob("*.txt")):
        lines = path.read_bytes().split(b"\n")
        for number in range(len(lines) - _LINES + 1):
            if lines[number] in _SCHEMES and lines[number + 1] in _METHODS:
                yield _exchange(path.stem, lines[number : number + _LINES])


def _exchange(recording: str, lines: list[bytes]) -> Exchange:
    _, method, _, _, target, _, _, status, headers, body = lines
    pairs = tuple((str(name).lower(), str(value)) for name, value in ast.literal_eval(headers.decode()))
    return Exchange(recording, method.decode(), target.decode(), int(status), pairs, body)


@dataclass
class Replay:
    """The handler of a server that answers GET from recordings: their bytes and headers, whatever else is asked for.

    It knows the path and the page; sort, since, state and per_page are those of the recording. Only `api.github.com`
    becomes the server's own address in Link and Location. A listing that nobody recorded is empty.
    """

    names: tuple[str, ...]
    unrecorded: list[str] = field(default_factory=list)
    """The paths that nothing was recorded for."""

    def __post_init__(self) -> None:
        self._answers: dict[tuple[str, str], Exchange] = {}
        for exchange in exchanges(*self.names):
            if exchange.method == "GET":
                self._answers.setdefault(exchange.place, exchange)

    def __call__(self, request: Request) -> Response:
        exchange = self._answers.get((request.path, request.first("page", "1")))
        if exchange is None:
            self.unrecorded.append(request.path)
            is_listing = request.path.rpartition("/")[2] in _LISTINGS
            return Response.json([]) if is_listing else Response.json({"message": "Not Found"}, 404)
        headers = {name: value for name, value in exchange.headers if name not in _OF_THE_CONNECTION}
        headers |= {
            name: headers[name].replace(_GITHUB, request.origin) for name in ("link", "location") if name in headers
        }
        return Response(exchange.status, exchange.body, headers)

    def listed(self, path: str) -> list[dict[str, Any]]:
        """Give all that a listing holds, over its pages."""
        pages = [exchange for (place, _), exchange in self._answers.items() if place == path]
        return [json.loads(payload) for page in pages for payload in page.payloads()]
