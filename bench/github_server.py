"""A GitHub of one repository and as many issues as wanted, fast and truthful: what `bench.sync` lets everybody read.

`python -m bench.github_server --records N` prints its address when it is ready and serves until it is killed. Pages,
`since` (>=), ties and Link headers are those of
https://docs.github.com/en/rest/issues/issues#list-repository-issues.
`POST /control/change?share=0.01` edits that share of the issues, which moves them to the end of the listing.
"""

import argparse
import json
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from bench.issues import SCOPE, Repository


class Handler(BaseHTTPRequestHandler):
    """Answers what the connector asks; everything that is not an issue is empty."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body leave in one write: two of them wait for each other's acknowledgement
    disable_nagle_algorithm = True
    server: "Server"

    def do_GET(self) -> None:
        """Answer a request of the API."""
        url = urlsplit(self.path)
        query = dict(parse_qsl(url.query))
        below = url.path.removeprefix(f"/repos/{SCOPE}")
        if below == "/issues":
            self._listing(url.path, query)
        elif below.startswith("/issues/") and below[8:].isdigit():
            content = self.server.repository.index.get(int(below[8:]))
            self._answer(content or b'{"message":"Not Found"}', status=200 if content else 404)
        else:
            self._answer(json.dumps(_FIXED.get(below, [])).encode())

    def do_POST(self) -> None:
        """Change the repository."""
        share = float(dict(parse_qsl(urlsplit(self.path).query))["share"])
        self._answer(json.dumps({"changed": self.server.repository.change(share)}).encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the base class's name
        """Say nothing: a line per request would be the larger part of the work."""

    def _listing(self, path: str, query: Mapping[str, str]) -> None:
        number, size = int(query.get("page", 1)), int(query.get("per_page", 30))
        content, has_next = self.server.repository.page(query.get("since", ""), number, size)
        following = f"{self.server.api}{path}?{urlencode({**query, 'page': number + 1})}"
        self._answer(content, {"Link": f'<{following}>; rel="next"'} if has_next else {})

    def _answer(self, content: bytes, headers: Mapping[str, str] | None = None, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)


_FIXED: dict[str, Any] = {
    "": {
        "id": 1,
        "full_name": SCOPE,
        "private": False,
        "has_issues": True,
        "has_discussions": False,
        "archived": False,
        "disabled": False,
    },
    "/user": {"login": "bench", "id": 2, "type": "User"},
    "/rate_limit": {"resources": {}, "rate": {"limit": 5_000, "remaining": 5_000, "used": 0}},
}


class Server(ThreadingHTTPServer):
    """The server with its repository."""

    def __init__(self, count: int) -> None:
        """Listen on a free port of the loopback interface."""
        super().__init__(("127.0.0.1", 0), Handler)
        self.api = f"http://127.0.0.1:{self.server_port}"
        self.repository = Repository(self.api, count)


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=20_000)
    with Server(parser.parse_args().records) as server:
        print(server.api, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
