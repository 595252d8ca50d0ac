"""Canonical text, HTML and hashes: laws and hostile input."""

import random
import time
from dataclasses import replace
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestion.hashing import content_hash
from ingestion.htmltext import html_charset, html_to_text
from ingestion.model import Attachment, Document, Link
from ingestion.text import clean, decode

ANY_TEXT = st.text(st.characters(exclude_categories=()))
WORDS = st.lists(st.text(max_size=3), max_size=4)
DOCUMENT = Document("a.md", "file", "Title", "Some content", "file:///a.md", metadata={"path": "a.md"})

SENTENCES = {
    "latin-1": "Les règles de congés sont définies par la direction.",
    "cp1252": "Price: 5 € “quoted” … €uro",
    "cp1250": "W dniu dzisiejszym zażądaliśmy zwrotu pieniędzy, ponieważ usługa została źle wykonana.",
    "cp1251": "Привет, как дела? Это обычный русский текст.",
    "koi8_r": "Привет, как дела? Это обычный русский текст.",
    "cp1253": "Καλημέρα, τι κάνεις σήμερα; Αυτό είναι κείμενο",
    "cp932": "これは日本語の文章です。東京で会議がありました。",
    "gb18030": "这是一个普通的中文文本。我们今天开会。",
    "big5": "這是一個普通的中文文本。我們今天開會。",
    "cp949": "한국어 문장입니다. 오늘 회의가 있습니다.",
}


@given(ANY_TEXT)
def test_cleaned_text_is_storable_and_settled(text: str) -> None:
    """Cleaning is total and idempotent, and leaves nothing that a database refuses."""
    cleaned = clean(text)
    cleaned.encode()
    assert not {character for character in cleaned if character < " "} - {"\t", "\n"}
    assert not {" \n", "\t\n", "\n\n\n\n"} & {cleaned[at : at + size] for at in range(len(cleaned)) for size in (2, 4)}
    assert clean(cleaned) == cleaned


def test_clean_keeps_words_apart_and_characters_whole() -> None:
    """Each kind of break is one line end; a surrogate pair is its character."""
    assert clean(" a\r\nb\rc\fd\x00e  \n\n\n\n\nf\t\n\n\ng \n") == "a\nb\nc\nde\n\nf\n\n\ng"
    assert clean("x\ud83d\ude00y\ud800z") == "x😀y\ufffdz"


@given(st.binary(), st.one_of(st.none(), st.text(max_size=12), st.sampled_from(["hex", "utf-7", "idna", "latin-1"])))
def test_decoding_never_fails(payload: bytes, declared: str | None) -> None:
    """Whatever the bytes and the declaration, there is a text, and it can be cleaned."""
    clean(decode(payload, declared)).encode()


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_utf8_is_read_as_utf8(text: str) -> None:
    """Valid UTF-8 is never guessed at, unless it looks like UTF-16."""
    if "\0" not in text and not text.startswith("\ufeff"):
        assert decode(text.encode()) == text


@pytest.mark.parametrize(("charset", "sentence"), SENTENCES.items())
def test_legacy_charsets_are_guessed(charset: str, sentence: str) -> None:
    """One sentence is enough, after any amount of ASCII."""
    assert decode(sentence.encode(charset)) == sentence
    assert decode(b"plain ascii\n" * 5000 + sentence.encode(charset)).endswith(sentence)


@pytest.mark.parametrize("charset", ["utf-8-sig", "utf-16", "utf-32", "utf-16-le", "utf-16-be"])
def test_unicode_forms_need_no_declaration(charset: str) -> None:
    """By the BOM, and UTF-16 without one by its NULs."""
    assert decode("Hello wörld, this is text".encode(charset)) == "Hello wörld, this is text"


def test_declarations_and_mixtures() -> None:
    """A declaration decides where UTF-8 does not; a few foreign bytes do not spoil a text."""
    assert decode(b"\xe8\xe9", "iso-8859-5") == "шщ"
    assert decode("日本".encode("iso2022_jp"), "ISO-2022-JP") == "日本"
    assert decode(b"plain", "utf-16") == "plain"
    assert decode("naïve café, 日本 ".encode() + b"\x93quoted\x94") == "naïve café, 日本 “quoted”"
    assert decode("日本の文書".encode()[:-1]).startswith("日本の文")
    assert html_charset(b'<html><meta http-equiv=x content="text/html; charset=Shift_JIS">') == "Shift_JIS"
    assert html_charset(b"<p>none") is None


def test_html_is_read_as_people_see_it() -> None:
    """Blocks, bullets, cells and verbatim text; no scripts, styles, templates."""
    page = html_to_text(
        "<html><head><title>My\n page</title><style>x{}</style></head><body><h1>Head <em>line</em></h1>"
        "<p>One&nbsp;two<br>three <a href='x.html#f'>link</a>.<script>var a='<p>no';</script></p>"
        "<ul><li>a<ul><li>b</ul><li><p>c</p></ul><table><tr><th>A<th>B<tr><td>1<td>2</table>"
        "<pre>def f():\n    return  1\n</pre><template><p>no</p></template><svg><title>no</title></svg><img alt=pic>"
    )
    assert page.title == "My page"
    assert page.links == ("x.html#f",)
    assert page.text.split("\n\n") == [
        "Head line",
        "One two\nthree link.",
        "- a",
        "  - b",
        "- c",
        "A | B\n1 | 2",
        "def f():\n    return  1",
        "pic",
    ]
    assert html_to_text("<h1>Only <b>this</b></h1>").title == "Only this"


HOSTILE_HTML = [
    *("", "\0", "<", "<!--", "<![CDATA[", "<?xml version='1.0' encoding='x'?><p>", "<title>" * 9, "\ud800<p>"),
    *("<div>" * 200_000, "<ul><li>" * 100_000, "<table>" * 100_000, "<b><i>" * 50_000, "<a " * 99_999),
    "<" * 10_000_000,
]


@pytest.mark.parametrize("junk", HOSTILE_HTML, ids=lambda junk: junk[:6].encode("ascii", "backslashreplace").decode())
def test_hostile_html_costs_little(junk: str) -> None:
    """No depth, size or brokenness hurts."""
    started = time.process_time()
    html_to_text(junk + "x").text.encode()
    assert time.process_time() - started < 10


@given(ANY_TEXT)
def test_html_never_fails(text: str) -> None:
    """Any text is a page."""
    html_to_text(f"<p>{text}</p>").text.encode()


@given(WORDS, WORDS, st.randoms(use_true_random=False))
def test_the_order_of_sets_has_no_meaning(tags: list[str], people: list[str], chance: random.Random) -> None:
    """Tags, people, links and attachments are sets."""

    def shuffled() -> Document:
        for members in (tags, people):
            chance.shuffle(members)
        return replace(
            DOCUMENT,
            tags=tuple(tags),
            assignees=tuple(people),
            participants=tuple(people),
            links=tuple(Link("mentions", tag) for tag in tags),
            attachments=tuple(Attachment(name, "text/plain", content=name.encode()) for name in people),
        )

    assert content_hash(shuffled()) == content_hash(shuffled())


def test_each_field_of_meaning_counts() -> None:
    """A change of any field changes the hash; times, ids and names as written do not."""
    changes: dict[str, object] = {
        **dict.fromkeys(("doc_type", "title", "content", "url", "author", "channel", "thread_id"), "other"),
        **dict.fromkeys(("assignees", "participants", "tags"), ("other",)),
        "metadata": {"path": "b.md"},
        "links": (Link("mentions", "b"),),
        "attachments": (Attachment("n", "t", content=b"1"),),
    }
    variants = [replace(DOCUMENT, **{name: value}) for name, value in changes.items()]  # type: ignore[arg-type]
    variants += [replace(DOCUMENT, attachments=(Attachment("n", "t", content=content),)) for content in (b"2", None)]
    variants += [replace(DOCUMENT, author=""), replace(DOCUMENT, tags=("",)), replace(DOCUMENT, assignees=("",))]
    assert len({content_hash(variant) for variant in [DOCUMENT, *variants]}) == len(variants) + 1
    assert content_hash(replace(DOCUMENT, source_id="b", participants_raw=("B",))) == content_hash(DOCUMENT)


@given(st.text(min_size=1), st.text())
def test_a_character_that_crosses_a_border_changes_the_hash(left: str, right: str) -> None:
    """Fields are told apart by their lengths."""
    moved = left[:-1], left[-1] + right
    assert content_hash(replace(DOCUMENT, title=left, content=right)) != content_hash(
        replace(DOCUMENT, title=moved[0], content=moved[1])
    )
    if set(moved) != {left, right}:
        assert content_hash(replace(DOCUMENT, tags=(left, right))) != content_hash(replace(DOCUMENT, tags=moved))


def test_metadata_is_canonical() -> None:
    """Neither the order of keys nor the kind of mapping has a meaning."""
    first = replace(DOCUMENT, metadata={"a": 1, "b": {"x": [1], "y": None}})
    second = replace(DOCUMENT, metadata=MappingProxyType({"b": MappingProxyType({"y": None, "x": (1,)}), "a": 1}))
    assert content_hash(first) == content_hash(second)
