"""The GitHub connector and its client against what GitHub really sent: the recordings of PyGithub and of Octokit.

scripts/test_real.sh fetches them.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from ingestion.model import Record
from ingestion.normalize import normalize
from ingestion.validate import failures
from resources.connectors.github import GitHubConnector
from resources.http import Http
from tests.faultserver.server import FaultServer
from tests.real.github_replay import Replay, exchanges
from tests.real.github_site import Site
from tests.real.octokit import fixtures_server, scenario

pytestmark = pytest.mark.real

OCTOKIT_TOKEN = "token 0000000000000000000000000000000000000001"
OCTOKIT_HEADERS = {"Accept": "application/vnd.github.v3+json"}
"""The fixtures server answers to just these."""


# ---- Octokit's recordings


@pytest.fixture(scope="module")
def fixtures(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with fixtures_server(tmp_path_factory.mktemp("fixtures") / "log") as url:
        yield url


def test_recorded_pages_are_followed_to_the_last(fixtures: str) -> None:
    base, path = scenario(fixtures, "paginate-issues"), "repos/octokit-fixture-org/paginate-issues/issues"
    with Http(base, authorization=OCTOKIT_TOKEN, headers=OCTOKIT_HEADERS) as http:
        pages = [http.get(path, {"per_page": 3}, kind=list)]
        while address := pages[-1].next_url:
            pages.append(http.get(address, kind=list))
    found = [[json.loads(element)["number"] for element in page.elements()] for page in pages]
    assert found == [[13, 12, 11], [10, 9, 8], [7, 6, 5], [4, 3, 2], [1]]


def test_a_recorded_rename_is_followed_and_told(fixtures: str) -> None:
    base, path = scenario(fixtures, "rename-repository"), "repos/octokit-fixture-org/rename-repository"
    headers = OCTOKIT_HEADERS | {"Authorization": OCTOKIT_TOKEN, "Content-Type": "application/json; charset=utf-8"}
    httpx.patch(f"{base}/{path}", json={"name": "rename-repository-newname"}, headers=headers).raise_for_status()
    with Http(base, authorization=OCTOKIT_TOKEN, headers=OCTOKIT_HEADERS) as http:
        answer = http.get(path)
    assert answer.is_moved
    assert str(answer.url) == f"{base}/repositories/1000"
    assert answer.json["full_name"] == "octokit-fixture-org/rename-repository-newname"


# ---- PyGithub's recordings


@pytest.mark.parametrize(
    ("recording", "count"), [("PaginatedList.testIteration", 333), ("Issue33.testClosedIssues", 950)]
)
def test_a_recorded_repository_arrives_whole(recording: str, count: int, tmp_path: Path) -> None:
    """It was listed by the time of creation, newest first: as by an upstream that ignores the order asked for."""
    scope = "openframeworks/openFrameworks"
    replay = Replay(("PaginatedList.setUp", recording))
    with FaultServer(replay) as server:
        site = Site(GitHubConnector(base_url=server.url), scope, tmp_path)
        first, again = site.sync(take_census=True), site.sync(take_census=True)
    recorded = [
        (one["html_url"], _doc_type(one), one["user"]["login"]) for one in replay.listed(f"/repos/{scope}/issues")
    ]
    assert (len(recorded), first.census and first.census.live_count) == (count, count)
    assert site.query("SELECT url, doc_type, author FROM documents ORDER BY ALL") == sorted(recorded)
    assert site.query("FROM rejects") == []
    assert (again.records_count, again.batches_count) == (0, 0)


def _doc_type(issue: dict[str, Any]) -> str:
    """Tell what a record is: in 2012 an issue had a `pull_request` as well, one of nulls."""
    return "pull_request" if (issue.get("pull_request") or {}).get("html_url") else "issue"


_URL = re.compile(
    r"https://api\.github\.com/repos/([^/]+/[^/]+)/((issues/comments|pulls/comments|issues|releases)/\d+)"
)
_TYPES = {"issues": "issue", "issues/comments": "comment", "pulls/comments": "review_comment", "releases": "release"}


def test_every_recorded_record_is_mapped() -> None:
    """Whatever request it came with, and in each form that it had from 2012 to 2025."""
    scopes: dict[str, list[Record]] = {}
    for payload in (payload for exchange in exchanges() for payload in exchange.payloads()):
        if found := _URL.fullmatch(_field(payload, "url")):
            scopes.setdefault(found[1], []).append(Record(found[2], _TYPES[found[3]], payload))
    counts = Counter(one.record_type for records in scopes.values() for one in records)
    assert counts == {"issue": 4_887, "comment": 212, "release": 103, "review_comment": 18}
    for scope, records in scopes.items():
        result = normalize("github", scope, records, GitHubConnector.documents)
        told = result.documents.select(["source_id", "doc_type", "url", "author"]).to_pylist()
        assert told == [_told(record) for record in records]
        assert list(result.rejects) == []
        assert failures(result.documents) == {}


def _field(payload: bytes, name: str) -> str:
    try:
        value = json.loads(payload)
    except ValueError:  # one recording is of JSON that breaks off
        return ""
    return str(value.get(name)) if isinstance(value, dict) else ""


def _told(record: Record) -> dict[str, str]:
    """Give what its document has to say: comments had no address of their own in 2012."""
    fields = json.loads(record.payload)
    author = (fields.get("user") or fields["author"])["login"]
    url = fields.get("html_url") or fields["url"]
    return {"source_id": record.source_id, "doc_type": record.record_type, "url": url, "author": author}
