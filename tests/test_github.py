"""GitHub, the whole way: from a server on a socket into the warehouse, whatever a repository goes through."""

import json
import random
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from ingestion.errors import ConfigurationError, ScopeNotFoundError
from ingestion.model import Record
from resources.connectors.github import GitHubConnector
from tests.faultserver.faults import Fault
from tests.faultserver.github import GitHub
from tests.faultserver.github_repository import Repository
from tests.faultserver.server import FaultServer, Request
from tests.github_support import NAME, TOKEN, GitHubSite, Impatient, paths, truth
from tests.github_support import site as make_site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[GitHubSite]:
    with make_site(tmp_path) as made:
        yield made


@pytest.fixture
def repository(site: GitHubSite) -> Repository:
    return site.github.create(NAME)


def fill(github: GitHub, repository: Repository, issues: int, *, body: str = "text") -> None:
    """A record of each kind for every second, some of them within one second."""
    for number in range(issues):
        github.advance(number % 3)
        issue = repository.issue(body=f"{body} {number}")
        if number % 3 == 0:
            repository.comment(issue, body=f"comment {number}")
        if number % 5 == 0:
            pull = repository.pull(body=f"pull {number}")
            repository.review(pull, body=f"review {number}")
        if number % 10 == 0:
            repository.release(body=f"release {number}")
    github.advance()


def assert_unchanged(site: GitHubSite, scope: str = NAME, *, requests: int = 12) -> None:
    """A sync of what did not change costs little, and writes nothing."""
    before = site.batches_count(scope), site.cursor(scope)
    fetched = site.fetch(scope)
    assert fetched.is_caught_up
    assert fetched.requests_count <= requests
    assert (fetched.records_count, fetched.batches_count) == (0, 0)
    assert (site.batches_count(scope), site.cursor(scope)) == before


def test_every_kind_of_record_arrives_once(site: GitHubSite, repository: Repository) -> None:
    fill(site.github, repository, 30)
    fetched = site.census()
    assert fetched.is_caught_up
    assert fetched.account is not None
    assert fetched.account.name == "alice"
    assert site.documents() == truth(repository)
    assert not site.rejects()
    assert not site.doubles()
    kinds = {"issue": 30, "pull_request": 6, "comment": 10, "review_comment": 6, "release": 3}
    assert dict(site.query("SELECT doc_type, count(*) FROM documents GROUP BY ALL")) == kinds
    assert_unchanged(site)


def test_a_replay_without_the_server_gives_the_same(site: GitHubSite, repository: Repository) -> None:
    fill(site.github, repository, 12)
    site.census()
    moved = repository.transfer(repository.issue(body="to be moved"), site.github.create("octo/other"))
    site.sync()
    assert moved.path
    repository.delete(repository.issue())
    site.census()
    before = site.tables()
    site.server.when(lambda _request: True, Fault.status(500))
    site.replay()
    assert site.tables() == before


@pytest.mark.parametrize("seed", [1, 2])
def test_whatever_moves_between_requests_arrives(site: GitHubSite, repository: Repository, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 -- no secret
    if seed % 2:
        for number in range(250):
            repository.issue(body=f"imported {number}")
    fill(site.github, repository, 70)

    def live(_number: int, _request: Request) -> None:
        if chance.random() < 0.5:
            site.github.advance()
        for entry in chance.sample(list(repository.entries.values()), chance.randrange(6)):
            if entry.path in repository.entries:
                chance.choice([repository.edit, repository.edit, repository.delete])(entry)
        repository.comment(repository.issue(body="new"), body="new comment")

    site.server.before_request = live
    for max_pages in (3, None, 1, 2):
        site.sync(max_pages=max_pages)
    site.server.calm()
    site.census(approve_deletions=True)
    assert site.documents() == truth(repository)
    assert not site.doubles()
    assert_unchanged(site)


@pytest.mark.parametrize(("count", "has_cursors"), [(5_000, False), (900, True)])
def test_thousands_of_issues_of_one_second(
    site: GitHubSite,
    repository: Repository,
    count: int,
    has_cursors: bool,  # noqa: FBT001  # a parameter
) -> None:
    site.github.has_cursors = has_cursors
    for number in range(count):
        repository.issue(body=f"imported {number}")
    site.github.advance()
    late = repository.issue(body="afterwards")
    fetched = site.sync()
    assert fetched.is_caught_up
    assert fetched.requests_count <= 2 * (count // 100 + 1) + 10
    assert site.documents() == truth(repository)
    assert late.path in site.live()
    assert_unchanged(site)


def test_a_flood_of_pull_requests_hides_no_issue(site: GitHubSite, repository: Repository) -> None:
    for number in range(330):
        repository.issue(is_pull=number % 66 != 0, body=f"{number}")
    site.github.advance()
    repository.bulk(120, is_pull=True)
    while not site.fetch(max_pages=1).is_caught_up:
        pass
    site.load()
    assert site.documents() == truth(repository)
    assert len(site.query("SELECT 1 FROM documents WHERE doc_type = 'issue'")) == 5


def test_one_page_a_run_reaches_everything_and_starves_no_listing(site: GitHubSite, repository: Repository) -> None:
    fill(site.github, repository, 220)
    pages = sum(-(-count // 99) for count in (220 + 44, 74, 44, 22))
    seen: list[set[str]] = []
    runs = 1
    while not site.fetch(max_pages=1).is_caught_up:
        runs += 1
        seen.append({source_id.rpartition("/")[0] for source_id in site.stored()})
        assert runs < 50
    assert runs <= pages + 8
    assert seen[3] == {"issues", "issues/comments", "pulls/comments", "releases"}
    site.load()
    assert site.documents() == truth(repository)
    assert_unchanged(site)


def renamed(site: GitHubSite, repository: Repository) -> None:
    site.github.rename(repository, "octo/renamed")


def issues_disabled(_site: GitHubSite, repository: Repository) -> None:
    repository.has_issues = False


def anonymous(site: GitHubSite, _repository: Repository) -> None:
    site.token = ""


def nothing(_site: GitHubSite, _repository: Repository) -> None:
    pass


@pytest.mark.parametrize("first", [nothing, renamed, issues_disabled, anonymous])
def test_an_unchanged_repository_costs_few_requests_and_ten_changes_few_more(
    site: GitHubSite, repository: Repository, first: Callable[[GitHubSite, Repository], None]
) -> None:
    fill(site.github, repository, 40)
    first(site, repository)
    site.fetch()
    assert_unchanged(site)
    to_change = [entry for entry in repository.entries.values() if entry.is_pull or first is not issues_disabled][:10]
    for entry in to_change:
        repository.edit(entry, body="changed")
    assert site.fetch().requests_count <= 16
    changed = {path for path, payload in site.stored().items() if json.loads(payload)["body"] == "changed"}
    assert changed == {entry.path for entry in to_change}
    assert_unchanged(site)


@pytest.mark.parametrize("seconds", [0, 1, 200])
def test_late_commits_arrive(site: GitHubSite, repository: Repository, seconds: int) -> None:
    entries = [repository.issue(body="old"), repository.issue(body="older")]
    site.github.advance(600)
    repository.issue(body="newest")
    site.fetch()
    late = f"{site.github.now - timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"
    repository.issue(at=late, body="late")
    repository.edit(entries[0], at=late, body="edited late")
    site.sync()
    assert site.documents() == truth(repository)
    assert_unchanged(site)


def test_an_edit_replaces_the_text_and_the_state(site: GitHubSite, repository: Repository) -> None:
    issue = repository.issue(body="old text", labels=["Bug"])
    site.sync()
    site.github.advance()
    repository.edit(issue, body="new text", labels=["Docs"])
    repository.close(issue, "not_planned")
    site.sync()
    tags = site.query("SELECT content, tags FROM documents")
    assert tags == [("new text", ["status:closed", "resolution:not_planned", "label:docs"])]
    assert site.documents() == truth(repository)


def test_a_census_tombstones_what_was_deleted_and_nothing_else(site: GitHubSite, repository: Repository) -> None:
    fill(site.github, repository, 20)
    site.sync()
    issue = repository.entries["issues/1"]
    comment = next(
        entry for entry in repository.entries.values() if entry.kind == "issues/comments" and entry.parent != 1
    )
    release = next(entry for entry in repository.entries.values() if entry.kind == "releases")
    before = set(repository.entries)
    for entry in (issue, comment, release):
        repository.delete(entry)
    gone = before - set(repository.entries)
    assert len(gone) == 4
    site.census()
    assert site.deleted() == gone
    assert site.documents() == truth(repository)
    assert_unchanged(site)


@pytest.mark.parametrize("has_other_name", [False, True])
def test_a_transferred_issue_stays_and_says_where_it_is(
    site: GitHubSite,
    repository: Repository,
    has_other_name: bool,  # noqa: FBT001 -- a parameter
) -> None:
    fill(site.github, repository, 10)
    other = site.github.create("octo/other")
    issue = repository.issue(body="goes away")
    site.sync()
    if has_other_name:
        site.github.rename(repository, "octo/renamed")
    moved = repository.transfer(issue, other)
    site.census()
    assert not site.deleted()
    assert site.documents()[issue.path] == truth(other)[moved.path]
    address = f"https://github.com/octo/other/issues/{moved.number}"
    assert site.query("SELECT url FROM documents WHERE source_id = ?", issue.path) == [(address,)]
    assert site.query("SELECT doc_id, relation, target FROM links WHERE relation = 'moved_to'") == [
        (f"github:{NAME}:{issue.path}", "moved_to", address)
    ]
    site.census()
    assert not site.deleted()
    assert_unchanged(site)


def test_what_a_census_heals_of_a_renamed_repository_did_not_move(site: GitHubSite, repository: Repository) -> None:
    fill(site.github, repository, 5)
    site.sync()
    site.github.rename(repository, "octo/renamed")
    # An issue that no listing of changes shows: its time lies before the cursor.
    lost = repository.issue(at="2023-01-01T00:00:00Z", body="came late")
    site.census()
    assert lost.path in site.live()
    assert not site.query("FROM links WHERE relation = 'moved_to'")
    assert not site.deleted()


def closing(_site: GitHubSite, repository: Repository) -> None:
    for entry in [entry for entry in repository.entries.values() if entry.kind == "issues"]:
        repository.close(entry)


def archiving(_site: GitHubSite, repository: Repository) -> None:
    repository.archived = True


def converting(_site: GitHubSite, repository: Repository) -> None:
    repository.convert(repository.entries["issues/1"])


def new_owner(site: GitHubSite, repository: Repository) -> None:
    site.github.rename(repository, "others/elsewhere")


@pytest.mark.parametrize("happens", [closing, archiving, converting, renamed, new_owner])
def test_what_is_no_deletion_tombstones_nothing(
    site: GitHubSite, repository: Repository, happens: Callable[[GitHubSite, Repository], None]
) -> None:
    fill(site.github, repository, 12)
    site.sync()
    happens(site, repository)
    site.census()
    assert not site.deleted()
    assert set(site.documents()) == set(truth(repository))
    assert {at for _, at in site.documents().values()} == {at for _, at in truth(repository).values()}
    assert_unchanged(site)


def test_the_account_says_what_a_renamed_repository_is_called_now(site: GitHubSite, repository: Repository) -> None:
    site.github.rename(repository, "octo/renamed")
    assert "octo/renamed" in site.connector.check(NAME).detail


def test_a_name_that_a_stranger_took_over_is_refused_and_costs_this_scope_alone(
    site: GitHubSite, repository: Repository
) -> None:
    other = site.github.create("octo/other")
    for one in (repository, other):
        fill(site.github, one, 6)
    site.census()
    site.census("octo/other")
    site.github.rename(repository, "octo/renamed")
    stranger = site.github.take_over(NAME)
    stranger.issue(body="a stranger's")
    before = site.batches_count(), site.documents()
    with pytest.raises(ConfigurationError, match=rf"another one by now.*{stranger.id}.*{repository.id}"):
        site.fetch(take_census=True)
    site.census("octo/other")
    assert (site.batches_count(), site.documents()) == before
    assert site.documents("octo/other") == truth(other)
    assert not site.deleted()


def test_disabled_issues_tombstone_nothing_and_pull_requests_still_arrive(
    site: GitHubSite, repository: Repository
) -> None:
    repository.has_issues = False
    pull = repository.pull(body="before")
    site.census()
    assert set(site.live()) == {pull.path}
    site.github.advance()
    repository.edit(pull, body="after")
    newer = repository.pull(body="newer")
    site.census()
    assert site.documents() == {path: truth(repository)[path] for path in (pull.path, newer.path)}
    assert not site.deleted()
    assert_unchanged(site)


def test_issues_that_are_disabled_later_stay_and_the_census_says_why(site: GitHubSite, repository: Repository) -> None:
    fill(site.github, repository, 12)
    site.census()
    before = set(site.documents())
    repository.has_issues = False
    newer = repository.pull(body="newer")
    with pytest.raises(ConfigurationError, match=r"octo/hello does not offer issues(/comments)? any more"):
        site.fetch(take_census=True)
    site.load()
    assert set(site.documents()) == before | {newer.path}
    assert not site.deleted()
    repository.has_issues = True
    site.census()
    assert site.documents() == truth(repository)


def test_issues_that_are_enabled_later_arrive(site: GitHubSite, repository: Repository) -> None:
    fill(site.github, repository, 6)
    repository.has_issues = False
    site.sync()
    site.github.advance()
    repository.edit(next(entry for entry in repository.entries.values() if entry.is_pull), body="last")
    site.sync()
    repository.has_issues = True
    site.sync()
    assert site.documents() == truth(repository)


def test_a_repository_without_pull_requests(site: GitHubSite, repository: Repository) -> None:
    repository.has_pulls = False
    issue = repository.issue(body="alone")
    site.census()
    assert set(site.live()) == {issue.path}
    repository.delete(issue)
    site.census()
    assert site.deleted() == {issue.path} or not site.deleted()
    assert_unchanged(site)


def test_neither_issues_nor_pull_requests(site: GitHubSite, repository: Repository) -> None:
    repository.has_pulls = repository.has_issues = False
    release = repository.release()
    site.census()
    assert set(site.live()) == {release.path}
    assert_unchanged(site)


@pytest.mark.parametrize("token", [TOKEN, ""])
def test_a_private_repository_is_not_there_for_others(site: GitHubSite, token: str) -> None:
    site.github.create(NAME, private=True).issue()
    site.token = token
    with pytest.raises(ScopeNotFoundError, match="not there, or not for this credential"):
        site.fetch(take_census=True)
    assert site.batches_count() == 0


def test_a_scope_that_is_none_is_refused_before_anything_is_asked(site: GitHubSite) -> None:
    for scope in ("hello", "octo/..", "a/b/c", "octo/hel lo", "../user"):
        with pytest.raises(ConfigurationError, match="write owner/name"):
            site.connector.check(scope)
    assert set(paths(site.server)) <= {"/user"}


def test_an_enterprise_server_below_a_path(tmp_path: Path) -> None:
    github = GitHub(root="/api/v3")
    with make_site(tmp_path, github) as site:
        fill(github, github.create(NAME), 40)
        site.census()
        assert site.documents() == truth(github.repositories[github.names[NAME]])
        assert_unchanged(site)


def test_an_upstream_that_ignores_the_order(site: GitHubSite, repository: Repository) -> None:
    site.github.ignores_order = True
    fill(site.github, repository, 150)
    site.sync()
    repository.edit(repository.entries["issues/7"], body="changed")
    repository.issue(body="new")
    site.sync()
    assert site.documents() == truth(repository)
    assert_unchanged(site)


@pytest.mark.parametrize(
    "change",
    [
        lambda repository: repository.edit(repository.entries["issues/1"], body="changed"),
        lambda repository: repository.close(repository.entries["issues/1"]),
        lambda repository: repository.comment(repository.entries["issues/1"]),
        lambda repository: repository.review(repository.entries["issues/2"]),
        lambda repository: repository.issue(),
        lambda repository: repository.pull(),
        lambda repository: repository.release(),
        lambda repository: repository.edit(
            next(entry for entry in repository.entries.values() if entry.kind == "releases"), body="changed"
        ),
    ],
    ids=["edit", "close", "comment", "review", "issue", "pull", "release", "edited release"],
)
def test_a_poll_tells_each_kind_of_change_and_otherwise_costs_nothing(
    site: GitHubSite, repository: Repository, change: Callable[[Repository], object]
) -> None:
    fill(site.github, repository, 11)
    site.fetch()
    connector = site.connector
    assert not connector.changed(NAME, site.cursor())
    quota = site.github.quota(TOKEN)
    before = quota.remaining
    site.server.reset_log()
    assert not connector.changed(NAME, site.cursor())
    assert (
        quota.remaining == before
    )  # https://docs.github.com/en/rest/using-the-rest-api/best-practices-for-using-the-rest-api
    assert all("if-none-match" in request.headers for request in site.server.requests)
    change(repository)
    assert connector.changed(NAME, site.cursor())
    site.fetch()
    assert not connector.changed(NAME, site.cursor())


def test_a_poll_of_what_is_half_read_or_was_never_read_says_that_there_is_more(
    site: GitHubSite, repository: Repository
) -> None:
    fill(site.github, repository, 150)
    assert site.connector.changed(NAME, None)
    site.fetch(max_pages=1)
    assert site.connector.changed(NAME, site.cursor())


@pytest.mark.parametrize("stamp", ["1970-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "0200-05-01T00:00:00Z"])
def test_records_of_the_epoch_and_before_do_not_hold_the_listing_up(
    site: GitHubSite, repository: Repository, stamp: str
) -> None:
    """GitHub answers nothing to `since` the epoch, whatever there is."""
    for number in range(150):
        repository.issue(at=stamp, body=f"{number}")
    site.fetch()
    assert set(site.stored()) == set(truth(repository))
    repository.issue(body="today")
    site.fetch()
    assert set(site.stored()) == set(truth(repository))
    assert_unchanged(site)


def test_a_download_of_a_release_is_no_news(site: GitHubSite, repository: Repository) -> None:
    asset = {
        "name": "a.zip",
        "content_type": "application/zip",
        "download_count": 1,
        "browser_download_url": "https://e.org/a",
    }
    release = repository.release(assets=[asset])
    site.sync()
    repository.edit(release, at=release.updated_at, assets=[asset | {"download_count": 99}])
    assert_unchanged(site)
    repository.edit(release, at=release.updated_at, body="changed")
    assert site.sync().records_count == 1


def test_what_is_documented_of_a_record_needs_neither_network_nor_token() -> None:
    payload = json.dumps({"number": 1, "title": "t", "html_url": "https://github.com/octo/hello/issues/1"}).encode()
    (document,) = GitHubConnector.documents(NAME, Record("issues/1", "issue", payload))
    assert (document.title, document.thread_id) == ("t", "issues/1")


def test_a_half_read_window_is_gone_on_with_at_another_address(site: GitHubSite, repository: Repository) -> None:
    """A cursor holds no host: behind another name or port it is the same GitHub."""
    repository.bulk(450, at="2024-01-01T00:00:00Z")
    assert not site.fetch(max_pages=6).is_caught_up
    cursor = site.cursor()
    with FaultServer(site.github) as moved:
        pages = list(Impatient(base_url=moved.url, token=TOKEN).pages(NAME, cursor))
        first = next(one for one in moved.requests if one.path.endswith("/issues"))
        assert int(first.first("page")) > 1
    assert {"issues/400", "issues/450"} <= {one.source_id for page in pages for one in page.records}


@pytest.mark.parametrize("status", [403, 404])
def test_an_apps_token_belongs_to_no_user_and_reads_all_the_same(
    site: GitHubSite, repository: Repository, status: int
) -> None:
    body = b'{"message": "Resource not accessible by integration"}'
    site.server.when(lambda request: request.path == "/user", Fault.status(status, body))
    repository.issue()
    fetched = site.sync()
    assert fetched.account is not None
    assert (fetched.account.name, fetched.account.is_authenticated) == ("an app", True)
    assert paths(site.server)[0] == "/user"
    assert site.query("SELECT count(*) FROM documents") == [(1,)]


@pytest.mark.parametrize(
    ("granted", "detail"),
    [("repo, read:org", "a classic token with repo, read:org"), ("", "a classic token with no scopes")],
)
def test_a_classic_token_says_what_it_may(site: GitHubSite, repository: Repository, granted: str, detail: str) -> None:
    assert repository.full_name == NAME
    fault = Fault.replaced(lambda response: response.having(X_OAuth_Scopes=granted))
    site.server.when(lambda request: request.path == "/user", fault)
    assert site.connector.check(NAME).detail == detail
