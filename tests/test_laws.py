"""Laws 1 to 6 together: a source that changes, fails and misbehaves at random, against the plain truth upstream."""

import json
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from ingestion.errors import ConfigurationError, TransientError
from ingestion.model import ANONYMOUS
from resources import load as loading
from tests.scripted import EPOCH, KINDS, Bend, Complete, Enumerated, Item, Upstream, document, owning
from tests.support import SCOPE, Options, Rows, Site

NAMES = [f"r{number}" for number in range(8)]
TEXTS = ["one", "two", "three"]

BENDS: dict[str, Bend] = {
    "truncated": lambda ids: islice(ids, 2),
    "empty": lambda _ids: iter(()),
    "first one missed": lambda ids: islice(ids, 1, None),
}

FAULTS: dict[str, Callable[[], BaseException]] = {
    "down": lambda: TransientError("503"),
    "limited": lambda: TransientError("429", resumes_at=EPOCH),
    "revoked": lambda: ConfigurationError("401"),
    "defect": lambda: RuntimeError("a defect"),
    "interrupted": KeyboardInterrupt,
}


@dataclass(frozen=True)
class Shape:
    """What a record is: the documents that it owns, and whether it can be mapped."""

    text: str
    comments: int
    behaviour: str

    def payload(self, name: str) -> bytes:
        own = document(name, self.text, tags=[f"text:{self.text}"])
        comments = [document(f"{name}/{number}", f"{self.text} {number}") for number in range(self.comments)]
        match self.behaviour:
            case "raises":
                return owning(own, *comments, raise_="value")
            case "fails a check":
                return owning(own, *comments, document(f"{name}/bad", url="nowhere"))
        return owning(own, *comments)


shapes = st.builds(
    Shape, st.sampled_from(TEXTS), st.integers(0, 2), st.sampled_from(["passes"] * 4 + ["raises", "fails a check"])
)


class World(RuleBasedStateMachine):
    """What an upstream and its operator do, in any order; `complete` has all of the contract."""

    kind: type[Enumerated] = Complete

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="tributary-law-"))
        self.site = Site(self.folder, self.kind)
        self.upstream.page_size = 2
        self.gone: dict[str, Item] = {}
        self.taken_away: set[str] = set()
        """Documents that were ever gone upstream: all others must never be tombstoned."""
        self.loads: dict[object, Rows] = {}
        """What was live after each load, by the time of the load."""

    @property
    def upstream(self) -> Upstream:
        return self.site.upstream

    # What happens upstream

    @initialize(names=st.sets(st.sampled_from(NAMES)), shape=shapes)
    def begin(self, names: set[str], shape: Shape) -> None:
        for name in sorted(names):
            self.change(name, shape)

    @rule(name=st.sampled_from(NAMES), shape=shapes)
    def change(self, name: str, shape: Shape) -> None:
        """Create, change or bring back a record, as every feed of changes shows it."""
        before = self.owned(name)
        self.gone.pop(name, None)
        self.upstream.put(name, shape.payload(name), is_private=name == NAMES[-1])
        self.taken_away |= before - self.owned(name)

    @precondition(lambda self: self.upstream.items)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.upstream.items)))
        self.taken_away |= self.owned(name)
        (self.gone[name],) = self.upstream.delete(name)

    @precondition(lambda self: self.gone)
    @rule(data=st.data())
    def come_back_unchanged(self, data: st.DataObject) -> None:
        """No feed shows this; a census does, but without `get` it can only bring back the form that we have."""
        name = data.draw(st.sampled_from(sorted(self.gone)))
        self.upstream.restore([self.gone.pop(name)])
        if self.kind is Enumerated and (self.refused(name) or self.held(name) != self.told(name)):
            self.upstream.touch(name)

    # What we do

    @rule(
        max_pages=st.sampled_from([None, None, 1, 2]),
        fault=st.sampled_from([None, None, *FAULTS]),
        request=st.integers(0, 6),
        mover=st.sampled_from([None, None, *NAMES]),
    )
    def fetch(self, max_pages: int | None, fault: str | None, request: int, mover: str | None) -> None:
        if fault:
            self.upstream.faults = {request: FAULTS[fault]()}
        if mover:
            self.upstream.before_request = lambda upstream: self.move(upstream, mover)
        self.attempt(max_pages=max_pages)

    @rule(
        bend=st.sampled_from([None, None, *BENDS]),
        fault=st.sampled_from([None, None, *FAULTS]),
        request=st.integers(0, 9),
        is_anonymous=st.booleans(),
    )
    def census(self, bend: str | None, fault: str | None, request: int, *, is_anonymous: bool) -> None:
        """Take a census, which may be short, fail, or be answered as to a stranger from some request on."""
        if bend:
            self.upstream.bend_census = BENDS[bend]
        if fault and not is_anonymous:
            self.upstream.faults = {request: FAULTS[fault]()}
        if is_anonymous:
            self.upstream.before_request = lambda upstream: self.downgrade(upstream, request)
        self.attempt(take_census=True, brake_ids=2)
        if is_anonymous:  # the feed, read as a stranger, moved past changes of private records: only a new one shows
            for name in [item.source_id for item in self.upstream.items.values() if item.is_private]:
                self.upstream.touch(name)

    @rule()
    def load(self) -> None:
        self.site.load()
        self.look()

    @rule()
    def publish(self) -> None:
        self.site.publish()

    @rule()
    def replay(self) -> None:
        """Law 2, wherever we are."""
        self.site.load()
        before = self.site.tables()
        self.site.replay()
        assert self.site.tables() == before

    @rule()
    def converge(self) -> None:
        """Let everything be well, once: then we hold exactly what exists."""
        self.upstream.calm()
        for _ in range(1 if self.kind is Complete else 2):
            while not (fetched := self.site.census(approve_deletions=True)).is_caught_up:
                assert fetched.records_count > 0
        self.look()
        names = set(self.upstream.items)
        refused = {name for name in names if self.refused(name)}
        assert set(self.site.rejects()) == refused
        live = self.site.live()
        truth = {key: text for name in names - refused for key, text in self.told(name).items()}
        assert {key: text for key, text in live.items() if key.partition("/")[0] not in refused} == truth
        records = self.site.query("SELECT source_id FROM records WHERE deleted_at IS NULL")
        assert {row[0] for row in records} == names
        assert self.site.query("SELECT live_records_count = upstream_count FROM sync_status") in ([(True,)], [(None,)])
        assert not self.site.query("FROM sync_status WHERE is_census_held OR NOT is_caught_up")
        self.site.load()  # law 1: nothing is pending
        assert self.site.load() == []

    def teardown(self) -> None:
        try:
            self.converge()
            self.replay()
            for instant, rows in self.loads.items():
                assert self.site.query(AS_OF, instant) == rows
        finally:
            self.site.close()
            shutil.rmtree(self.folder)

    # What we know of the truth

    def attempt(self, **options: object) -> None:
        """Fetch, whatever comes of it: it never loses and never doubles."""
        asked: Options = options  # type: ignore[assignment]
        with suppress(TransientError, ConfigurationError, RuntimeError, KeyboardInterrupt):
            self.site.fetch(**asked)
        self.upstream.calm()

    def look(self) -> None:
        """What must be so after every load."""
        assert self.site.doubles() == []
        if self.kind is Complete:  # without `get`, two equally short censuses cannot be told from a deletion
            assert self.site.deleted() <= self.taken_away
        self.loads[self.site.clock()] = self.site.query("SELECT doc_id, content, tags FROM documents ORDER BY ALL")

    def owned(self, name: str) -> set[str]:
        return set(self.told(name)) if name in self.upstream.items else set()

    def told(self, name: str) -> dict[str, str]:
        told = json.loads(self.upstream.items[name].payload)
        return {one["source_id"]: one["content"] for one in told["documents"]}

    def held(self, name: str) -> dict[str, str]:
        self.site.load()
        sql = (
            "SELECT source_id, content FROM documents_all WHERE record_id = $1 AND deletion_reason IS DISTINCT FROM $2"
        )
        return dict(self.site.query(sql, name, "record"))

    def refused(self, name: str) -> bool:
        payload = self.upstream.items[name].payload
        return b'"raise"' in payload or b"nowhere" in payload

    @staticmethod
    def move(upstream: Upstream, name: str) -> None:
        if name in upstream.items and upstream.requests < 6:
            upstream.touch(name)

    @staticmethod
    def downgrade(upstream: Upstream, request: int) -> None:
        if upstream.requests > request:
            upstream.account = ANONYMOUS


class WorldWithoutGet(World):
    kind = Enumerated


AS_OF = "SELECT doc_id, content, tags FROM documents_as_of($1) ORDER BY ALL"

TestWorld = World.TestCase
TestWorldWithoutGet = WorldWithoutGet.TestCase
TestWorld.settings = TestWorldWithoutGet.settings = settings(
    max_examples=settings().max_examples // 6, stateful_step_count=15
)


def several_scopes(folder: Path) -> Site:
    """A site with a raw log of three scopes, several batches each, of every kind; nothing of it is loaded."""
    site = Site(folder)
    for number, scope in enumerate((SCOPE, "b", "C")):
        upstream = site.upstreams.setdefault(scope, Upstream(page_size=2))
        for name in NAMES:
            upstream.put(name, Shape(TEXTS[number], number, "passes").payload(name))
        upstream.put("bad", Shape("one", 1, "raises").payload("bad"))
        while not site.fetch(scope, max_pages=2).is_caught_up:
            pass
        gone = upstream.delete(NAMES[0], NAMES[1])
        upstream.put(NAMES[2], Shape("changed", 0, "passes").payload(NAMES[2]))
        site.fetch(scope, take_census=True)
        upstream.restore(gone[:1])
        upstream.put("bad", Shape("one", 1, "passes").payload("bad"))
        upstream.put(NAMES[3], Shape("half", 1, "fails a check").payload(NAMES[3]))
        site.fetch(scope, take_census=True)
    return site


def test_loading_twice_is_loading_once(tmp_path: Path) -> None:
    site = several_scopes(tmp_path)
    assert len(site.load()) > 12
    once = site.tables()
    assert site.load() == []
    assert site.tables() == once
    for scope in site.upstreams:
        site.fetch(scope, take_census=True)
    assert site.load() == []
    assert site.tables() == once


def test_any_grouping_of_scopes_and_any_interruption_give_the_same_tables(tmp_path: Path) -> None:
    site = several_scopes(tmp_path)
    site.load()
    together = site.tables()

    def some(count: int) -> None:
        """Load, but leave off early: what was not committed by then is not there."""
        pending = loading.load(site.connection, site.raw_log, KINDS, site.warehouse.attachments)
        for _ in islice(pending, count):
            pass

    @settings(max_examples=settings().max_examples // 10)
    @given(limits=st.lists(st.integers(1, 12), max_size=3), counts=st.lists(st.integers(0, 9), max_size=3))
    def check(limits: list[int], counts: list[int]) -> None:
        site.close()
        site.warehouse.drop()
        with pytest.MonkeyPatch.context() as patch:
            for limit in limits:
                patch.setattr(loading, "WAVE_RECORDS", limit)
                for count in counts:
                    some(count)
        site.load()
        assert site.tables() == together

    check()


def test_the_order_of_independent_scopes_does_not_matter(tmp_path: Path) -> None:
    sites = [Site(tmp_path / name) for name in ("one", "two")]
    for site, scopes in zip(sites, (("a", "b"), ("b", "a")), strict=True):
        for scope in ("a", "b"):  # fetched alike
            site.upstreams[scope] = Upstream()
            site.upstreams[scope].put("same", owning(document("same", scope)))
            site.fetch(scope)
        for scope in scopes:  # loaded in another order: the other scope is not there yet
            others = site.folder / "raw" / "source" / scopes[1 - scopes.index(scope)]
            aside = site.folder / "aside"
            if scope == scopes[0]:
                others.rename(aside)
            site.load()
            if scope == scopes[0]:
                aside.rename(others)
    assert sites[0].tables() == sites[1].tables()
