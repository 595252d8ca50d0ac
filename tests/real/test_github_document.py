"""The GitHub connector's calls against GitHub's own OpenAPI document, of which Prism is the judge.

scripts/test_real.sh installs both. Redirects are not seen here: Prism follows them itself.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from ingestion.errors import ConnectorError, ScopeNotFoundError
from resources.connectors.github import GitHubConnector
from resources.http import Http
from tests.faultserver.github import GitHub
from tests.faultserver.github_repository import Repository
from tests.faultserver.server import FaultServer
from tests.real.github_prism import Completed, Prism, prism
from tests.real.github_site import Site

pytestmark = pytest.mark.real

SCOPE = "octo/hello"
PLAIN = {f"issues/{number}" for number in range(4, 151)}
PARTS = ("", "/issues", "/issues/comments", "/pulls/comments", "/releases")


@pytest.fixture(scope="module")
def upstream() -> Completed:
    return Completed(GitHub())


@pytest.fixture(scope="module")
def running(upstream: Completed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prism]:
    with FaultServer(upstream) as server, prism(server.url, tmp_path_factory.mktemp("prism")) as proxy:
        upstream.host = urlsplit(proxy.url).netloc
        yield proxy


@pytest.fixture
def repository(upstream: Completed) -> Repository:
    """Give a repository with something of each kind, and issues on more than one page."""
    github = upstream.github = GitHub()
    github.sign_up("ann", "secret")
    github.quota().limit = github.quota().remaining = 5_000
    repository = github.create(SCOPE)
    for issue in repository.bulk(150)[:3]:
        github.advance()
        repository.comment(issue)
    # Not on the pull request: by the document a label there is always described, which GitHub's own need not be.
    repository.issue(labels=["bug"], assignees=["ann"], milestone="1.0")
    repository.review(repository.pull())
    repository.release()
    github.advance(60)
    return repository


@pytest.fixture
def proxy(running: Prism) -> Prism:
    """Give Prism with a log that begins now."""
    return replace(running, begin=running.log.stat().st_size)


@pytest.mark.parametrize("token", ["", "secret"])
def test_every_call_of_a_sync_is_as_documented(
    repository: Repository, proxy: Prism, token: str, tmp_path: Path
) -> None:
    connector = GitHubConnector(base_url=proxy.url, token=token)
    assert connector.check().is_authenticated is bool(token)
    site = Site(connector, SCOPE, tmp_path)
    site.sync()
    assert site.live() == set(repository.live())
    assert not connector.changed(SCOPE, site.cursor())
    repository.comment(repository.entries["issues/7"])
    repository.close(repository.entries["issues/9"])
    repository.delete(repository.entries["issues/1"])
    assert connector.changed(SCOPE, site.cursor())
    site.sync(take_census=True)
    assert site.live() == set(repository.live())
    assert proxy.undocumented() == []
    asked = {urlsplit(target).path for target in proxy.forwarded()}
    assert asked >= {f"/repos/{SCOPE}{part}" for part in PARTS} | {f"/repositories/{repository.id}/issues"}


def test_every_call_for_one_record_is_as_documented(repository: Repository, proxy: Prism) -> None:
    connector = GitHubConnector(base_url=proxy.url)
    asked = {path: fields for path, fields in repository.live().items() if path not in PLAIN}
    for source_id in sorted(asked, reverse=True):  # comments before their issues, with which they would go
        record = connector.get(SCOPE, source_id)
        assert record is not None
        payload, fields = json.loads(record.payload), asked[source_id]
        assert (payload["id"], payload["body"]) == (fields["id"], fields["body"])
        repository.delete(repository.entries[source_id])
        assert connector.get(SCOPE, source_id) is None
    assert {source_id.rpartition("/")[0] for source_id in asked} == {part[1:] for part in PARTS if part}
    assert proxy.undocumented() == []


def test_every_call_without_issues_is_as_documented(repository: Repository, proxy: Prism, tmp_path: Path) -> None:
    repository.has_issues = False
    site = Site(GitHubConnector(base_url=proxy.url), SCOPE, tmp_path)
    site.sync()
    assert site.live() == {path for path, entry in repository.entries.items() if entry.is_pull or "issues" not in path}
    assert proxy.undocumented() == []
    assert f"/repos/{SCOPE}/pulls" in {urlsplit(target).path for target in proxy.forwarded()}


def test_a_call_that_is_not_documented_is_seen(proxy: Prism, repository: Repository) -> None:
    with Http(proxy.url) as http:
        http.get(f"repos/{repository.full_name}/issues", {"made_up": 1}, kind=list)
        with pytest.raises(ConnectorError, match=r"422 .*UNPROCESSABLE_ENTITY"):
            http.get(f"repos/{repository.full_name}/issues", {"sort": "made_up"}, kind=list)
        with pytest.raises(ScopeNotFoundError):
            http.get(f"repos/{repository.full_name}/made_up", kind=list)
    assert proxy.undocumented() == [f"made_up of /repos/{SCOPE}/issues"]
