"""GitHub through the real graph: what Dagster shows of it, and what a quota does to many repositories."""

import base64
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from assets import raw
from assets.raw import SyncConfig, asset_key
from tests.faultserver.faults import Fault
from tests.faultserver.github import GitHub
from tests.faultserver.server import FaultServer
from tests.graph_support import Project, project

TOKEN = "ghp_" + "s3cret+/=" * 4
SOURCES = """
code:
  connector: github
  base_url: {url}
  token: {{env: TRIBUTARY_TEST_TOKEN}}
  scopes: [octo/large, octo/gone, octo/small, octo/new]
"""


@pytest.fixture
def github() -> GitHub:
    github = GitHub()
    github.sign_up("alice", TOKEN)
    for name, count in (("large", 450), ("small", 3), ("new", 2)):
        repository = github.create(f"octo/{name}")
        for _ in range(count):
            github.advance()
            repository.issue()
    return github


@pytest.fixture
def server(github: GitHub) -> Iterator[FaultServer]:
    with FaultServer(github) as server:
        yield server


@pytest.fixture
def made(tmp_path: Path, server: FaultServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRIBUTARY_TEST_TOKEN", TOKEN)
    with project(tmp_path, SOURCES.format(url=server.url)) as one:
        yield one


def repositories(server: FaultServer) -> list[str]:
    """Give the repositories in the order in which they were first asked for."""
    return list(dict.fromkeys(one.path.split("/")[3] for one in server.requests if one.path.startswith("/repos/")))


def test_a_repository_that_is_not_there_fails_alone_and_the_others_say_what_they_cost(made: Project) -> None:
    result = made.sync("code")
    assert made.statuses("code") == {
        "octo/large": "MATERIALIZED",
        "octo/gone": "FAILED",
        "octo/small": "MATERIALIZED",
        "octo/new": "MATERIALIZED",
    }
    ((text, _),) = result.failures()
    assert "octo/gone: http" in text
    assert "404 Not Found (not there, or not for this credential)" in text
    small = result.metadata(asset_key("code"))["octo/small"]
    assert (small["records"], small["requests"], small["account"]) == (3, 8, "alice: a fine-grained token")
    assert small["records_per_request"] == pytest.approx(0.4)


def test_a_quota_too_small_for_all_goes_first_to_those_that_had_least(
    made: Project, server: FaultServer, github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw, "THREADS", 1)
    made.sync("code", "octo/large", options=SyncConfig(max_pages=1))
    made.sync("code", "octo/large", options=SyncConfig(max_pages=1))
    made.sync("code", "octo/small")
    server.reset_log()
    github.quota(TOKEN).remaining = 25
    result = made.sync("code")
    assert repositories(server) == ["small", "gone", "new", "large"]  # caught up; nothing yet, twice; two batches
    found = result.metadata(asset_key("code"))
    assert [found[f"octo/{name}"]["caught_up"] for name in ("small", "new", "large")] == [True, True, False]
    assert found["octo/large"]["resumes_at"]
    assert len(server.requests) == 25  # the last answer said that nothing was left: no request was wasted on a refusal
    server.reset_log()
    made.sync("code", "octo/large")
    assert server.requests == []  # nobody knocks before the hour that the upstream named


def test_the_token_is_in_nothing_that_is_written(made: Project, server: FaultServer, tmp_path: Path) -> None:
    for number, fault in enumerate((Fault.status(401, TOKEN.encode()), Fault.redirect(f"http://other/?token={TOKEN}"))):
        server.at(number * 7, fault)
        made.sync("code")
    made.sync("code")
    made.load()
    assert any(one.headers.get("authorization") == f"Bearer {TOKEN}" for one in server.requests)
    raw_forms = [TOKEN.encode(), quote(TOKEN).encode(), quote(TOKEN, safe="").encode()]
    forms = [*raw_forms, *(base64.b64encode(b"x" * shift + TOKEN.encode())[4:-4] for shift in range(3))]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} >= {".parquet", ".duckdb", ".db"}
    assert [path for path in files if any(form in path.read_bytes() for form in forms)] == []
