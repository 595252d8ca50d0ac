"""Reads listings that move while they are read: what changed since a cursor, without a gap and without an end.

A listing sorted by the time of change is read by its key: after each page the next is asked for as "changed since the
last one seen", never as "page 2", for a record that changes meanwhile moves to the end and shifts all others across
the page's border. Page 2 is asked for only where the key cannot move. Many records of one instant are read by their
links to where a later one stands, and then back to the first page: records that change meanwhile shift the others
towards the beginning, so that whatever slipped past on the way there is met on the way back. A listing without times,
or one whose upstream ignores the order asked for, is read by its links to its end, again until two readings agree.
What each page held is remembered in short, so that an unchanged listing yields nothing.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import pairwise

from ingestion.errors import ConnectorError, TributaryError
from ingestion.model import Page, Record

_MAX_READINGS = 3
"""Of one window: a record that is missed in one reading, at a moved border, is elsewhere in the next."""
_LATE = timedelta(minutes=5)
"""A listing that is read to its end is read again from so long before: some changes show later than their time says."""
_AHEAD = timedelta(days=1)
"""A time further in the future is a mistake: a cursor there would never see anything again."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a listing."""

    record: Record
    at: datetime | None
    """When it changed last; None where the listing does not say."""
    essence: bytes
    """What of it has to be the same for the record to be unchanged: mostly its payload."""


@dataclass(frozen=True, slots=True)
class Window:
    """One page as the upstream gave it."""

    rows: Sequence[Row]
    next: str | None
    """Where its next page is, None at the end."""
    now: datetime
    """The upstream's clock."""


Fetch = Callable[[datetime | None, str | None], Window]
"""Ask for what changed at or after an instant (None: ever), or for the page behind a link of such an answer."""


@dataclass(frozen=True, slots=True)
class Position:
    """How far a listing is read. `at` alone is the key; the rest says where we are among the pages of one window."""

    at: datetime | None = None
    """Everything that changed before this is stored."""
    marks: tuple[str, ...] = ()
    """What each page of the window from `at` held when it was last read whole."""
    walked: tuple[str, ...] = ()
    """The same for the pages of the present reading."""
    next: str | None = None
    """The page to be read next; None: the first."""
    readings: int = 0
    """Whole readings of this window that differed from the one before."""
    high: datetime | None = None
    """The latest time in the window, where its order is not that of time."""
    behind: tuple[str | None, ...] = ()
    """The pages of the present reading before this one, by what `next` was for each."""
    then: datetime | None = None
    """Where to go on when the way back ends, on which we are; None on the way there."""


def walk(fetch: Fetch, position: Position) -> Iterator[tuple[list[Record], Position]]:
    """Yield new records with the position that is true once they are stored; ends when nothing is left.

    Raises:
        ConnectorError: the upstream sends the same page again and again.
    """
    stored = position
    window, position = _resumed(fetch, position)
    while True:
        key = _next_key(window, position)
        if key is not None and window.next and position == Position(position.at):  # the way of nearly every page
            is_news, following, is_end = True, Position(key), False
        else:
            is_news, following, is_end = _compared(window, position, key)
        if is_news or (is_end and following != stored):
            yield [row.record for row in window.rows] if is_news else [], following
            stored = following
        if is_end:
            return
        position = following
        try:
            window = fetch(position.at, position.next)
        except TributaryError:
            if position != stored:  # what was read and held no news need not be read again
                yield [], position
            raise


def _resumed(fetch: Fetch, position: Position) -> tuple[Window, Position]:
    """Go on where a cursor says; where its link has expired since, at the beginning of its window."""
    try:
        return fetch(position.at, position.next), position
    except ConnectorError:
        if position.next is None:
            raise
        position = Position(position.at, marks=position.marks)
        return fetch(position.at, None), position


def _compared(window: Window, position: Position, key: datetime | None) -> tuple[bool, Position, bool]:
    """Say whether a page has news against what it held before, what follows, and whether it is the end."""
    mark = _mark(window.rows)
    if position.then is not None:
        return mark != position.walked[-1], _back(position, position.then), False
    if window.rows and mark in position.walked:
        raise ConnectorError("the upstream sends one page again and again: it would never end")
    is_news = position.marks[len(position.walked) :][:1] != (mark,)
    return is_news, *_onward(replace(position, walked=(*position.walked, mark)), window, key)


def _onward(here: Position, window: Window, key: datetime | None) -> tuple[Position, bool]:
    """Give the position after a page, and whether that is the end of the listing."""
    if key is not None:
        return _back(here, key), False
    here = replace(here, high=_high(window, here))
    if window.next:
        return replace(here, next=window.next, behind=(*here.behind, here.next)), False
    return _after_window(here)


def _back(here: Position, then: datetime) -> Position:
    """Give the page before this one in the same window, on the way to what changed since `then`."""
    if not here.behind:
        return Position(then, marks=here.walked)  # of a short listing, what is to be read next is often this page again
    return Position(here.at, walked=here.walked[:-1], next=here.behind[-1], behind=here.behind[:-1], then=then)


def _after_window(here: Position) -> tuple[Position, bool]:
    """Give the position after the last page of a listing, and whether there is nothing more to be read."""
    is_moving = len(here.walked) > 1 and here.walked != here.marks
    is_last_reading = here.readings + 1 >= _MAX_READINGS
    if is_moving and not is_last_reading:
        return Position(here.at, marks=here.walked, readings=here.readings + 1), False
    if here.high is not None and (here.at is None or here.high > here.at):
        return Position(here.high, marks=here.walked), is_last_reading
    return Position(here.at, marks=here.walked), True


def _next_key(window: Window, position: Position) -> datetime | None:
    """Give the time from which to ask next: that of the last row, if the order is that of time and it moves us on."""
    times = _times(window)
    if position.high is not None or not times or _is_disordered(times, position):
        return None
    is_tail = window.next is None and not position.behind
    key = times[-1] - _LATE if is_tail else times[-1]
    return key if position.at is None or key > position.at else None


def _high(window: Window, position: Position) -> datetime | None:
    times = _times(window)
    if position.high is None and not _is_disordered(times, position):
        return None
    return max([*times, *([position.high] if position.high else [])])


def _is_disordered(times: Sequence[datetime], position: Position) -> bool:
    """Tell whether the upstream ignored the order, or the time to begin from (asked for in whole seconds)."""
    since = position.at and position.at.replace(microsecond=0)
    return any(a > b for a, b in pairwise(times)) or bool(since and times and min(times) < since)


def _times(window: Window) -> list[datetime]:
    latest = window.now + _AHEAD
    return [row.at for row in window.rows if row.at is not None and row.at <= latest]


def _mark(rows: Sequence[Row]) -> str:
    digest = sha256()
    for row in rows:
        digest.update(len(row.essence).to_bytes(8, "big") + row.essence)
    return digest.hexdigest()[:16]


def interleaved(listings: Mapping[str, Fetch], cursor: str | None) -> Iterator[Page]:
    """Read several listings of one scope in turn, a page of each, so that a page budget starves none.

    The cursor holds a position for each, and whose turn it is.
    """
    state = json.loads(cursor) if cursor else {}
    positions = {name: _position(state.get(name, {})) for name in listings}
    names = list(listings)
    first = names.index(state["turn"]) if state.get("turn") in names else 0
    walks = {name: walk(listings[name], positions[name]) for name in (*names[first:], *names[:first])}
    while walks:
        for name in list(walks):
            found = next(walks[name], None)
            if found is None:
                del walks[name]
                continue
            records, positions[name] = found
            turn = names[(names.index(name) + 1) % len(names)]
            yield Page(tuple(records), _cursor(positions, turn))


def _cursor(positions: Mapping[str, Position], turn: str) -> str:
    state = {name: {k: v for k, v in asdict(one).items() if v} for name, one in positions.items()}
    return json.dumps({"turn": turn, **state}, default=lambda value: value.astimezone(UTC).isoformat())


def _position(state: Mapping[str, object]) -> Position:
    values = dict(state)
    for name in ("at", "high", "then"):
        if values.get(name):
            values[name] = datetime.fromisoformat(str(values[name]))
    for name in ("marks", "walked", "behind"):
        values[name] = tuple(values.get(name, ()))  # type: ignore[arg-type]  # lists of text in a cursor of ours
    return Position(**values)  # type: ignore[arg-type]
