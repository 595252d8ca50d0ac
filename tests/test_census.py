"""Law 5: absence alone deletes nothing; a real deletion is seen, kept and revived; a census heals both ways."""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest

from ingestion.census import Finding, held_because
from ingestion.errors import ConfigurationError, TransientError
from ingestion.model import ANONYMOUS
from tests.scripted import EPOCH, REFUSED, Complete, Enumerated, Listed, Upstream, document, owning
from tests.support import SCOPE, SOURCE, Site


def filled(folder: Path, kind: type[Listed] = Complete, count: int = 30) -> Site:
    """A site that holds `count` records, of which the first ten are private, after a first census."""
    site = Site(folder, kind)
    site.upstream.page_size = 10
    for number in range(count):
        site.upstream.put(f"r{number:04d}", is_private=number < 10)
    site.census()
    assert len(site.live()) == count
    return site


def interrupt(ids: Iterator[str]) -> Iterator[str]:
    yield from islice(ids, 5)
    raise TransientError("503")


def refuse(ids: Iterator[str]) -> Iterator[str]:
    yield from islice(ids, 5)
    raise ConfigurationError("403 on one part")


BENDS: dict[str, Callable[[Iterator[str]], Iterator[str]]] = {
    "raises midway": interrupt,
    "refused midway": refuse,
    "truncated at a page limit": lambda ids: islice(ids, 10),
    "truncated a little": lambda ids: islice(ids, 28),
    "empty": lambda _ids: iter(()),
    "one id shifted over a border": lambda ids: (one for one in ids if one != "r0011"),
    "each id twice": lambda ids: (twice for one in ids for twice in (one, one)),
}


@pytest.mark.parametrize("kind", [Complete, Enumerated])
@pytest.mark.parametrize("bend", BENDS)
def test_no_short_census_tombstones(tmp_path: Path, bend: str, kind: type[Listed]) -> None:
    site = filled(tmp_path, kind)
    site.upstream.bend_census = BENDS[bend]
    try:
        site.census()
    except (TransientError, ConfigurationError):
        site.load()
    assert site.deleted() == set()
    assert len(site.live()) == 30
    site.upstream.calm()
    site.census()
    assert site.deleted() == set()
    assert site.query("SELECT is_census_held, missing_count FROM sync_status") == [(False, 0)]


@pytest.mark.parametrize("kind", [Complete, Enumerated])
def test_a_downgraded_account_fetches_nothing(tmp_path: Path, kind: type[Listed]) -> None:
    """It would move the cursor past every private change, and miss 10 of 200, which the brake lets pass."""
    site = filled(tmp_path, kind, count=200)
    site.upstream.account = ANONYMOUS
    site.upstream.put("r0000", owning(document("r0000", "changed")), is_private=True)
    site.upstream.put("later")
    with pytest.raises(ConfigurationError, match="answered as anonymous, while alice fetched before"):
        site.census()
    site.upstream.account = "alice"
    site.census()
    assert (len(site.live()), site.live()["r0000"], site.deleted()) == (201, "changed", set())


@pytest.mark.parametrize("kind", [Complete, Enumerated])
def test_another_account_tombstones_nothing(tmp_path: Path, kind: type[Listed]) -> None:
    site = filled(tmp_path, kind, count=200)
    site.upstream.account = "bob"  # who does not see 10 of 200, which the brake lets pass
    for _ in range(3):
        summary = site.census().census
        assert summary
        assert summary.is_held
        assert "bob" in summary.reason
    assert site.deleted() == set()
    site.upstream.calm()
    site.census()
    assert (len(site.live()), site.deleted()) == (200, set())


def test_a_source_may_become_anonymous_when_it_is_meant(tmp_path: Path) -> None:
    site = filled(tmp_path, count=30)
    site.upstream.account = ANONYMOUS
    site.census(approve_deletions=True)
    site.census()
    assert len(site.deleted()) == 10


@pytest.mark.parametrize("kind", [Complete, Enumerated])
def test_an_account_that_missed_nothing_once_is_not_trusted_with_what_another_fetched(
    tmp_path: Path, kind: type[Listed]
) -> None:
    site = Site(tmp_path, kind)
    for number in range(30):
        site.upstream.put(f"r{number:04d}")
    site.census()
    site.upstream.account = "bob"
    site.census()
    site.upstream.account = "alice"
    site.upstream.put("private", is_private=True)
    site.sync()
    site.upstream.account = "bob"
    site.upstream.put("public")
    site.census()
    site.census()
    assert site.deleted() == set()


@pytest.mark.parametrize("kind", [Complete, Enumerated])
def test_a_token_that_expires_before_the_census_tombstones_nothing(tmp_path: Path, kind: type[Listed]) -> None:
    site = filled(tmp_path, kind, count=200)

    def expire(upstream: Upstream) -> None:
        if upstream.requests > 2:  # after the check and the listing of changes
            upstream.account = ANONYMOUS

    for _ in range(2):
        site.upstream.account = "alice"
        site.upstream.before_request = expire
        site.census()
    assert site.deleted() == set()


def test_three_of_a_thousand_that_are_gone_are_tombstoned_and_return(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.upstream.page_size = 100
    for number in range(1_000):
        site.upstream.put(f"r{number:04d}")
    site.census()
    gone = site.upstream.delete("r0003", "r0500", "r0999")
    summary = site.census().census
    assert summary
    assert (summary.live_count, summary.missing_count, summary.gone_count) == (997, 3, 3)
    assert site.deleted() == {"r0003", "r0500", "r0999"}
    assert len(site.live()) == 997
    found = site.query("SELECT deletion_reason, content FROM documents_all WHERE is_deleted")
    assert found == [("census", "text")] * 3
    site.upstream.restore(gone[:2])  # as they were: no feed of changes shows them
    site.upstream.put("r0999", owning(document("r0999", "changed")))
    site.census()
    assert site.deleted() == set()
    assert len(site.live()) == 1_000
    assert site.live()["r0999"] == "changed"
    forms = "SELECT count(*), count(deleted_at), count(valid_to) FROM document_versions WHERE source_id = 'r0003'"
    assert site.query(forms) == [(2, 1, 1)]


def test_without_get_a_second_census_confirms(tmp_path: Path) -> None:
    site = filled(tmp_path, Enumerated)
    gone = site.upstream.delete("r0020", "r0021")
    site.census()
    assert site.deleted() == set()
    site.upstream.restore(gone[:1])
    site.upstream.delete("r0022")
    site.census()
    assert site.deleted() == {"r0021"}, "r0020 was there again, r0022 is missing for the first time"
    site.census()
    assert site.deleted() == {"r0021", "r0022"}
    site.upstream.restore(gone)
    site.census()
    assert site.deleted() == {"r0022"}
    assert site.live()["r0021"] == "text"


def test_without_a_census_nothing_is_tombstoned(tmp_path: Path) -> None:
    site = Site(tmp_path, Listed)
    site.upstream.put("a")
    site.upstream.put("b")
    site.sync()
    site.upstream.delete("a")
    assert site.census().census is None
    assert set(site.live()) == {"a", "b"}


def test_a_census_fetches_what_we_lack(tmp_path: Path) -> None:
    site = filled(tmp_path)
    site.upstream.put("late", owning(document("late", "committed late")), at=EPOCH)  # behind the cursor
    site.sync()
    assert "late" not in site.live()
    site.census()
    assert site.live()["late"] == "committed late"


def test_a_census_clears_a_false_tombstone(tmp_path: Path) -> None:
    site = filled(tmp_path)
    hidden = site.upstream.delete("r0001")  # even `get` said that it is gone
    site.census()
    assert site.deleted() == {"r0001"}
    site.upstream.restore(hidden)
    site.census()
    assert site.deleted() == set()


@pytest.mark.parametrize("kind", [Complete, Enumerated])
@pytest.mark.parametrize("gone_count", [21, 30], ids=["over the brake", "all"])
def test_the_brake_holds_until_it_is_approved(tmp_path: Path, kind: type[Listed], gone_count: int) -> None:
    site = filled(tmp_path, kind)
    site.upstream.delete(*sorted(site.upstream.items)[:gone_count])
    for _ in range(3):
        summary = site.census().census
        assert summary
        assert (summary.is_held, summary.missing_count, summary.gone_count) == (True, gone_count, 0)
    assert site.deleted() == set()
    ((held, reason),) = site.query("SELECT is_census_held, census_reason FROM sync_status")
    assert held
    assert reason.startswith(f"{gone_count} of 30 are missing" if gone_count < 30 else "empty")
    approved = site.census(approve_deletions=True).census
    assert approved
    assert (approved.is_held, approved.is_approved, approved.gone_count) == (False, True, gone_count)
    assert len(site.deleted()) == gone_count
    assert site.query("SELECT is_census_held FROM sync_status") == [(False,)]


def test_a_held_census_that_says_nothing_new_writes_nothing(tmp_path: Path) -> None:
    site = filled(tmp_path)
    site.upstream.delete(*sorted(site.upstream.items)[:25])
    counts = [site.census().batches_count for _ in range(3)]
    assert counts == [1, 0, 0]


def test_a_held_census_still_fetches_what_we_lack(tmp_path: Path) -> None:
    site = filled(tmp_path)
    site.upstream.delete(*sorted(site.upstream.items)[:25])
    site.upstream.put("late", at=EPOCH)
    site.census()
    assert "late" in site.live()
    assert len(site.live()) == 31


def test_a_scope_that_is_not_caught_up_takes_no_census(tmp_path: Path) -> None:
    site = filled(tmp_path)
    for number in range(30):
        site.upstream.put(f"new{number:04d}")
    site.upstream.delete("r0000")
    assert site.census(max_pages=1).census is None
    assert site.deleted() == set()
    assert len(site.live()) == 40


def test_the_documents_of_a_record_that_is_gone_are_tombstoned_and_revived_with_it(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.upstream.put("issue", owning(document("issue"), document("comment-1"), document("comment-2")))
    site.upstream.put("other")
    site.census()
    site.upstream.put("issue", owning(document("issue"), document("comment-2")))
    site.sync()
    assert site.deleted() == {"comment-1"}
    gone = site.upstream.delete("issue")
    site.census()
    assert site.deleted() == {"issue", "comment-1", "comment-2"}
    reasons = site.query("SELECT source_id, deletion_reason FROM documents_all WHERE is_deleted ORDER BY ALL")
    assert reasons == [("comment-1", "record"), ("comment-2", "census"), ("issue", "census")]
    site.upstream.restore(gone)
    site.census()
    assert site.deleted() == {"comment-1"}


def test_without_get_a_record_that_is_back_brings_only_what_went_with_it(tmp_path: Path) -> None:
    site = Site(tmp_path, Enumerated)
    site.upstream.put("issue", owning(document("issue"), document("comment")))
    site.upstream.put("other")
    site.census()
    site.upstream.put("issue", owning(document("issue")))
    site.sync()
    gone = site.upstream.delete("issue")
    site.census()
    site.census()
    assert site.deleted() == {"issue", "comment"}
    site.upstream.restore(gone)
    site.census()
    assert site.deleted() == {"comment"}
    assert site.doubles() == []


def test_the_only_changed_record_may_be_the_one_that_a_census_misses(tmp_path: Path) -> None:
    site = filled(tmp_path)
    site.upstream.put("r0011", owning(document("r0011", "changed")))
    site.upstream.bend_census = BENDS["one id shifted over a border"]
    site.census()
    assert site.live()["r0011"] == "changed"
    assert site.deleted() == set()


@pytest.mark.parametrize("source_id", ["nul \0 nul", "lone \udc80 surrogate", "emoji \U0001f600", "قائمة", "a" * 3_000])
def test_a_hostile_id_is_the_same_in_pages_and_census(tmp_path: Path, source_id: str) -> None:
    site = filled(tmp_path)
    site.upstream.put(source_id)
    site.census()
    assert len(site.live()) == 31
    site.census()
    assert site.deleted() == set()
    site.upstream.delete(source_id)
    site.census()
    assert len(site.deleted()) == 1


def test_a_refused_record_that_is_gone_leaves_the_rejects(tmp_path: Path) -> None:
    site = filled(tmp_path)
    site.upstream.put("r0001", REFUSED)
    site.upstream.put("never good", REFUSED)
    site.census()
    assert set(site.rejects()) == {"r0001", "never good"}
    assert "r0001" in site.live()
    gone = site.upstream.delete("r0001", "never good")
    site.census()
    assert site.rejects() == {}
    assert site.deleted() == {"r0001"}
    site.upstream.restore(gone)
    site.census()
    assert set(site.rejects()) == {"r0001", "never good"}


def test_what_the_snapshot_holds_and_what_followed_it_are_one(tmp_path: Path) -> None:
    site = filled(tmp_path)
    site.publish()
    site.upstream.put("new")
    site.fetch()  # neither loaded nor published: the raw log alone knows
    site.upstream.delete("new", "r0000")
    site.fetch(take_census=True)
    gone = site.fetch(take_census=True)
    assert gone.census
    assert gone.census.missing_count == 0, "what the log says to be gone is not missed again"
    site.load()
    assert site.deleted() == {"new", "r0000"}
    site.publish()
    site.upstream.put("newer")
    site.census()
    assert site.deleted() == {"new", "r0000"}
    assert "newer" in site.live()


def test_scopes_are_counted_apart(tmp_path: Path) -> None:
    site = filled(tmp_path)
    site.upstreams["other"] = Upstream()
    site.upstreams["other"].put("r0000")
    site.sync("other", take_census=True)
    site.upstreams["other"].delete("r0000")
    site.sync("other", take_census=True, approve_deletions=True)
    assert site.query("SELECT scope FROM documents_all WHERE is_deleted") == [("other",)]
    assert len(site.live()) == 30


def test_verdicts_are_what_the_log_keeps_of_a_census(tmp_path: Path) -> None:
    site = filled(tmp_path)
    site.upstream.delete("r0020")
    site.census()
    log = site.raw_log.scope(SOURCE, SCOPE)
    last = log.last()
    assert last
    assert log.read(last).to_pylist() == [{"source_id": "r0020", "verdict": "gone"}]


@pytest.mark.parametrize(
    ("finding", "held"),
    [
        (Finding(0, 0, 0, "a", None), ""),
        (Finding(0, 5, 5, "a", "a"), "empty"),
        (Finding(80, 100, 20, "a", "a"), ""),
        (Finding(79, 100, 21, "a", "a"), "21 of 100"),
        (Finding(900, 1000, 100, "a", "a"), ""),
        (Finding(899, 1000, 101, "a", "a"), "101 of 1000"),
        (Finding(99, 100, 1, "b", "a"), "taken as b"),
        (Finding(99, 100, 1, "a", None), ""),
        (Finding(100, 100, 0, "b", "a"), ""),
    ],
)
def test_the_brake_lets_pass_the_greater_of_ids_and_share(finding: Finding, held: str) -> None:
    reason = held_because(finding, brake_ids=20, brake_share=0.1)
    assert reason.startswith(held)
    assert bool(reason) == bool(held)
