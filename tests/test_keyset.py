"""The walk over listings that move while they are read: nothing is lost, nothing comes again, and it ends."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestion.errors import ConnectorError, TransientError
from ingestion.model import Record
from resources.keyset import Fetch, Row, Window, interleaved

START = datetime(2024, 1, 1, tzinfo=UTC)
FOREVER = timedelta(days=30_000)


@dataclass(frozen=True, slots=True)
class Line:
    """A record of a listing; without a time it stands at the end."""

    name: str
    at: datetime | None
    change: int

    @property
    def place(self) -> tuple[datetime, str]:
        return self.at or START + 2 * FOREVER, self.name


Move = Callable[["Listing"], None]


@dataclass
class Listing:
    """A listing as most upstreams have it: sorted by time, then by name, `since` in whole seconds, pages by number."""

    size: int = 3
    lines: dict[str, Line] = field(default_factory=dict)
    now: datetime = START
    moves: Iterator[Iterable[Move]] = field(default_factory=lambda: iter(()))
    """What happens before each request."""
    is_by_name: bool = False
    """Sorted by name, the last one first, as what is created last comes first where the order is not ours to choose."""
    has_since: bool = True
    has_times: bool = True
    requests_count: int = 0
    changes_count: int = 0
    newest: datetime = START

    def put(self, name: str, at: datetime | None = None) -> None:
        self.changes_count += 1
        self.lines[name] = Line(name, at or self.now, self.changes_count)
        self.newest = max(self.newest, at or self.now) if at is None or at <= self.now else self.newest

    def put_without_time(self, name: str) -> None:
        self.put(name)
        self.lines[name] = replace(self.lines[name], at=None)

    def tick(self, seconds: float = 1) -> None:
        self.now += timedelta(seconds=seconds)

    def truth(self) -> dict[str, bytes]:
        return {line.name: payload(line) for line in self.lines.values()}

    def fetch(self, since: datetime | None, link: str | None) -> Window:
        for move in next(self.moves, ()):
            move(self)
        self.requests_count += 1
        assert self.requests_count < 2_000, "this never ends"
        asked, start = (json.loads(link)) if link else (since and f"{since:%Y-%m-%dT%H:%M:%S+00:00}", 0)
        lines = sorted(self.lines.values(), key=lambda line: line.place)
        if self.is_by_name:
            lines = sorted(self.lines.values(), key=lambda line: line.name, reverse=True)
        if asked and self.has_since:
            lines = [line for line in lines if line.at is None or line.at >= datetime.fromisoformat(asked)]
        end = start + self.size
        rows = [Row(record(line), line.at if self.has_times else None, payload(line)) for line in lines[start:end]]
        return Window(rows, json.dumps([asked, end]) if end < len(lines) else None, self.now)


def payload(line: Line) -> bytes:
    return json.dumps([line.name, str(line.at), line.change]).encode()


def record(line: Line) -> Record:
    return Record(line.name, "line", payload(line), updated_at=line.at)


@dataclass
class Reader:
    """Syncs listings, as far as a budget of pages goes, and keeps the newest form of each record by `listing/name`."""

    listings: Mapping[str, Fetch]
    cursor: str | None = None
    held: dict[str, bytes] = field(default_factory=dict)
    pages_count: int = 0

    def sync(self, max_pages: int | None = None) -> bool:
        """Read; tells whether the end was reached."""
        pages = interleaved(self.listings, self.cursor)
        count = 0
        for page in islice(pages, max_pages):
            count += 1
            self.held |= {one.source_id: one.payload for one in page.records}
            self.cursor = page.cursor
        self.pages_count += count
        return max_pages is None or count < max_pages

    def catch_up(self, max_pages: int | None = None) -> None:
        while not self.sync(max_pages):
            pass

    def lacks(self, listing: Listing) -> dict[str, bytes]:
        """What is there and not held in its newest form."""
        return {name: found for name, found in listing.truth().items() if self.held.get(name) != found}


def reader(listing: Listing) -> Reader:
    return Reader({"lines": listing.fetch})


def touch(number: int) -> Move:
    def move(listing: Listing) -> None:
        if listing.lines:
            listing.put(sorted(listing.lines)[number % len(listing.lines)])

    return move


def delete(number: int) -> Move:
    def move(listing: Listing) -> None:
        if listing.lines:
            del listing.lines[sorted(listing.lines)[number % len(listing.lines)]]

    return move


def insert(number: int) -> Move:
    return lambda listing: listing.put(f"{number:03d}")


def insert_late(number: int) -> Move:
    """A commit that comes late, at the newest second that was ever seen, anywhere among its ties."""
    return lambda listing: listing.put(f"{number:03d}", at=listing.newest)


def tick(tenths: int) -> Move:
    return lambda listing: listing.tick(tenths / 10)


names = st.integers(0, 999)
changes = st.one_of(st.builds(touch, names), st.builds(delete, names), st.builds(tick, st.sampled_from([3, 10, 4_000])))
# One a request, fewer than a page: if a whole page is inserted before the reader, the next page is the last one again.
arrivals = st.one_of(st.builds(insert, names), st.builds(insert_late, names))
scripts = st.lists(
    st.builds(lambda some, one: [*some, *one], st.lists(changes, max_size=6), st.lists(arrivals, max_size=1)),
    max_size=60,
)
sizes = st.integers(2, 4)
budgets = st.lists(st.sampled_from([None, 1, 2, 3]), min_size=1, max_size=5)
gaps = st.lists(st.sampled_from([0, 0, 0, 0, 3, 10, 4_000]), max_size=25)


def filled(size: int, gaps: Iterable[int], prefix: str = "") -> Listing:
    listing = Listing(size)
    for number, tenths in enumerate(gaps):
        listing.tick(tenths / 10)
        listing.put(f"{prefix}{number * 37 % 100:03d}")
    return listing


def assert_still(listing: Listing, read: Reader) -> None:
    """An unchanged listing yields nothing and leaves the cursor, at the cost of its last window."""
    before = read.cursor, read.pages_count
    listing.requests_count = 0
    assert read.sync()
    assert (read.cursor, read.pages_count) == before
    assert listing.requests_count <= max(1, -(-len(listing.lines) // listing.size))


@given(sizes, gaps, scripts, budgets, st.sampled_from([None, 1, 2]))
def test_nothing_is_lost_of_a_listing_in_order_of_time_however_it_moves(
    size: int, gaps: list[int], script: list[list[Move]], runs: list[int | None], last: int | None
) -> None:
    listing = filled(size, gaps)
    read = reader(listing)
    listing.moves = iter(script)
    for max_pages in runs:
        read.sync(max_pages)
    listing.moves = iter(())
    read.catch_up(last)
    assert not read.lacks(listing)
    assert_still(listing, read)


@given(sizes, gaps, st.lists(st.tuples(names, st.sampled_from([None, FOREVER])), max_size=8), scripts, budgets)
def test_records_without_a_time_or_with_one_in_the_far_future_hold_nothing_up(
    size: int,
    gaps: list[int],
    odd: list[tuple[int, timedelta | None]],
    script: list[list[Move]],
    runs: list[int | None],
) -> None:
    listing = filled(size, gaps)
    for number, ahead in odd:
        if ahead is None:
            listing.put_without_time(f"odd {number}")
        else:
            listing.put(f"odd {number}", at=listing.now + ahead)
    read = reader(listing)
    listing.moves = iter(script)
    for max_pages in runs:
        read.sync(max_pages)
    listing.moves = iter(())
    read.catch_up()
    # What stands at the end for ever is read to the end, twice if it moved: one more sync may bring what was missed.
    read.sync()
    assert not read.lacks(listing)
    assert_still(listing, read)


@given(sizes, gaps, st.booleans(), scripts, budgets)
def test_listings_that_know_no_time_or_ignore_since_are_read_whole(
    size: int,
    gaps: list[int],
    has_times: bool,  # noqa: FBT001  # drawn
    script: list[list[Move]],
    runs: list[int | None],
) -> None:
    listing = filled(size, gaps)
    listing.has_since, listing.has_times, listing.is_by_name = False, has_times, not has_times
    read = reader(listing)
    listing.moves = iter(script)
    for max_pages in runs:
        read.sync(max_pages)
    listing.moves = iter(())
    read.catch_up(1)
    read.sync()
    assert not read.lacks(listing)
    assert_still(listing, read)


def test_newest_first_although_asked_for_otherwise() -> None:
    listing = Listing(10, is_by_name=True)
    for number in range(35):
        listing.tick()
        listing.put(f"{number:03d}")
    read = reader(listing)
    read.catch_up(1)
    assert not read.lacks(listing)
    listing.tick()
    listing.put("003")
    read.sync()
    assert not read.lacks(listing)
    assert_still(listing, read)


def test_an_unchanged_listing_costs_one_request() -> None:
    listing = filled(10, [6_000] * 95)
    read = reader(listing)
    assert read.sync()
    assert listing.requests_count == 95 // 9 + 2
    listing.requests_count = 0
    assert read.sync()
    assert listing.requests_count == 1


def test_since_is_asked_for_in_whole_seconds_and_a_change_within_that_second_is_seen() -> None:
    listing = filled(3, [10, 3])
    read = reader(listing)
    read.sync()
    listing.put("late", at=listing.newest - timedelta(seconds=0.1))
    read.sync()
    assert not read.lacks(listing)
    assert_still(listing, read)


def test_changes_that_show_minutes_after_their_time_are_seen() -> None:
    listing = filled(10, [6_000] * 25)
    read = reader(listing)
    read.sync()
    for seconds in (1, 60, 299):
        listing.put(f"late {seconds}", at=listing.newest - timedelta(seconds=seconds))
        read.sync()
        assert not read.lacks(listing)
        assert_still(listing, read)


def test_an_empty_listing_and_one_that_is_emptied() -> None:
    listing = Listing()
    read = reader(listing)
    read.sync()
    assert_still(listing, read)
    for number in range(8):
        listing.put(f"{number}")
    read.sync()
    assert not read.lacks(listing)
    listing.lines.clear()
    read.sync()
    assert_still(listing, read)
    listing.put("1")
    read.sync()
    assert not read.lacks(listing)


def test_what_slips_past_the_reader_of_one_second_again_and_again_is_met_on_the_way_back() -> None:
    listing = Listing(3)
    for number in range(12):
        listing.put(f"{number:02d}")
    listing.tick()
    listing.put("end")
    leaving = iter(range(9))

    def a_page_leaves(one: Listing) -> None:
        for _ in range(3):
            one.put(f"{next(leaving):02d}")

    # The last of that second moves up a page, past three readings from the first page on, the second of four pages.
    listing.moves = iter([[a_page_leaves] if request in {4, 7, 9} else [] for request in range(20)])
    read = reader(listing)
    assert read.sync()
    assert not read.lacks(listing)


@pytest.mark.parametrize("max_pages", [1, 2, None])
def test_thousands_of_one_second_are_read_whatever_the_budget(max_pages: int | None) -> None:
    listing = Listing(100)
    for number in range(1_050):
        listing.put(f"{number:04d}")
    listing.tick()
    listing.put("after")
    read = reader(listing)
    read.catch_up(max_pages)
    assert not read.lacks(listing)
    assert read.pages_count <= 15
    assert_still(listing, read)


def test_a_reading_ends_although_the_world_never_stands_still() -> None:
    listing = filled(3, [10] * 12)
    listing.has_since = False
    listing.moves = iter([[tick(10), touch(number)] for number in range(1_000)])
    read = reader(listing)
    assert read.sync()
    listing.moves = iter(())
    read.sync()
    assert not read.lacks(listing)


@pytest.mark.parametrize("cycle", [1, 2, 3])
def test_pages_that_come_again_and_again_are_an_error(cycle: int) -> None:
    listing = filled(3, [0] * 9)
    pages = [listing.fetch(None, json.dumps([None, 3 * number])) for number in range(3)]
    asked = iter(range(100))

    def fetch(_since: datetime | None, _link: str | None) -> Window:
        number = next(asked)
        return replace(pages[number % cycle], next=f"page {number + 2}")

    with pytest.raises(ConnectorError, match="again and again"):
        Reader({"lines": fetch}).sync()


def test_listings_take_turns_so_that_a_budget_starves_none() -> None:
    sizes = {"large": 50, "small": 4, "empty": 0, "medium": 20}
    listings = {name: filled(5, [10] * count, name) for name, count in sizes.items()}
    read = Reader({name: one.fetch for name, one in listings.items()})
    runs = 0
    while not read.sync(1):
        runs += 1
        if runs == 8:  # two rounds, whatever is still to come of the largest
            assert not {name for name, one in listings.items() if one.requests_count == 0}
            assert not read.lacks(listings["small"])
    for one in listings.values():
        assert not read.lacks(one)
    # A run asks each listing again that has nothing: pages are budgeted, not requests.
    assert runs <= sum(-(-count // 4) + 2 for count in sizes.values())


def test_an_error_in_one_listing_keeps_what_the_others_gave_and_the_next_reading_goes_on() -> None:
    first, second = filled(3, [10] * 9, "a"), filled(3, [0] * 9, "b")
    failures = iter([TransientError("down")] * 2)

    def fetch(since: datetime | None, link: str | None) -> Window:
        if link and (failure := next(failures, None)):
            raise failure
        return second.fetch(since, link)

    read = Reader({"first": first.fetch, "second": fetch})
    for _ in range(2):
        with pytest.raises(TransientError, match="down"):
            read.sync()
    assert read.held
    read.catch_up()
    assert not read.lacks(first)
    assert not read.lacks(second)


def test_pages_that_hold_no_news_are_not_read_again_after_an_error() -> None:
    listing = Listing(3)
    for number in range(30):
        listing.put(f"{number:02d}")
    listing.tick()
    listing.put("end")
    allowed = 0

    def fetch(since: datetime | None, link: str | None) -> Window:
        if not allowed:
            raise TransientError("no more for now")
        return listing.fetch(since, link)

    def sparing(since: datetime | None, link: str | None) -> Window:
        nonlocal allowed
        window = fetch(since, link)
        allowed -= 1
        return window

    read = Reader({"lines": sparing})
    runs, is_caught_up = 0, False
    while not is_caught_up:
        runs, allowed = runs + 1, 3
        with suppress(TransientError):
            is_caught_up = read.sync()
    assert not read.lacks(listing)
    # One page to begin with, eleven on the way there, ten on the way back, and what is after them.
    assert listing.requests_count <= 25
    assert runs == -(-listing.requests_count // 3)


def test_a_listing_that_is_new_to_a_cursor_is_read_from_its_beginning() -> None:
    old, new = filled(3, [10] * 7, "a"), filled(3, [10] * 5, "b")
    read = Reader({"old": old.fetch})
    read.sync()
    read.listings = {"old": old.fetch, "new": new.fetch}
    old.requests_count = 0
    read.sync()
    assert not read.lacks(new)
    assert old.requests_count == 1
    read.listings = {"new": new.fetch}
    assert_still(new, read)


def test_a_stored_link_that_has_expired_costs_a_reading_and_nothing_else() -> None:
    listing = Listing()
    for number in range(10):
        listing.put(f"{number:03d}", at=START)
    one = reader(listing)
    one.sync(max_pages=2)
    assert "next" in json.loads(one.cursor or "")["lines"]
    stale = True

    def fetch(since: datetime | None, link: str | None) -> Window:
        if stale and link:
            raise ConnectorError("422 the cursor has expired")
        return listing.fetch(since, link)

    one.listings = {"lines": fetch}
    with pytest.raises(ConnectorError, match="expired"):  # links that never work are another matter
        one.sync()
    stale = False
    one.catch_up()
    assert one.lacks(listing) == {}
