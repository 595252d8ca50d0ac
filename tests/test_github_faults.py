"""GitHub misbehaves: every fault at every request, limits, tokens that lose their power, redirects and secrets."""

import base64
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from pathlib import Path
from urllib.parse import quote

import pytest

from ingestion.errors import ConfigurationError, ConnectorError, TransientError, TributaryError
from resources import budget
from tests.faultserver.faults import Fault, Response
from tests.faultserver.github import GitHub, secondary_limit
from tests.faultserver.github_repository import Repository
from tests.faultserver.github_world import Account
from tests.faultserver.server import FaultServer, Request
from tests.github_support import CLOCK, NAME, TOKEN, GitHubSite, paths, truth
from tests.github_support import site as make_site

LONGEST_WAIT = 60.0


@pytest.fixture
def site(tmp_path: Path) -> Iterator[GitHubSite]:
    with make_site(tmp_path) as made:
        yield made


def fill(repository: Repository, *, issues: int = 105) -> Repository:
    """Two pages of issues (of one second, so that they are linked), one of everything else."""
    for number in range(issues):
        repository.issue(is_pull=number % 2 == 0, body=f"text {number}")
    repository.comment(repository.entries["issues/2"], body="comment")
    repository.review(repository.entries["issues/1"], body="review")
    repository.release(body="release")
    return repository


@pytest.fixture
def repository(site: GitHubSite) -> Repository:
    return fill(site.github.create(NAME))


def fresh(site: GitHubSite, name: str) -> GitHubSite:
    """Another Tributary, which has nothing yet, before the same server, which has calmed down."""
    site.server.calm()
    budget._budgets.clear()
    CLOCK.seconds = time.time()
    CLOCK.slept.clear()
    return GitHubSite(site.folder / name, site.github, site.server)


def has_everything(site: GitHubSite, repository: Repository) -> bool:
    return set(site.stored()) == set(repository.entries)


def exhausted(seconds: float, status: int = 429) -> Fault:
    reset_at = str(int(time.time() + seconds))
    headers = {"x-ratelimit-limit": "5000", "x-ratelimit-remaining": "0", "x-ratelimit-reset": reset_at}
    return Fault.status(status, b'{"message": "API rate limit exceeded"}', headers)


def secondary_date(seconds: float) -> Fault:
    return secondary_limit(formatdate(time.time() + seconds, usegmt=True))


PASSING: dict[str, Callable[[], list[Fault]]] = {
    "answers": lambda: [Fault.status(500), Fault.status(502, b"<html>Bad gateway</html>"), Fault.html(), Fault.cut()],
    "wire": lambda: [Fault.reset(), Fault.reset(is_after_headers=True), Fault.truncated(), Fault.wrong_encoding()],
    "limits": lambda: [secondary_limit(), secondary_limit("7"), secondary_date(20), exhausted(30)],
    "more limits": lambda: [
        exhausted(30, 403),
        secondary_limit("1", 429),
        Fault.status(503, None, {"Retry-After": "9"}),
    ],
}
"""What passes by itself, of each kind; no more in a row than a request tries again."""


@pytest.mark.parametrize("kind", PASSING)
def test_faults_of_each_kind_at_any_request_lose_nothing(site: GitHubSite, repository: Repository, kind: str) -> None:
    take_census = kind == "answers"
    requests_count = site.fetch(take_census=take_census).requests_count
    for number in range(requests_count):
        one = fresh(site, f"{number}")
        faults = PASSING[kind]()
        for later, fault in enumerate(faults):
            site.server.at(number + later, fault)
        fetched = one.fetch(take_census=take_census)
        assert fetched.is_caught_up
        assert fetched.requests_count == requests_count + len(faults)
        assert has_everything(one, repository)
        assert all(wait <= LONGEST_WAIT for wait in CLOCK.slept)
        assert (sum(CLOCK.slept) > 30) == ("limits" in kind)
        if fetched.census is not None:
            assert fetched.census.missing_count == 0


def test_a_404_that_is_not_true_at_any_request_loses_nothing(site: GitHubSite, repository: Repository) -> None:
    requests_count = site.fetch().requests_count
    for number in range(requests_count):
        one = fresh(site, f"{number}")
        site.server.at(number, Fault.status(404))
        with suppress(TributaryError):
            # What a repository does not say that it has may be missing: then it is not asked for again in this run.
            assert one.fetch().is_caught_up
            assert set(repository.entries) - set(one.stored()) <= {
                path for path in repository.entries if "releases" in path
            }
        assert one.fetch().is_caught_up
        assert has_everything(one, repository)


@pytest.mark.parametrize(("first", "fault"), [(0, Fault.status(500)), (1, Fault.reset())], ids=["500", "reset"])
def test_an_outage_from_any_request_on_keeps_what_came_and_the_next_run_goes_on(
    site: GitHubSite, repository: Repository, first: int, fault: Fault
) -> None:
    requests_count = site.fetch().requests_count
    for number in range(first, requests_count, 2):
        one = fresh(site, f"{number}")
        site.server.when(lambda request, number=number: request.number >= number, fault)  # type: ignore[misc]  # a default binds it
        with pytest.raises(TransientError, match="gave up after 5 attempts"):
            one.fetch()
        asked = [path for path in paths(site.server)[:number] if path.endswith(("issues", "comments", "releases"))]
        assert bool(one.stored()) == bool(asked)
        site.server.calm()
        assert one.fetch().is_caught_up
        assert has_everything(one, repository)


def test_runs_that_are_cut_short_each_get_nearer(site: GitHubSite, repository: Repository) -> None:
    for number in range(400):
        site.github.advance(number % 2)
        repository.issue(body=f"{number}")
    # Three requests say who and where we are; four more give each listing one, so that none is waited for in vain.
    site.server.when(lambda request: request.number >= 7, Fault.status(503))
    came = [0]
    while True:
        site.server.reset_log()
        try:
            site.fetch()
        except TransientError:
            came.append(site.batches_count())
            assert came[-1] > came[-2]
        else:
            break
    assert len(came) > 3
    assert has_everything(site, repository)


@pytest.mark.parametrize(
    "fault",
    [
        lambda: secondary_limit("3600"),
        lambda: exhausted(3600),
        lambda: secondary_date(3600),
    ],
    ids=["seconds", "reset", "date"],
)
def test_a_long_wait_ends_the_run_and_is_said_and_kept(
    site: GitHubSite, repository: Repository, fault: Callable[[], Fault]
) -> None:
    requests_count = site.fetch().requests_count
    for number in range(3, requests_count, 3):
        one = fresh(site, f"{number}")
        site.server.at(number, fault())
        fetched = one.fetch()
        assert not fetched.is_caught_up
        assert fetched.resumes_at is not None
        assert abs(fetched.resumes_at - datetime.now(UTC) - timedelta(hours=1)) < timedelta(minutes=1)
        assert not sum(CLOCK.slept)
        before = one.stored()
        site.server.reset_log()
        again = one.fetch()
        assert (again.requests_count, again.resumes_at) == (0, fetched.resumes_at)
        assert not site.server.requests
        assert one.stored() == before
        CLOCK.seconds += 3_610
        assert one.fetch().is_caught_up
        assert has_everything(one, repository)


def test_a_limit_before_anything_came_says_when_to_come_back(site: GitHubSite, repository: Repository) -> None:
    site.server.at(0, exhausted(3600))
    first = site.fetch()
    assert first.resumes_at is not None
    assert (first.is_caught_up, first.records_count, first.requests_count) == (False, 0, 1)
    site.server.reset_log()
    assert site.fetch().resumes_at is not None
    assert not site.server.requests
    CLOCK.seconds += 3_610
    assert site.fetch().is_caught_up
    assert has_everything(site, repository)


def test_a_quota_that_ends_in_mid_sync_resumes_when_it_is_full_again(site: GitHubSite, repository: Repository) -> None:
    for number in range(300):
        site.github.advance()
        repository.issue(body=f"{number}")
    quota = site.github.quota(TOKEN)
    quota.remaining, quota.limit = 7, 7
    runs = 0
    while not (fetched := site.fetch()).is_caught_up:
        runs += 1
        assert fetched.resumes_at is not None
        assert runs < 12
        CLOCK.seconds = max(CLOCK.seconds, fetched.resumes_at.timestamp()) + 1
    assert runs > 1
    assert has_everything(site, repository)


def test_the_waits_of_one_scope_hold_for_all_of_the_credential(site: GitHubSite, repository: Repository) -> None:
    site.github.create("octo/other").issue()
    site.server.at(4, secondary_limit("3600"))
    assert site.fetch().resumes_at is not None
    site.server.reset_log()
    assert site.fetch("octo/other").resumes_at is not None
    assert not site.server.requests
    assert not has_everything(site, repository)


def test_a_listing_that_is_not_there_for_a_moment_costs_no_issue(site: GitHubSite) -> None:
    """The issues' listing answers 404 once: issues are not disabled by that, and pull requests do not set the time."""
    repository = site.github.create(NAME)
    for number in range(150):
        site.github.advance()
        repository.issue(is_pull=number % 3 == 0, body=f"{number}")
    for status in (404, 410, 409):
        one = fresh(site, f"{status}")
        site.server.when(lambda request: request.path.endswith("/issues"), Fault.status(status), times=1)
        with suppress(TributaryError):
            one.fetch()
        assert one.fetch().is_caught_up
        assert has_everything(one, repository)


@pytest.mark.parametrize("kind", ["issues", "issues/comments", "pulls/comments", "releases"])
def test_a_short_enumeration_is_not_taken_for_deletions(site: GitHubSite, repository: Repository, kind: str) -> None:
    site.sync()
    for status in (403, 404, 410, 503):
        site.server.when(lambda request: request.path.endswith(f"hello/{kind}"), Fault.status(status))
        with suppress(TributaryError):
            site.census()
        site.load()
        assert not site.deleted()
        site.server.calm()
    site.server.when(
        lambda request: request.path.endswith(f"hello/{kind}"), Fault.replaced(lambda _answer: Response.json([]))
    )
    site.census()
    assert not site.deleted()
    assert site.documents() == truth(repository)


def revoked(_github: GitHub, account: Account) -> None:
    account.is_revoked = True


def downgraded(_github: GitHub, account: Account) -> None:
    account.is_downgraded = True


def shut_out(_github: GitHub, account: Account) -> None:
    account.sees.clear()


@pytest.mark.parametrize(
    ("happens", "is_private"),
    [(revoked, True), (downgraded, True), (downgraded, False), (shut_out, True)],
    ids=["revoked", "downgraded", "downgraded, public", "shut out"],
)
def test_a_token_that_loses_its_power_between_any_two_requests_deletes_nothing(
    tmp_path: Path,
    happens: Callable[[GitHub, Account], None],
    is_private: bool,  # noqa: FBT001 -- a parameter
) -> None:
    with make_site(tmp_path) as site:
        repository = fill(site.github.create(NAME, private=is_private), issues=8)
        account = site.github.tokens[TOKEN]
        account.sees.add(repository.id)
        site.sync()
        site.github.advance()
        gone = repository.issue(body="is really deleted")
        kept = repository.issue(body="is moved elsewhere")
        site.sync()
        before = set(site.documents())
        repository.delete(gone)
        repository.transfer(kept, site.github.create("octo/other"))
        site.github.quota("").remaining = 5_000
        requests_count, loaded = 0, site.batches_count()
        while True:
            site.server.calm()
            account.is_revoked = account.is_downgraded = False
            account.sees = {repository.id}

            def change(number: int, _request: Request, at: int = requests_count) -> None:
                if number == at:
                    happens(site.github, account)

            site.server.before_request = change
            failed = ""
            try:
                site.fetch(take_census=True)
            except ConfigurationError as error:
                failed = str(error)
            if site.batches_count() > loaded:
                site.load()
                loaded = site.batches_count()
            if len(site.server.requests) <= requests_count:
                break
            # What was confirmed by two looks of the same account is gone; the rest stays.
            assert site.deleted() <= {gone.path}, requests_count
            assert set(site.documents()) >= before - {gone.path}
            if is_private and not failed:
                assert requests_count >= len(site.server.requests) - 1
            assert not failed or "credential" in failed or "answered as" in failed or "not there" in failed
            requests_count += 1
        assert requests_count > 10
        assert site.deleted() == {gone.path}


def test_a_stranger_in_the_place_of_an_account_is_refused(site: GitHubSite, repository: Repository) -> None:
    site.sync()
    site.token = ""
    with pytest.raises(ConfigurationError, match="answered as anonymous, while alice fetched before"):
        site.fetch(take_census=True)
    site.load()
    assert site.documents() == truth(repository)


def test_a_bad_scope_costs_no_other(site: GitHubSite, repository: Repository) -> None:
    with pytest.raises(ConfigurationError, match="404"):
        site.fetch("octo/nowhere")
    assert site.fetch().is_caught_up
    assert has_everything(site, repository)


@pytest.fixture
def elsewhere() -> Iterator[FaultServer]:
    """Another host, in the sense of what a credential is bound to."""
    with FaultServer(lambda _request: Response.json([])) as server:
        yield server


def test_redirects_to_another_host_are_not_followed(
    site: GitHubSite, repository: Repository, elsewhere: FaultServer
) -> None:
    requests_count = site.fetch().requests_count
    for number in range(requests_count):
        one = fresh(site, f"{number}")
        site.server.at(number, Fault.redirect(f"{elsewhere.url}/stolen", 301 + number % 2))
        with pytest.raises(ConfigurationError, match=r"redirects to .*: not followed"):
            one.fetch()
    assert one.fetch().is_caught_up
    assert has_everything(one, repository)
    assert not elsewhere.requests


def test_a_next_page_on_another_host_is_refused_and_not_remembered(
    site: GitHubSite, repository: Repository, elsewhere: FaultServer
) -> None:
    requests_count = site.fetch().requests_count
    link = {"Link": f'<{elsewhere.url}/issues?page=2>; rel="next"'}
    for number in range(3, requests_count):  # the listings
        one = fresh(site, f"{number}")
        site.server.at(number, Fault.replaced(lambda answer: answer.having(**link)))
        with pytest.raises(ConnectorError, match="our credential goes to no other host"):
            one.fetch()
        assert one.fetch().is_caught_up
        assert has_everything(one, repository)
    assert not elsewhere.requests


def test_the_token_is_in_no_file_and_no_log(
    site: GitHubSite, repository: Repository, elsewhere: FaultServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    says_it_back = f'{{"message": "Bad token {TOKEN} in Bearer {TOKEN}"}}'.encode()
    texts = [repr(site.connector), str(site.connector)]
    for number in range(12):
        for fault in (
            Fault.redirect(f"{elsewhere.url}/x"),
            Fault.status(422, says_it_back),
            Fault.status(500, says_it_back),
        ):
            site.server.calm()
            site.server.at(number, fault)
            if number % 2:
                site.server.when(lambda request, number=number: request.number > number, fault)  # type: ignore[misc]
            try:
                site.sync(take_census=True)
            except TributaryError as error:
                texts.append(str(error))
    site.server.calm()
    site.census()
    assert has_everything(site, repository)
    assert len(texts) > 10
    # What is compressed in the files is read as well.
    texts += [repr(rows) for rows in site.tables().values()]
    texts += [repr((batch, site.log().read(batch).to_pylist())) for batch in site.log().after(0)]
    site.publish()
    forms = {TOKEN, quote(TOKEN), quote(TOKEN, safe=""), base64.b64encode(TOKEN.encode()).decode()}
    forms |= {
        base64.b64encode(f"{prefix}{TOKEN}".encode()).decode().rstrip("=")[4:-3] for prefix in (":", "x:", "Bearer ")
    }
    said = "\n".join([*texts, caplog.text])
    assert not {form for form in forms if form in said}
    files = [path for path in site.folder.rglob("*") if path.is_file()]
    assert len(files) > 3
    assert not {(path, form) for path in files for form in forms if form.encode() in path.read_bytes()}
    assert not elsewhere.requests
    assert all(request.headers["authorization"] == f"Bearer {TOKEN}" for request in site.server.requests)
