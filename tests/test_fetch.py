"""Laws 3 and 4: a cursor is durable with its records or not at all, and every interrupted fetch gets nearer."""

import json
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from ingestion.errors import ConfigurationError, ConnectorError, ScopeNotFoundError, TransientError
from ingestion.model import Account, Batch, Page, Record
from resources.append import BATCH_BYTES, Appender
from tests.scripted import EPOCH, Listed, Upstream, document, owning
from tests.support import SCOPE, SOURCE, Site

ALICE = Account("alice", is_authenticated=True)

FAULTS = {
    "down": TransientError("503"),
    "limited": TransientError("429", resumes_at=EPOCH),
    "revoked": ConfigurationError("401"),
    "defect": RuntimeError("a defect"),
    "interrupted": KeyboardInterrupt(),
}


def batches(site: Site, scope: str = SCOPE) -> list[Batch]:
    return list(site.raw_log.scope(SOURCE, scope).after(0))


def stored(site: Site) -> list[str]:
    """The ids in the raw log, as often as they stand there."""
    log = site.raw_log.scope(SOURCE, SCOPE)
    return [str(one) for batch in batches(site) for one in log.read(batch).column("source_id").to_pylist()]


def fill(upstream: Upstream, count: int) -> set[str]:
    names = [f"r{number:04d}" for number in range(count)]
    for name in names:
        upstream.put(name)
    return set(names)


def test_a_fetch_stores_everything_once_and_says_that_it_caught_up(tmp_path: Path) -> None:
    site = Site(tmp_path)
    names = fill(site.upstream, 10)
    fetched = site.fetch()
    assert fetched.is_caught_up
    assert (fetched.records_count, fetched.batches_count, fetched.requests_count) == (10, 1, 6)
    assert sorted(stored(site)) == sorted(names)


def test_a_fetch_that_brings_nothing_new_writes_nothing(tmp_path: Path) -> None:
    site = Site(tmp_path)
    fill(site.upstream, 10)
    first = site.fetch(take_census=True)
    before = batches(site)
    again = site.fetch(take_census=True)
    assert batches(site) == before
    assert (again.cursor, again.is_caught_up, again.batches_count) == (first.cursor, True, 0)


def test_an_empty_scope_is_caught_up_and_says_so_durably(tmp_path: Path) -> None:
    site = Site(tmp_path)
    assert site.fetch().is_caught_up
    assert [batch.is_caught_up for batch in batches(site)] == [True]
    site.fetch()
    assert len(batches(site)) == 1


@pytest.mark.parametrize("max_pages", [1, 2, 3, 4])
def test_every_budget_gets_nearer_until_it_is_caught_up(tmp_path: Path, max_pages: int) -> None:
    site = Site(tmp_path)
    names = fill(site.upstream, 10)
    seen = 0
    while not (fetched := site.fetch(max_pages=max_pages)).is_caught_up:
        assert fetched.records_count > 0
        assert len(stored(site)) > seen
        seen = len(stored(site))
        assert not batches(site)[-1].is_caught_up
    assert sorted(stored(site)) == sorted(names)
    assert batches(site)[-1].is_caught_up


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("has_details", [False, True], ids=["listing", "mid-page"])
def test_whatever_request_fails_the_next_fetch_continues(tmp_path: Path, fault: str, *, has_details: bool) -> None:
    site = Site(tmp_path)
    site.upstream.has_details = has_details
    names = fill(site.upstream, 8)
    requests_per_page = 1 + site.upstream.page_size * has_details
    for number in range(1_000):  # each request in turn fails once, in a fetch of its own
        site.upstream.faults = {number: FAULTS[fault]}
        before = len(stored(site))
        with suppress(type(FAULTS[fault])):
            site.fetch()
        if number > requests_per_page:
            assert len(stored(site)) > before or before == len(names)
        if site.upstream.faults:  # there are not so many requests: this fetch was whole
            break
    assert sorted(stored(site)) == sorted(names)
    assert batches(site)[-1].is_caught_up


def test_what_ends_a_fetch_is_raised_on_and_what_came_before_is_durable(tmp_path: Path) -> None:
    site = Site(tmp_path)
    fill(site.upstream, 8)
    for fault in (RuntimeError("first"), KeyboardInterrupt("second")):
        site.upstream.faults = {2: fault}
        with pytest.raises(type(fault), match=str(fault)):
            site.fetch()
    assert stored(site) == [f"r{number:04d}" for number in range(6)]
    assert [batch.is_caught_up for batch in batches(site)] == [False, False]


def test_a_rate_limit_is_no_failure_and_is_waited_for(tmp_path: Path) -> None:
    site = Site(tmp_path)
    names = fill(site.upstream, 8)
    resumes_at = site.now + timedelta(hours=1)
    site.upstream.faults = {3: TransientError("429", resumes_at=resumes_at)}
    limited = site.fetch()
    assert (limited.is_caught_up, limited.resumes_at, limited.records_count) == (False, resumes_at, 6)
    assert batches(site)[-1].resumes_at == resumes_at
    waiting = site.fetch()
    assert (waiting.requests_count, waiting.resumes_at, waiting.cursor) == (0, resumes_at, limited.cursor)
    site.now = resumes_at
    done = site.fetch()
    assert (done.is_caught_up, done.resumes_at) == (True, None)
    assert sorted(stored(site)) == sorted(names)


@pytest.mark.parametrize("has_log", [False, True])
def test_a_limit_that_ends_even_the_check_is_no_failure(tmp_path: Path, has_log: bool) -> None:  # noqa: FBT001 -- the case
    site = Site(tmp_path)
    fill(site.upstream, 8)
    if has_log:
        site.fetch()
    before = site.raw_log.scope(SOURCE, SCOPE).last()
    resumes_at = site.now + timedelta(hours=1)
    site.upstream.faults = {0: TransientError("429", resumes_at=resumes_at)}
    limited = site.fetch()
    assert (limited.is_caught_up, limited.resumes_at, limited.records_count) == (False, resumes_at, 0)
    assert (limited.requests_count, limited.cursor) == (1, before and before.cursor)
    newest = site.raw_log.scope(SOURCE, SCOPE).last()
    assert (newest and newest.resumes_at) == (resumes_at if has_log else None)
    assert (newest and newest.account) == (before and before.account)
    site.now = resumes_at
    assert site.fetch().is_caught_up


def test_a_rate_limit_of_the_first_request_is_waited_for_too(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.upstream.faults = {1: TransientError("429", resumes_at=site.now + timedelta(hours=1))}
    assert site.fetch().resumes_at
    assert site.fetch().requests_count == 0


def test_a_rate_limit_in_a_census_is_waited_for_and_tombstones_nothing(tmp_path: Path) -> None:
    site = Site(tmp_path)
    fill(site.upstream, 8)
    site.sync()
    site.upstream.delete("r0000")
    for number in (2, 3, 4, 5):  # the listing, its second and third page, the confirmation
        site.upstream.faults = {number: TransientError("429", resumes_at=site.now + timedelta(seconds=1))}
        assert site.census().resumes_at
        assert site.deleted() == set()
        site.now += timedelta(seconds=1)
    site.census()
    assert site.deleted() == {"r0000"}


def test_records_that_move_while_pages_are_read_all_arrive(tmp_path: Path) -> None:
    site = Site(tmp_path)
    fill(site.upstream, 12)

    def move(upstream: Upstream) -> None:
        """Send a record that was read, and one that was not, to the end: others shift across the page's border."""
        if upstream.requests <= 10:
            upstream.put(f"r{upstream.requests:04d}", owning(document(f"r{upstream.requests:04d}", "moved")))
            upstream.touch(f"r{11 - upstream.requests:04d}")

    site.upstream.before_request = move
    assert site.sync().is_caught_up
    truth = {item.source_id: json.loads(item.payload)["documents"][0]["content"] for item in site.upstream.visible()}
    assert site.live() == truth
    assert "moved" in truth.values()


def test_a_record_that_is_deleted_while_its_page_is_read_costs_nothing(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.upstream.has_details = True
    fill(site.upstream, 7)

    def delete(upstream: Upstream) -> None:
        """Between the listing and the record's own request."""
        if upstream.requests == 4:
            upstream.delete("r0001")

    site.upstream.before_request = delete
    site.sync(take_census=True)
    assert set(site.live()) == set(site.upstream.items) == {f"r{number:04d}" for number in (0, 2, 3, 4, 5, 6)}


@pytest.mark.parametrize("max_pages", [1, None])
def test_five_thousand_records_of_one_instant_all_arrive(tmp_path: Path, max_pages: int | None) -> None:
    site = Site(tmp_path)
    site.upstream.page_size = 700
    for number in range(5_000):
        site.upstream.put(f"r{number:04d}", at=EPOCH)
    while not site.fetch(max_pages=max_pages).is_caught_up:
        pass
    assert len(stored(site)) == len(set(stored(site))) == 5_000


def test_pages_full_of_skipped_records_move_the_cursor(tmp_path: Path) -> None:
    site = Site(tmp_path)
    for number in range(20):
        site.upstream.put(f"r{number:04d}", is_skipped=number not in {0, 19})
    cursors = []
    while not (fetched := site.fetch(max_pages=1)).is_caught_up:
        cursors.append(fetched.cursor)
    assert len(set(cursors)) == len(cursors) == 7
    assert stored(site) == ["r0000", "r0019"]


def test_a_process_killed_before_the_rename_leaves_the_cursor_where_it_was(tmp_path: Path) -> None:
    site = Site(tmp_path)
    names = fill(site.upstream, 6)
    first = site.fetch(max_pages=1)
    (batch,) = batches(site)
    whole = Path(batch.path).read_bytes()
    for torn in (b"", whole[:100], whole):
        Path(batch.path).with_name("next.tmp").write_bytes(torn)
        assert [one.cursor for one in batches(site)] == [first.cursor]
    site.fetch()
    assert not Path(batch.path).with_name("next.tmp").exists()
    assert sorted(stored(site)) == sorted(names)


def test_a_batch_that_cannot_be_written_moves_nothing(tmp_path: Path) -> None:
    site = Site(tmp_path)
    names = fill(site.upstream, 9)
    site.fetch(max_pages=1)
    obstacle = Path(batches(site)[0].path).with_name("next.tmp")
    obstacle.mkdir()
    with pytest.raises(OSError, match=r"next\.tmp"):
        site.fetch()
    assert len(batches(site)) == 1
    obstacle.rmdir()
    site.fetch()
    assert sorted(stored(site)) == sorted(names)


def test_each_batch_continues_from_the_one_before(tmp_path: Path) -> None:
    site = Site(tmp_path)
    fill(site.upstream, 9)
    while not site.fetch(max_pages=1).is_caught_up:
        pass
    found = batches(site)
    assert [batch.sequence for batch in found] == [1, 2, 3, 4]
    assert [batch.since for batch in found] == [None, *(batch.cursor for batch in found[:-1])]


def test_a_record_that_comes_again_unchanged_is_not_stored_again(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.upstream.put("a", at=EPOCH)
    site.fetch()
    log = site.raw_log.scope(SOURCE, SCOPE)
    appender = Appender(log, "complete", 1, ALICE, log.last(), site.clock)
    same, other = (Record("a", "note", owning(document("a", text)), updated_at=EPOCH) for text in ("text", "new"))
    assert appender.append([Page((same,), "1"), Page((other,), "2"), Page((other,), "3"), Page((same,), "4")])
    assert stored(site) == ["a", "a", "a"], "there and back again are two changes"
    assert (appender.records_count, appender.cursor) == (4, "4")


def test_records_come_again_for_another_version_of_the_mapping(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.upstream.put("a")
    site.fetch()
    log = site.raw_log.scope(SOURCE, SCOPE)
    record = Record("a", "note", site.upstream.items["a"].payload, updated_at=site.upstream.items["a"].updated_at)
    Appender(log, "complete", 2, ALICE, log.last(), site.clock).append([Page((record,), "1")])
    assert stored(site) == ["a", "a"]


def test_a_connector_that_stands_still_is_an_error_and_not_an_endless_loop(tmp_path: Path) -> None:
    site = Site(tmp_path)
    log = site.raw_log.scope(SOURCE, SCOPE)
    page = Page((Record("a", "note", b"{}"),), "1")
    with pytest.raises(ConnectorError, match="twice"):
        Appender(log, "complete", 1, ALICE, None, site.clock).append([page] * 1_000)
    assert stored(site) == ["a"]


def test_large_bodies_are_cut_into_several_batches(tmp_path: Path) -> None:
    site = Site(tmp_path)
    log = site.raw_log.scope(SOURCE, SCOPE)
    record = Record("0", "note", bytes(10_000_000))
    pages = [Page((replace(record, source_id=str(number)),), str(number)) for number in range(5)]
    Appender(log, "complete", 1, ALICE, None, site.clock).append(pages)
    assert sum(batch.records_count for batch in batches(site)) == 5
    assert all(batch.records_count * 10_000_000 < BATCH_BYTES + 10_000_000 for batch in batches(site))
    covered = 0
    for batch in batches(site):
        covered += batch.records_count
        assert batch.cursor == str(covered - 1)


def test_a_scope_that_is_not_there_costs_no_other(tmp_path: Path) -> None:
    site = Site(tmp_path)
    fill(site.upstream, 3)
    site.upstreams["other"] = Upstream()
    connector = site.connector
    del site.upstreams["other"]
    with pytest.raises(ScopeNotFoundError):
        connector.check("other")
    assert site.fetch().is_caught_up
    assert isinstance(connector, Listed)
