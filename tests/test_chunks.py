"""Where passages begin: nothing is lost, none is too long, and each kind of seam is preferred to the next."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestion.chunks import MAX_CHARACTERS, MAX_TOKENS, chunk_starts

TYPES = st.sampled_from(["page", "issue", "file", "email", "message"])
PIECES = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        [
            *("word ", "A sentence. ", "完整的句子。", "漢字", "e\u0301", "👩🏽\u200d🚀", "🇩🇪", "\u0301", "\ud800"),
            *(
                "\n",
                "\n\n",
                "\n\n\n\n",
                "\n# Heading\n\n",
                "\n## Heading\n",
                "\nTitle\n=====\n",
                "\n\n====\nTop\n====\n",
            ),
            *("\n```py\n", "\n```\n", "\n~~~\n", "\n- item", "\n    code", "\n\n---\n\n", "\n> quoted", "\n>> deeper"),
            *("\n\nOn Monday A <a@b.c> wrote:\n", "\n-----Original Message-----\n", "\n\nFrom: a\nTo: b\n"),
        ]
    ),
)
TEXTS = st.lists(st.builds(str.__mul__, PIECES, st.sampled_from([1, 1, 2, 30, 500])), max_size=25).map("".join)
WORDS = st.integers(1, 600).map("word ".__mul__)


def pieces(content: str, doc_type: str = "page") -> list[str]:
    starts = chunk_starts(doc_type, content)
    return [content[start:end] for start, end in pairwise([*starts, len(content)])]


def fits(piece: str) -> bool:
    return len(piece) <= MAX_CHARACTERS and len(piece.encode("utf-8", "replace")) <= 4 * MAX_TOKENS


def assert_law(content: str, doc_type: str) -> None:
    """Passages are not empty, fit, and make up the content."""
    found = pieces(content, doc_type)
    assert "".join(found) == content
    assert all(found)
    assert all(fits(piece) for piece in found)


@given(TYPES, TEXTS)
def test_passages_make_up_the_content_and_none_is_too_long(doc_type: str, content: str) -> None:
    assert_law(content, doc_type)
    assert chunk_starts(doc_type, content) == chunk_starts(doc_type, content)


@given(TYPES, TEXTS)
def test_a_passage_is_not_parted_again(doc_type: str, content: str) -> None:
    for piece in pieces(content, doc_type):
        assert chunk_starts(doc_type, piece) == [0]


@given(TYPES, TEXTS, TEXTS)
def test_what_is_added_at_the_end_leaves_the_beginning_as_it_was(doc_type: str, content: str, more: str) -> None:
    settled = len(content) - 3 * MAX_CHARACTERS
    before, after = (
        [start for start in chunk_starts(doc_type, text) if start <= settled] for text in (content, content + more)
    )
    assert before == after


@given(st.sampled_from(["event", "contact"]), TEXTS)
def test_events_and_contacts_stay_whole(doc_type: str, content: str) -> None:
    assert chunk_starts(doc_type, content) == ([0] if content else [])


@given(
    st.lists(
        st.tuples(st.sampled_from(["# Heading", "### A\n\n#### B", "Title\n-----", "^^^^^\nTitle\n^^^^^"]), WORDS),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from(["\n", "\n\n"]),
)
def test_no_heading_is_left_alone(sections: list[tuple[str, str]], blank: str) -> None:
    content = "".join(f"{heading}{blank}{text}\n\n" for heading, text in sections)
    for piece in pieces(content):
        assert piece.rstrip().endswith("word")


@given(st.lists(st.tuples(WORDS, st.integers(1, 230)), min_size=1, max_size=12), st.sampled_from(["```", "~~~"]))
def test_code_that_fits_is_not_cut(blocks: list[tuple[str, int]], fence: str) -> None:
    content = "".join(f"{text}\n\n{fence}\n" + "# code\n\n" * count + f"{fence}\n" for text, count in blocks)
    for piece in pieces(content):
        assert piece.count(fence) % 2 == 0


@pytest.mark.parametrize(
    ("content", "count"),
    [("", 0), ("a" * 2_000, 1), ("a" * 2_001, 2), ("漢" * 666, 1), ("漢" * 667, 2), ("я" * 1_001, 2), ("🚀" * 501, 2)],
    ids=["empty", "ASCII", "longer", "Chinese", "more Chinese", "Russian", "emoji"],
)
def test_both_caps(content: str, count: int) -> None:
    assert len(pieces(content)) == count


SIX, TWELVE = "word " * 119 + "word.", "word " * 239 + "word."  # 600 and 1,200 characters


@pytest.mark.parametrize(
    "expected",
    [
        (f"{SIX}\n\n", f"# Heading\n\n{SIX}\n\n{TWELVE}"),
        (f"{SIX}\n\n", f"Title\n=====\n\n{SIX}\n\n{TWELVE}"),
        (f"{SIX}\n\n", f"Long title\n~~~~~~~~~~\n\n{SIX}\n\n{TWELVE}"),
        (f"{SIX}\n\n", f"*****\nTitle\n*****\n\n{SIX}\n\n{TWELVE}"),
        (f"{SIX}\n\n", f"# Heading\n\n## Another\n{SIX}\n\n{TWELVE}"),
        (f"# One\n\n{SIX}\n\n## Two\n\n{SIX}\n\n", f"## Three\n\n{SIX}\n\n{SIX}"),
        (f"{SIX}\n\n{SIX}\n\n", f"{SIX}\n{SIX}"),
        (f"{SIX}\n\n{SIX}\n\n", f"#hashtag\n{SIX}\n{SIX}"),
        (f"{SIX}\n\n{SIX}\n\n---\n\n{SIX}\n\n", SIX),
        (f"{SIX}\n{SIX}\n", f"{SIX}{SIX}"),
        (f"{SIX} {SIX} {SIX} ", SIX),
        ("这是一句话。" * 111, "这是一句话。" * 111, "这是一句话。" * 80),
        ("没有标点" * 166 + "没有", "标点" * 150),
        ("word " * 400, "word " * 300),
        ("a" * 2_000, "a" * 1_500),
        ("a" * 1_600, "a" * 500),
        (f"{SIX}\n\n", f"```\n{TWELVE}\n\n{SIX}\n```\n", f"{SIX}"),
        (f"{SIX}\n\n", f"## Log\n\n```\n{TWELVE}\n\n{SIX}\n```\n\n", f"{SIX}"),
        (f"{SIX}\n\n```\n# no heading\n{SIX}\n```\n\n{SIX}\n\n", SIX),
        (f"```\n# no heading\n{TWELVE}\n\n", f"{TWELVE}\n\n", f"{TWELVE}\n# no heading\n```\n{SIX}"),
    ],
    ids=[
        *("heading", "underlined", "adornment", "overlined", "headings in a row", "last heading", "paragraph"),
        *("hashtag", "thematic break", "line", "sentence", "Chinese sentence", "Chinese", "space", "hard", "no crumbs"),
        *("code", "code with its heading", "nothing in code", "code too long"),
    ],
)
def test_the_best_seam_is_taken(expected: tuple[str, ...]) -> None:
    assert pieces("".join(expected)) == list(expected)


@pytest.mark.parametrize("doc_type", ["email", "message"])
@pytest.mark.parametrize(
    "expected",
    [
        (f"{SIX}\n\n{SIX}\n\n", f"On Mon, 3 Jan 2022 at 10:00, A <a@b.c> wrote:\n\n> {SIX}\n>\n> {TWELVE}"),
        (f"{SIX}\n\n{SIX}\n\n", f"On Mon, 3 Jan 2022 at 10:00, A B <a@b.c>\nwrote:\n> {SIX}\n>\n> {TWELVE}"),
        (f"{SIX}\n\n{SIX}\n\n", f"Am 03.01.2022 um 10:00 schrieb A B:\n> {SIX}\n>\n> {TWELVE}"),
        (f"{SIX}\n\n{SIX}\n\n", f"-----Original Message-----\nFrom: a\nTo: b\n\n{SIX}\n\n{SIX}"),
        (f"{SIX}\n\n{SIX}\n\n", f"---------- Forwarded message ---------\nFrom: a\n\n{SIX}\n\n{SIX}"),
        (f"{SIX}\n\n{SIX}\n\n", f"From: a\nSent: today\nTo: b\n\n{SIX}\n\n{SIX}"),
        (f"{SIX}\n\n", f"{'_' * 32}\nFrom: a\nSent: today\n\n{SIX}\n\n{TWELVE}"),
        (f"> {SIX}\n> {SIX}\n\n", f"{SIX}\n\n{SIX}"),
        (f"{SIX}\n\n{SIX}\n", f"> {SIX}\n> {SIX}"),
        ("Thanks. " * 25 + "\n\n", f"On Monday A wrote:\n> {SIX}\n> {TWELVE}"),
        (f"{SIX}\n\n{SIX}\n\n", f"# Heading\n\n{SIX}\n\n{SIX}"),
        (f"{SIX}\n\nFrom: a to b\n\n{SIX}\n\n{SIX}\n\n", SIX),
    ],
    ids=[
        *("wrote", "wrote in two lines", "schrieb", "original message", "forwarded", "header", "Outlook's header"),
        *("end of a quotation", "quotation", "short reply", "heading", "paragraph"),
    ],
)
def test_mail_is_cut_between_replies(doc_type: str, expected: tuple[str, ...]) -> None:
    assert pieces("".join(expected), doc_type) == list(expected)


@pytest.mark.parametrize(
    "grapheme",
    ["e\u0301", "a\u0301\u0323", "👩🏽\u200d🚀", "❤\ufe0f", "👨\u200d👩\u200d👧\u200d👦", "हि"],
    ids=["accent", "accents", "astronaut", "variant", "family", "vowel sign"],
)
@pytest.mark.parametrize("before", range(4))
def test_graphemes_stay_whole_where_nothing_else_parts_them(grapheme: str, before: int) -> None:
    for piece in pieces("x" * before + grapheme * 2_000):
        assert piece.lstrip("x").startswith(grapheme)


def test_marks_without_end_are_cut_all_the_same() -> None:
    assert_law("e" + "\u0301" * 5_000, "page")


@pytest.mark.parametrize("doc_type", ["page", "email"])
@pytest.mark.parametrize(
    "part",
    [
        *(
            "[",
            "a",
            " ",
            "\n",
            "# ",
            "# \n",
            "#\na\n",
            ">",
            ">\n",
            "a\n> b\n",
            "`",
            "```\n",
            "```x\n",
            "~~~\n",
            "````x`",
        ),
        *(
            "---\n",
            "a\n---\n",
            "===\na\n",
            "- ",
            "- ```\n",
            "_",
            "On ",
            "On a wrote",
            "On a\nwrote",
            "From: ",
            "-----a",
        ),
        *(". ", "。", "漢", "\u0301", "\u200d", "🇩🇪", "\ud800", "\0", "<!--", "| a "),
    ],
)
def test_a_megabyte_of_one_thing(part: str, doc_type: str) -> None:
    """What takes more than linear time would not end here."""
    assert_law(part * (1_000_000 // len(part)), doc_type)


def test_code_without_end_is_looked_through_once() -> None:
    assert_law("```\n" + "a\n" * 500_000, "page")
    assert_law("```\n" + "a\n" * 500_000 + "```\n# Heading\n" + "word " * 1_000, "page")
