"""Where the passages of a document begin: at its own seams, and none too long for an index of meanings."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple
from unicodedata import category

MAX_CHARACTERS = 2_000
MAX_TOKENS = 500
_MAX_BYTES = 4 * MAX_TOKENS
"""A token is taken to be 4 bytes of UTF-8: 4 letters of English, 2 of Russian, 1.3 of Chinese, an emoji."""

_WHOLE = frozenset({"contact", "event"})
_MAIL = frozenset({"email", "message"})
_REPLIES = frozenset({"reply", "quote"})
_SEAMS = (("\n\n",), ("\n",), (". ", "! ", "? ", "。", "\uff01", "\uff1f"), (" ",))
"""What passages end with, the best first, where none begins with a reply or a heading."""
_JOINER = "\u200d"
_LONGEST_GRAPHEME = 16

# Each pattern begins with the line end before its line, so that the search leaps from line to line, and none goes back
# over what it has matched. A block of code is one match; where it is never closed, it goes to the end, as in Markdown.
_CLOSED = r"[ \t>]*+(?P=fence)[`~]*+[ \t]*+(?=\n|\Z)"
_CODE = (
    r"(?P<code>[ \t>]*+(?:[-*+] +)?"
    r"(?P<fence>`{3,}+(?![^\n]*`)|~{3,}+(?=[ \t]*\w)|(?<![^\n]\n)~{3,}+)[^\n]*+(?=\n)"  # else ~~~ underlines a title
    rf"(?:\n(?!{_CLOSED})[^\n]*+)*+(?:\n{_CLOSED})?)"
)
_ATX = r" {0,3}#{1,6}(?![^ \t\n])[^\n]*+"
_SIGN = r"[=\-~^\"'*+#:._]"
_HEADING = (
    rf"(?:(?P<heading>{_ATX}(?:\n++{_ATX})*+)"
    rf"|(?P<overlined>(?P<over>{_SIGN})(?P=over){{2,}}+\n[^\n]*\w[^\n]*\n(?P=over){{3,}}+(?=\n))"
    rf"|(?P<underline>(?P<under>{_SIGN})(?P=under){{2,}}+(?=\n)))"
)
_REPLY = (
    r"(?:(?P<reply>"
    r"(?:On|Am|Le|El) [^\n]{1,200}(?:\n[^\n]{0,200})?(?:wrote|schrieb|a écrit|escribió)[^\n]{0,100}:(?=\n)"
    r"|-{3,}+ ?[^\W\d_][^\n-]{2,60}-{3,}+(?=\n)"
    r"|(?:_{9,}+\n+|(?<=\n\n))\*?(?:From|Von|De):[^\n]++(?=\n\*?[^\W\d_][\w-]*+:))"
    r"|(?P<quote>>[^\n]*+(?:\n>[^\n]*+)*+))"
)
_BLANK = r"\n*(?=\n|\Z)"  # blank lines, but for the line end with which the next match begins
_MARKS = re.compile(rf"\n(?=[ \t>`~#=^\"'*+:._-])(?:{_CODE}|{_HEADING}{_BLANK})")
_MAIL_MARKS = re.compile(rf"\n(?!\n)(?:{_REPLY}{_BLANK}|{_CODE}|{_HEADING}{_BLANK})")


class _Marks(NamedTuple):
    """What orders a stretch of a document."""

    replies: list[int]
    """Where replies and quotations begin, and where quotations end."""
    headings: list[int]
    """Where headings begin; of some in a row, the first."""
    spans: list[tuple[int, int]]
    """What is not to be cut between its two ends: code with the heading above it, headings with one character below."""
    endless: tuple[int, int]
    """Both ends of the code, at the end of the stretch, that no passage can hold."""


def chunk_starts(doc_type: str, content: str) -> list[int]:
    """Give the offsets at which the passages of `content` begin; each goes to the next one, or to the end."""
    if doc_type in _WHOLE or _fits(content):
        return [0] if content else []
    pattern = _MAIL_MARKS if doc_type in _MAIL else _MARKS
    text = "\n" + content  # the line end before a line stands in it where the line itself stands in the content
    starts, looked = [0], 0
    while (room := _room(content, start := starts[-1])) < len(content):
        marks = _marks(pattern, text, max(start, looked), room)
        starts.append(_cut(content, marks, start, room))
        if starts[-1] > marks.endless[0]:
            looked = marks.endless[1]
    return starts


def _fits(content: str) -> bool:
    if len(content) <= MAX_TOKENS:  # no character is more than one token
        return True
    return len(content) <= MAX_CHARACTERS and len(content.encode("utf-8", "replace")) <= _MAX_BYTES


def _room(content: str, start: int) -> int:
    """Give where a passage that begins at `start` has to end at the latest."""
    longest = content[start : start + MAX_CHARACTERS].encode("utf-8", "replace")[:_MAX_BYTES]
    return start + len(longest.decode("utf-8", "ignore"))


def _marks(pattern: re.Pattern[str], text: str, start: int, room: int) -> _Marks:
    """Tell what the marks of a stretch mean for a cut."""
    marks = _Marks([], [], [], (room, 0))
    spans = marks.spans
    for kind, begin, end in _found(pattern, text, start, room):
        first = spans[-1][0] if spans and spans[-1][1] == begin + 1 else begin  # of the heading right above
        if kind == "code":
            if end > room and end >= _room(text, first + 1):
                return marks._replace(endless=(begin, end))
            spans.append((first, end))
            continue
        if first == begin:
            (marks.replies if kind in _REPLIES else marks.headings).append(begin)
        if end < room and kind == "quote":
            marks.replies.append(end)
        elif end < room:
            spans.append((first, end + 1))
    return marks


def _found(pattern: re.Pattern[str], text: str, start: int, room: int) -> Iterator[tuple[str, int, int]]:
    """Give the kind and both ends of each mark between `start` and `room`; code is followed beyond, to its end."""
    end = start
    for found in pattern.finditer(text, start, room + 1):
        kind = found.lastgroup or ""
        begin = _title(text, found, end) if kind == "underline" else found.start()
        if begin >= 0:
            end = found.end()
            if kind == "code" and end > room:
                end = min((pattern.match(text, begin) or found).end(), len(text) - 1)
            yield kind, begin, end


def _title(text: str, underline: re.Match[str], end: int) -> int:
    """Give where the underlined title begins, -1 if what stands there (not before `end`) is no line on its own."""
    begin = text.rfind("\n", end, underline.start())
    length = underline.start() - begin - 1
    is_alone = begin == end or text[begin - 1] == "\n"
    is_wide = underline["under"] in "=-" or length < len(underline[0])
    return begin if length > 0 and is_alone and is_wide else -1


def _cut(content: str, marks: _Marks, start: int, room: int) -> int:
    """Give the last of the best places to end the passage from `start`, a quarter of its room away from both ends."""
    least = (room - start) // 4
    low, high = start + least, min(room, len(content) - least)
    for begin, end in marks.spans:
        if begin < high < end:
            high = end if end <= room else begin
    low = min(low, high)
    for places, lowest in ((marks.replies, start + least // 4), (marks.headings, low)):  # many a reply is short
        index = bisect_right(places, high)
        if index and places[index - 1] >= lowest:
            return places[index - 1]
    text = _masked(content, marks.spans, start, high)
    for seams in _SEAMS:
        found = [(text.rfind(seam, max(0, low - start - len(seam))), seam) for seam in seams]
        end = max(place + len(seam) if place >= 0 else 0 for place, seam in found)
        if end:
            return start + end
    return _between_graphemes(content, start, high)


def _masked(content: str, spans: list[tuple[int, int]], start: int, stop: int) -> str:
    """Give the content from `start` to `stop` with NULs for what is not to be cut, so that no seam is found there."""
    parts: list[str] = []
    done = start
    for begin, end in spans:
        if end <= stop:
            parts += content[done:begin], "\0" * (end - 1 - max(begin, done))
            done = end - 1
    return "".join((*parts, content[done:stop]))


def _between_graphemes(content: str, start: int, high: int) -> int:
    """Give the last place up to `high`, and near it, that parts neither an accent nor an emoji from what it is on."""
    nearby = range(high, max(start, high - _LONGEST_GRAPHEME), -1)
    return next((cut for cut in nearby if not _is_within_grapheme(content[cut - 1], content[cut])), high)


def _is_within_grapheme(before: str, after: str) -> bool:
    is_flag = all("\U0001f1e6" <= letter <= "\U0001f1ff" for letter in (before, after))
    is_tone = "\U0001f3fb" <= after <= "\U0001f3ff"
    return is_flag or is_tone or _JOINER in (before, after) or category(after).startswith("M")
