"""GitHub's records as documents: what they say, and what becomes of records that are not as documented."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestion.githubdocument import github_document
from ingestion.githubrecord import head, record_id
from ingestion.model import Attachment, Document, Link, Record
from ingestion.normalize import normalize
from resources.connectors.github import GitHubConnector
from tests.faultserver.faults import Fault, Response
from tests.faultserver.github import GitHub
from tests.faultserver.github_details import pull_payload
from tests.faultserver.github_repository import Repository
from tests.github_support import NAME, GitHubSite
from tests.github_support import site as make_site


@pytest.fixture
def repository() -> Repository:
    return GitHub().create(NAME)


def shown(repository: Repository, path: str, record_type: str = "issue") -> Document:
    return github_document(NAME, Record(path, record_type, json.dumps(repository.live()[path]).encode()))


def mapped(payload: object, record_type: str = "issue") -> Document:
    return github_document(NAME, Record("issues/1", record_type, json.dumps(payload).encode()))


def test_an_issue(repository: Repository) -> None:
    issue = repository.issue(
        title="  The load\nstops ",
        body="Fixes #7\r\n",
        user="Ann",
        labels=["Good First Issue", "bug"],
        assignees=["Bob", "Cy"],
        milestone="Version 2",
        locked=True,
    )
    repository.close(issue, "not_planned")
    found = shown(repository, issue.path)
    assert (found.source_id, found.doc_type, found.thread_id) == ("issues/1", "issue", "issues/1")
    assert (found.title, found.content) == ("The load stops", "Fixes #7")
    assert (found.author, found.assignees, found.channel) == ("Ann", ("Bob", "Cy"), NAME)
    assert (found.participants, found.participants_raw) == (("ann", "bob", "cy"), ("Ann", "Bob", "Cy"))
    assert set(found.tags) == {
        *("status:closed", "resolution:not_planned", "label:good first issue", "label:bug"),
        *("milestone:version 2", "assignee:bob", "assignee:cy", "locked"),
    }
    assert found.url == "https://github.com/octo/hello/issues/1"
    assert found.created_at == found.updated_at == datetime(2024, 1, 1, tzinfo=UTC)
    assert found.links == (Link("closes", "issues/7", is_source_id=True),)


def test_a_pull_request_among_issues_and_by_itself_is_the_same_document(repository: Repository) -> None:
    pull = repository.pull(body="text", draft=True, labels=["x"])
    payload = json.dumps(pull_payload(repository, pull)).encode()
    alone = github_document(NAME, Record(pull.path, "pull_request", payload))
    listed = shown(repository, pull.path, "pull_request")
    assert alone == listed
    assert set(listed.tags) == {"status:open", "draft", "label:x"}
    assert head(payload).is_pull_request
    assert record_id(head(payload), "number", payload) == "1"
    repository.merge(pull)
    assert "status:merged" in shown(repository, pull.path, "pull_request").tags
    merged = json.dumps(pull_payload(repository, pull)).encode()
    assert "status:merged" in github_document(NAME, Record(pull.path, "pull_request", merged)).tags


def test_comments_belong_to_the_thread_of_their_issue(repository: Repository) -> None:
    issue, pull = repository.issue(), repository.pull()
    comment = repository.comment(issue, body="I see.", user=None)
    review = repository.review(pull, body="Why?", in_reply_to_id=77)
    found = shown(repository, comment.path, "comment")
    assert (found.title, found.thread_id, found.author) == ("Comment on #1", "issues/1", None)
    found = shown(repository, review.path, "review_comment")
    assert (found.title, found.thread_id) == ("Review of src/load.py in #2", "issues/2")
    assert Link("reply_to", "pulls/comments/77", is_source_id=True) in found.links


def test_a_release_and_its_files(repository: Repository) -> None:
    assets = [{"name": "a.zip", "content_type": "application/zip", "browser_download_url": "https://e.org/a.zip"}, None]
    release = repository.release(name=None, tag_name="V1", prerelease=True, author="Ann", assets=assets)
    found = shown(repository, release.path, "release")
    assert (found.title, found.author, found.thread_id) == ("V1", "Ann", None)
    assert set(found.tags) == {"version:v1", "prerelease"}
    assert found.attachments == (Attachment("a.zip", "application/zip", "https://e.org/a.zip"),)


def test_what_was_moved_says_where_it_is() -> None:
    payload = b'{"number": 9, "html_url": "https://github.com/octo/other/issues/9"}'
    found = github_document(NAME, Record("issues/1", "issue", payload, attributes={"moved": "true"}))
    assert found.links == (Link("moved_to", "https://github.com/octo/other/issues/9"),)


WHOLE = {
    "id": 1,
    "number": 1,
    "title": "t",
    "body": "b",
    "html_url": "https://github.com/octo/hello/issues/1",
    "user": {"login": "ann"},
    "labels": [{"name": "bug"}],
    "assignees": [{"login": "bob"}],
    "milestone": {"title": "m"},
    "state": "open",
    "created_at": "2024-01-01T00:00:00Z",
    "updated_at": "2024-01-01T00:00:00Z",
    "pull_request": {"merged_at": None},
    "assets": [{"name": "n"}],
    "issue_url": "https://api.github.com/repos/octo/hello/issues/1",
}
ODD: list[Any] = [None, True, 7, -1, 1.5, "", "text", "\x00", "\ud800", [], [None], {}, {"login": None}, [[]], 10**30]


@pytest.mark.parametrize("field", WHOLE)
@pytest.mark.parametrize("record_type", ["issue", "comment", "release"])
def test_a_field_of_any_type_costs_no_more_than_its_record(field: str, record_type: str) -> None:
    odd = [dict(WHOLE) | {field: value} for value in ODD] + [
        {key: value for key, value in WHOLE.items() if key != field}
    ]
    records = [
        Record(f"issues/{number}", record_type, json.dumps(payload).encode()) for number, payload in enumerate(odd)
    ]
    found = normalize(
        "github", NAME, [*records, Record("last", "issue", json.dumps(WHOLE).encode())], GitHubConnector.documents
    )
    assert found.documents.num_rows + len(found.rejects) == len(records) + 1
    assert "last" in found.documents["source_id"].to_pylist()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*WHOLE, "login", "name"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from([*WHOLE, "draft", "tag_name", "in_reply_to_id"]), json_values))
def test_any_json_is_a_document_or_a_reject(payload: dict[str, Any]) -> None:
    raw = json.dumps(payload).encode()
    found = head(raw)
    record = Record(f"issues/{record_id(found, 'number', raw)}", "issue", raw, updated_at=found.at)
    normalized = normalize("github", NAME, [record], GitHubConnector.documents)
    assert normalized.documents.num_rows + len(normalized.rejects) == 1


@given(st.binary(max_size=40))
def test_any_bytes_have_a_head_and_an_id(raw: bytes) -> None:
    assert record_id(head(raw), "number", raw)


def test_ids_are_the_same_as_text_and_as_number() -> None:
    for payload in (b'{"number": 12}', b'{"number": "12"}'):
        assert record_id(head(payload), "number", payload) == "12"


def test_records_without_an_id_are_told_apart() -> None:
    payloads = (
        b"{}",
        b'{"number": null}',
        b"7",
        b"null",
        b"[1]",
        b'{"number": {}}',
        b'{"number": 1.5}',
        b'{"number": true}',
    )
    names = {record_id(head(payload), "number", payload) for payload in payloads}
    assert len(names) == len(payloads)
    assert all(name.startswith("unnamed-") for name in names)


def test_of_two_equal_keys_the_last_counts() -> None:
    found = github_document(NAME, Record("issues/1", "issue", b'{"number": 1, "title": "first", "title": "last"}'))
    assert found.title == "last"


def test_times_without_a_zone_are_utc_and_what_is_no_time_is_none() -> None:
    assert mapped({"number": 1, "updated_at": "2024-01-01T00:00:00"}).updated_at == datetime(2024, 1, 1, tzinfo=UTC)
    assert mapped({"number": 1, "updated_at": "yesterday"}).updated_at is None
    assert mapped({"number": 1, "updated_at": 1704067200}).updated_at is None


HOSTILE: dict[str, bytes] = {
    "null user": b'{"number": 900, "user": null, "html_url": "https://github.com/octo/hello/issues/900"}',
    "no fields": b"{}",
    "lone surrogate": b'{"number": 901, "title": "\\ud800", "html_url": "https://github.com/octo/hello/issues/901"}',
    "broken UTF-8": b'{"number": 902, "title": "\xff\xfe", "html_url": "https://github.com/octo/hello/issues/902"}',
    "NaN": b'{"number": 903, "comments": NaN, "html_url": "https://github.com/octo/hello/issues/903"}',
    "Infinity": b'{"number": 904, "comments": -Infinity, "html_url": "https://github.com/octo/hello/issues/904"}',
    "huge int": b'{"number": 905, "comments": %b, "html_url": "https://github.com/octo/hello/issues/905"}'
    % (b"9" * 6_000),
    "huge number": b'{"number": %b}' % (b"8" * 6_000),
    "large number": b'{"number": 99999999999999999999999}',
    "duplicate keys": b'{"number": 906, "number": 907, "html_url": "https://github.com/octo/hello/issues/907"}',
    "list": b"[1, 2]",
    "number": b"7",
    "null": b"null",
    "text": b'"text"',
    "id as text": b'{"number": "908", "html_url": "https://github.com/octo/hello/issues/908"}',
    "year 200": b'{"number": 909, "updated_at": "0200-01-01T00:00:00Z", "html_url": "https://github.com/octo/hello/issues/909"}',
    "year 9999": b'{"number": 910, "updated_at": "9999-12-31T23:59:59-12:00"}',
    "year 1": b'{"number": 911, "updated_at": "0001-01-01T00:00:00+12:00"}',
    "NUL": b'{"number": 912, "title": "a\\u0000b", "body": "\\u0000", "html_url": "https://github.com/octo/hello/issues/912"}',
    "deep": b'{"number": 913, "body": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "path as id": b'{"number": "../../user"}',
    "a comma in text": b'{"number": 914, "body": "],[{}", "html_url": "https://github.com/octo/hello/issues/914"}',
}
LIVE = {f"issues/{number}" for number in (900, 901, 902, 903, 904, 907, 908, 912, 914)}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[GitHubSite]:
    with make_site(tmp_path) as made:
        yield made


def with_elements(*elements: bytes) -> Fault:
    """The first listing has these elements as well, in front of its own."""
    return Fault.replaced(
        lambda response: Response(200, b"[" + b",".join([*elements, response.body[1:]]), response.headers)
    )


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_record_costs_one_record_and_no_page(site: GitHubSite, kind: str) -> None:
    repository = site.github.create(NAME)
    repository.bulk(3)
    site.server.when(lambda request: request.path.endswith("/issues"), with_elements(HOSTILE[kind]))
    assert site.fetch().is_caught_up
    stored = site.stored()
    assert set(repository.entries) < set(stored)
    assert len(stored) == 4
    assert_still(site)


def test_all_hostile_records_in_one_page_cost_one_record_each(site: GitHubSite) -> None:
    repository = site.github.create(NAME)
    repository.bulk(3)
    site.server.when(lambda request: request.path.endswith("/issues"), with_elements(*HOSTILE.values()))
    assert site.sync().is_caught_up
    assert set(site.live()) >= {*repository.entries, *LIVE}
    assert len(site.live()) + len(site.rejects()) == len(HOSTILE) + 3
    assert not site.doubles()
    assert_still(site)


def assert_still(site: GitHubSite) -> None:
    again = site.fetch()
    assert (again.records_count, again.batches_count) == (0, 0)
