"""The GitHub on the fault server answers as the documentation of GitHub's REST API says."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.faultserver.github import GitHub, secondary_limit
from tests.faultserver.github_repository import SORT_KEYS, Repository
from tests.faultserver.server import FaultServer, Request

NAME = "octo/hello"
OLDEST_FIRST: dict[str, Any] = {"state": "all", "sort": "updated", "direction": "asc", "per_page": 100}


@pytest.fixture
def github() -> GitHub:
    return GitHub()


@pytest.fixture
def repository(github: GitHub) -> Repository:
    return github.create(NAME)


@pytest.fixture
def server(github: GitHub) -> Iterator[FaultServer]:
    with FaultServer(github) as server:
        yield server


@pytest.fixture
def client(server: FaultServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=5) as client:
        yield client


def numbers(response: httpx.Response) -> list[int]:
    assert response.status_code == 200, response.text
    return [record.get("number", record["id"]) for record in response.json()]


def walk(client: httpx.Client, path: str, **query: Any) -> list[int]:  # noqa: ANN401  # any query value of httpx
    """Follow the Link of a listing to its end."""
    response = client.get(f"/repos/{NAME}/{path}", params=query)
    found = numbers(response)
    while "next" in response.links:
        response = client.get(response.links["next"]["url"])
        found += numbers(response)
    return found


def as_(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_pages_are_linked_by_the_id_of_the_repository(
    client: httpx.Client, server: FaultServer, repository: Repository
) -> None:
    repository.bulk(7)
    first = client.get(f"/repos/{NAME}/issues?per_page=3&direction=asc")
    address = f"{server.url}/repositories/{repository.id}/issues?per_page=3&direction=asc&page="
    assert {rel: link["url"] for rel, link in first.links.items()} == {"next": f"{address}2", "last": f"{address}3"}
    middle = client.get(first.links["next"]["url"])
    assert {rel: link["url"][-1] for rel, link in middle.links.items()} == {
        "prev": "1",
        "next": "3",
        "last": "3",
        "first": "1",
    }
    assert set(client.get(f"{address}3").links) == {"prev", "first"}
    assert walk(client, "issues", per_page=3, direction="asc") == [1, 2, 3, 4, 5, 6, 7]


def test_issues_are_open_newest_first_and_30_a_page_unless_asked_otherwise(
    client: httpx.Client, repository: Repository
) -> None:
    issues = repository.bulk(120)
    repository.close(issues[119])
    assert numbers(client.get(f"/repos/{NAME}/issues")) == list(range(119, 89, -1))
    assert len(numbers(client.get(f"/repos/{NAME}/issues?per_page=1000"))) == 100
    assert numbers(client.get(f"/repos/{NAME}/issues?state=closed")) == [120]


def test_since_includes_its_second_and_each_change_moves_a_record_behind_it(
    client: httpx.Client, github: GitHub, repository: Repository
) -> None:
    issues = repository.bulk(5)
    github.advance(10)
    repository.edit(issues[3], title="changed")
    repository.comment(issues[1])
    since = OLDEST_FIRST | {"since": "2024-01-01T00:00:10Z"}
    assert walk(client, "issues", **since) == [2, 4]
    assert walk(client, "issues", **since | {"since": "2024-01-01T01:00:11+01:00"}) == []
    assert walk(client, "issues", **since | {"sort": "created"}) == [2, 4]


def test_github_answers_nothing_since_the_epoch_and_422_to_what_is_no_instant(
    client: httpx.Client, repository: Repository
) -> None:
    repository.bulk(2)
    assert walk(client, "issues", since="1970-01-01T00:00:00Z") == []
    assert client.get(f"/repos/{NAME}/issues?since=2024-01-01T00:00:00+00:00").status_code == 422


def test_five_thousand_issues_of_one_second(client: httpx.Client, github: GitHub, repository: Repository) -> None:
    repository.bulk(5000)
    github.sign_up("alice", "token-a")
    client.headers.update(as_("token-a"))
    assert walk(client, "issues", **OLDEST_FIRST) == list(range(1, 5001))
    assert {record["updated_at"] for record in repository.live().values()} == {"2024-01-01T00:00:00Z"}


def test_a_change_between_pages_moves_a_record_past_the_reader_of_page_numbers(
    client: httpx.Client, server: FaultServer, github: GitHub, repository: Repository
) -> None:
    issues = repository.bulk(4)
    github.advance()

    def move(number: int, _request: Request) -> None:
        if number == 1:
            repository.touch(issues[0])

    server.before_request = move
    assert walk(client, "issues", **OLDEST_FIRST | {"per_page": 2}) == [1, 2, 4, 1]


def test_a_cursor_is_a_place_in_the_order_and_loses_nothing(
    client: httpx.Client, server: FaultServer, github: GitHub, repository: Repository
) -> None:
    github.has_cursors, github.max_page = True, 1
    issues = repository.bulk(4)
    github.advance()
    server.before_request = lambda number, _request: repository.touch(issues[0]) if number == 1 else None
    assert walk(client, "issues", **OLDEST_FIRST | {"per_page": 2}) == [1, 2, 3, 4, 1]
    assert walk(client, "issues", per_page=3) == [4, 3, 2, 1]
    assert client.get(f"/repos/{NAME}/issues?page=2").status_code == 422


def test_an_order_that_was_listed_follows_every_verb(github: GitHub, repository: Repository) -> None:
    issues, orders = repository.bulk(6), [(sort, state) for sort in SORT_KEYS for state in ("all", "open", "closed")]
    for sort, state in orders:
        repository.ordered("issues", sort, state)
    github.advance()
    repository.close(issues[4])
    repository.delete(repository.comment(issues[2]))
    repository.comment(issues[1])
    github.advance()
    repository.touch(issues[0], at="2023-01-01T00:00:00Z")
    repository.delete(issues[3])
    repository.transfer(issues[5], github.create("octo/other"))
    repository.issue()
    for sort, state in orders:
        left = [
            entry for entry in repository.entries.values() if entry.kind == "issues" and state in {"all", entry.state}
        ]
        assert repository.ordered("issues", sort, state) == sorted(left, key=SORT_KEYS[sort]), (sort, state)


def test_a_commit_that_comes_late_lies_before_what_was_listed(client: httpx.Client, repository: Repository) -> None:
    repository.issue(at="2024-01-01T00:00:09Z")
    assert walk(client, "issues", **OLDEST_FIRST) == [1]
    repository.issue(at="2024-01-01T00:00:05Z")
    assert walk(client, "issues", **OLDEST_FIRST) == [2, 1]


def test_pull_requests_are_issues_with_one_key_more(
    client: httpx.Client, github: GitHub, repository: Repository
) -> None:
    repository.issue()
    pull = repository.pull(title="Fix it", user=None)
    github.advance()
    repository.merge(pull)
    plain, listed = (record for record in client.get(f"/repos/{NAME}/issues?state=all&direction=asc").json())
    assert "pull_request" not in plain
    assert (listed["number"], listed["title"], listed["user"]) == (2, "Fix it", None)
    assert listed["pull_request"]["merged_at"] == listed["closed_at"] == "2024-01-01T00:00:01Z"
    assert listed["html_url"].endswith("/octo/hello/pull/2")
    assert walk(client, "pulls") == []
    repository.pull()
    assert walk(client, "pulls", state="all") == [3, 2]
    assert walk(client, "pulls", state="all", sort="updated") == [2, 3]
    assert client.get(f"/repos/{NAME}/pulls/2").json()["merged"] is True
    assert client.get(f"/repos/{NAME}/pulls/1").status_code == 404


@pytest.mark.parametrize("kind", ["issues/comments", "pulls/comments"])
def test_comments_come_by_id_unless_sorted(
    client: httpx.Client, github: GitHub, repository: Repository, kind: str
) -> None:
    pull = repository.pull()
    add = repository.comment if kind == "issues/comments" else repository.review
    first, second, third = (add(pull, body=f"comment {i}") for i in range(3))
    github.advance()
    repository.edit(second, body="edited")
    assert walk(client, kind, direction="desc") == [first.id, second.id, third.id]
    assert walk(client, kind, sort="updated", direction="asc") == [first.id, third.id, second.id]
    assert walk(client, kind, since=github.stamp) == [second.id]
    assert client.get(f"/repos/{NAME}/{second.path}").json()["body"] == "edited"
    repository.delete(second)
    assert client.get(f"/repos/{NAME}/{second.path}").status_code == 404
    assert walk(client, kind) == [first.id, third.id]


def test_a_comment_counts_and_moves_its_issue(client: httpx.Client, github: GitHub, repository: Repository) -> None:
    issue = repository.issue()
    github.advance()
    comment = repository.comment(issue)
    found = client.get(f"/repos/{NAME}/issues/1").json()
    assert (found["comments"], found["updated_at"]) == (1, "2024-01-01T00:00:01Z")
    assert client.get(f"/repos/{NAME}/{comment.path}").json()["issue_url"] == found["url"]
    repository.delete(comment)
    assert client.get(f"/repos/{NAME}/issues/1").json()["comments"] == 0


def test_releases_are_listed_newest_first(client: httpx.Client, github: GitHub, repository: Repository) -> None:
    old = repository.release(name="1.0", author=None)
    github.advance()
    new = repository.release()
    assert walk(client, "releases", per_page=1, since="2030-01-01T00:00:00Z") == [new.id, old.id]
    assert client.get(f"/repos/{NAME}/releases/{old.id}").json()["name"] == "1.0"


def test_the_truth_is_what_all_listings_show(client: httpx.Client, github: GitHub, repository: Repository) -> None:
    github.sign_up("alice", "token-a")
    client.headers.update(as_("token-a"))
    issue, pull = repository.issue(labels=["bug"], assignees=["hubot"], milestone="1.0"), repository.pull()
    repository.comment(issue)
    repository.review(pull)
    repository.release()
    listed: dict[str, Any] = {}
    for kind in ("issues", "issues/comments", "pulls/comments", "releases"):
        records = client.get(f"/repos/{NAME}/{kind}?state=all").json()
        listed |= {f"{kind}/{record.get('number', record['id'])}": record for record in records}
    assert repository.live() == listed
    assert {path: client.get(f"/repos/{NAME}/{path}").json() for path in listed} == listed
    assert listed["issues/1"]["labels"][0]["name"] == "bug"
    assert listed["issues/1"]["assignee"] == listed["issues/1"]["assignees"][0]


def test_a_deleted_issue_is_gone_with_its_comments(client: httpx.Client, repository: Repository) -> None:
    issue = repository.issue()
    comment = repository.comment(issue)
    repository.delete(issue)
    response = client.get(f"/repos/{NAME}/issues/1")
    assert (response.status_code, response.json()["message"]) == (410, "This issue was deleted")
    assert client.get(f"/repos/{NAME}/{comment.path}").status_code == 404
    assert client.get(f"/repos/{NAME}/issues/2").status_code == 404
    assert repository.live() == {}


def test_a_converted_issue_stays_closed_and_locked(client: httpx.Client, repository: Repository) -> None:
    repository.convert(repository.issue())
    found = client.get(f"/repos/{NAME}/issues?state=all").json()[0]
    assert (found["state"], found["locked"]) == ("closed", True)


def test_a_transferred_issue_redirects_those_who_see_where_it_went(
    client: httpx.Client, server: FaultServer, github: GitHub, repository: Repository
) -> None:
    other = github.create("octo/secret", private=True)
    github.sign_up("alice", "token-a", sees=[other])
    issue = repository.issue(title="Moved")
    comment = repository.comment(issue, body="said before")
    moved = repository.transfer(issue, other)
    response = client.get(f"/repos/{NAME}/issues/1", headers=as_("token-a"))
    location = f"{server.url}/repositories/{other.id}/issues/1"
    assert (response.status_code, response.headers["location"], response.json()["url"]) == (301, location, location)
    assert client.get(location, headers=as_("token-a")).json()["title"] == "Moved"
    assert client.get(f"/repos/{NAME}/issues/1").status_code == 404
    assert client.get(f"/repos/{NAME}/{comment.path}", headers=as_("token-a")).status_code == 404
    assert repository.live() == {}
    assert sorted(record["body"] for path, record in other.live().items() if path != moved.path) == ["said before"]


def test_a_renamed_repository_redirects_by_its_id(
    client: httpx.Client, server: FaultServer, github: GitHub, repository: Repository
) -> None:
    repository.issue()
    assert client.get(f"/repos/{NAME}/issues/1").json()["repository_url"].endswith(f"/repos/{NAME}")
    github.rename(repository, "octo/new")
    response = client.get(f"/repos/{NAME}/issues?state=all&since=2024-01-01T00:00:00%2B00:00")
    location = f"{server.url}/repositories/{repository.id}/issues?state=all&since=2024-01-01T00%3A00%3A00%2B00%3A00"
    assert (response.status_code, response.headers["location"]) == (301, location)
    assert client.get(location).json()[0]["repository_url"].endswith("/repos/octo/new")
    assert client.get("/repos/OCTO/New").json()["id"] == repository.id
    github.rename(repository, NAME)
    assert client.get(f"/repos/{NAME}").json()["id"] == repository.id
    assert client.get("/repos/octo/new").status_code == 301


def test_an_enterprise_server_has_everything_below_its_root(
    client: httpx.Client, server: FaultServer, github: GitHub, repository: Repository
) -> None:
    github.root = "/api/v3"
    repository.bulk(2)
    response = client.get(f"/api/v3/repos/{NAME}/issues?per_page=1")
    address = f"{server.url}/api/v3/repositories/{repository.id}/issues"
    assert response.links["next"]["url"] == f"{address}?per_page=1&page=2"
    assert numbers(client.get(address)) == [2, 1]
    assert client.get(f"/repos/{NAME}").status_code == 404


def test_a_former_name_may_be_a_strangers(client: httpx.Client, github: GitHub, repository: Repository) -> None:
    repository.issue()
    github.rename(repository, "octo/new")
    stranger = github.take_over(NAME)
    found = client.get(f"/repos/{NAME}").json()
    assert (found["id"], found["full_name"]) == (stranger.id, NAME)
    assert stranger.id != repository.id
    assert walk(client, "issues") == []


def test_a_deleted_repository_is_not_there(client: httpx.Client, github: GitHub, repository: Repository) -> None:
    github.remove(repository)
    assert client.get(f"/repos/{NAME}").status_code == client.get(f"/repositories/{repository.id}").status_code == 404


def test_disabled_issues_are_gone_and_disabled_pulls_not_found(client: httpx.Client, repository: Repository) -> None:
    issue, pull = repository.issue(), repository.pull()
    comment = repository.comment(issue)
    repository.has_issues = repository.has_pulls = False
    for path in ("issues", issue.path, "issues/comments", comment.path):
        response = client.get(f"/repos/{NAME}/{path}")
        assert (response.status_code, response.json()["message"]) == (
            410,
            "Issues has been disabled in this repository.",
        )
    for path in ("pulls", f"pulls/{pull.number}", "pulls/comments"):
        assert client.get(f"/repos/{NAME}/{path}").status_code == 404
    about = client.get(f"/repos/{NAME}").json()
    assert (about["has_issues"], about["has_pull_requests"]) == (False, False)
    assert client.get(f"/repos/{NAME}/releases").json() == []


def test_disabled_issues_may_leave_the_pull_requests(
    client: httpx.Client, github: GitHub, repository: Repository
) -> None:
    github.serves_pulls_when_disabled, repository.has_issues = True, False
    issue, pull = repository.issue(), repository.pull()
    repository.comment(issue)
    comment = repository.comment(pull)
    assert walk(client, "issues") == [2]
    assert walk(client, "issues/comments") == [comment.id]
    assert client.get(f"/repos/{NAME}/{issue.path}").status_code == 410
    assert client.get(f"/repos/{NAME}/{pull.path}").status_code == 200


def test_304_for_what_is_known_costs_an_account_nothing(
    client: httpx.Client, github: GitHub, repository: Repository
) -> None:
    github.sign_up("alice", "token-a")
    issue = repository.issue()
    path, headers = f"/repos/{NAME}/issues", as_("token-a")
    first = client.get(path, headers=headers)
    again = client.get(path, headers=headers | {"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    assert first.headers["x-ratelimit-remaining"] == again.headers["x-ratelimit-remaining"] == "4999"
    github.advance()
    repository.touch(issue)
    changed = client.get(path, headers=headers | {"If-None-Match": first.headers["etag"]})
    assert (changed.status_code, changed.headers["x-ratelimit-remaining"]) == (200, "4998")
    strangers = client.get(path)
    again = client.get(path, headers={"If-None-Match": strangers.headers["etag"]})
    assert (again.status_code, again.headers["x-ratelimit-remaining"]) == (304, "58")


def test_each_token_has_a_quota_and_403_when_it_is_used_up(
    client: httpx.Client, github: GitHub, repository: Repository
) -> None:
    now = 1_000_000.0
    github.wall = lambda: now
    for token in ("token-a", "token-b"):
        github.sign_up(f"user-{token}", token)
    github.quota("token-a").remaining = 1
    path = f"/repositories/{repository.id}"
    assert client.get(path, headers=as_("token-a")).status_code == 200
    refused = client.get(path, headers=as_("token-a"))
    assert refused.status_code == 403
    assert refused.json()["message"].startswith("API rate limit exceeded for user ID ")
    limits = {name: value for name, value in refused.headers.items() if name.startswith("x-ratelimit")}
    assert limits == {
        "x-ratelimit-limit": "5000",
        "x-ratelimit-remaining": "0",
        "x-ratelimit-used": "5000",
        "x-ratelimit-reset": "1003600",
        "x-ratelimit-resource": "core",
    }
    assert client.get("/rate_limit", headers=as_("token-a")).json()["rate"]["remaining"] == 0
    assert client.get(path, headers=as_("token-b")).status_code == 200
    assert client.get(path).headers["x-ratelimit-limit"] == "60"
    now += 3600
    assert client.get(path, headers=as_("token-a")).headers["x-ratelimit-remaining"] == "4999"


def test_private_is_not_found_for_all_who_may_not_see_it(client: httpx.Client, github: GitHub) -> None:
    repository = github.create(NAME, private=True)
    alice = github.sign_up("alice", "token-a", sees=[repository])
    github.sign_up("bob", "token-b")
    path = f"/repos/{NAME}/issues"
    statuses = [client.get(path, headers=headers).status_code for headers in (as_("token-a"), as_("token-b"), {})]
    assert statuses == [200, 404, 404]
    alice.sees.discard(repository.id)
    assert client.get(path, headers=as_("token-a")).status_code == 404
    repository.private = False
    assert client.get(path).status_code == 200


def test_a_revoked_token_is_refused_and_a_downgraded_one_is_a_stranger(
    client: httpx.Client, github: GitHub, repository: Repository
) -> None:
    private = github.create("octo/secret", private=True)
    alice = github.sign_up("alice", "token-a", sees=[private])
    headers = {"Authorization": "token token-a"}
    paths = ("/user", f"/repos/{NAME}", "/repos/octo/secret")
    assert client.get("/user", headers=headers).json()["login"] == "alice"
    alice.is_downgraded = True
    assert [client.get(path, headers=headers).status_code for path in paths] == [401, 200, 404]
    alice.is_revoked = True
    assert [client.get(path, headers=headers).status_code for path in paths] == [401, 401, 401]
    assert client.get("/user", headers=as_("unknown")).json()["message"] == "Bad credentials"
    assert repository.full_name == NAME


@pytest.mark.parametrize("is_silent", [False, True], ids=["422", "silent"])
def test_paging_may_be_capped(client: httpx.Client, github: GitHub, repository: Repository, *, is_silent: bool) -> None:
    repository.bulk(10)
    github.max_page, github.is_silent_cap = 2, is_silent
    second = client.get(f"/repos/{NAME}/issues?per_page=3&page=2")
    assert ("next" in second.links) is not is_silent
    third = client.get(f"/repos/{NAME}/issues?per_page=3&page=3")
    assert (third.status_code, len(third.json())) == ((200, 0) if is_silent else (422, 3))


def test_order_may_be_ignored(client: httpx.Client, github: GitHub, repository: Repository) -> None:
    issues = repository.bulk(3)
    github.advance()
    repository.touch(issues[0])
    comments = [repository.comment(issues[0]).id for _ in range(2)]
    github.ignores_order = True
    assert walk(client, "issues", **OLDEST_FIRST) == [3, 2, 1]
    assert walk(client, "issues/comments", sort="created", direction="desc") == comments


@pytest.mark.parametrize("retry_after", ["60", "Wed, 21 Oct 2026 07:28:00 GMT", None])
def test_a_secondary_limit_is_not_the_quota(
    client: httpx.Client, server: FaultServer, repository: Repository, retry_after: str | None
) -> None:
    server.at(0, secondary_limit(retry_after))
    response = client.get(f"/repos/{repository.full_name}")
    assert (response.status_code, response.headers.get("retry-after")) == (403, retry_after)
    assert "secondary rate limit" in response.json()["message"]


def test_a_record_has_about_the_size_that_github_sends(client: httpx.Client, repository: Repository) -> None:
    repository.bulk(100)
    response = client.get(f"/repos/{NAME}/issues?per_page=100")
    assert 4_500 < len(response.content) / 100 < 5_500
