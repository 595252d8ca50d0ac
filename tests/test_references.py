"""What texts refer to: numbers, other repositories, addresses; nothing in code, nothing that only looks alike."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestion.model import Link
from ingestion.references import Repository, references

WEB = "https://github.com"
HERE = Repository(WEB, frozenset({"octo/hello", "octo/former"}))


def mentioned(text: str) -> list[str]:
    return [link.target for link in references(text, HERE)]


def within(target: str, relation: str = "mentions") -> Link:
    return Link(relation, target, is_source_id=True)


@pytest.mark.parametrize(
    ("text", "link"),
    [
        ("see #12", within("issues/12")),
        ("#12", within("issues/12")),
        ("(#12), as said", within("issues/12")),
        ("#12's fault.", within("issues/12")),
        ("as in GH-12", within("issues/12")),
        ("**#12**: done", within("issues/12")),
        ("世界#12", None),
        ("octo/hello#12", within("issues/12")),
        ("Octo/Hello#12", within("issues/12")),
        ("octo/former#12", within("issues/12")),
        ("other/name.js#12", Link("mentions", f"{WEB}/other/name.js/issues/12")),
        ("(other/name#12)", Link("mentions", f"{WEB}/other/name/issues/12")),
        ("fixes #12", within("issues/12", "closes")),
        ("Closed: #12", within("issues/12", "closes")),
        ("RESOLVES octo/hello#12", within("issues/12", "closes")),
        ("closes other/name#12", Link("closes", f"{WEB}/other/name/issues/12")),
        ("Duplicate of #12", within("issues/12", "duplicates")),
        ("prefixes #12", within("issues/12")),
        ("fixes: see #12", within("issues/12")),
        (f"{WEB}/octo/hello/issues/12", within("issues/12")),
        (f"{WEB}/Octo/Hello/pull/12", within("issues/12")),
        (f"{WEB}/octo/former/pull/12/files", within("issues/12")),
        (f"[this]({WEB}/octo/hello/issues/12).", within("issues/12")),
        (f"{WEB}/octo/hello/issues/12#issuecomment-987", within("issues/comments/987")),
        (f"{WEB}/octo/hello/pull/12#discussion_r55", within("pulls/comments/55")),
        (f"{WEB}/octo/hello/pull/12/files#discussion_r55", within("pulls/comments/55")),
        (f"{WEB}/other/name/issues/12", Link("mentions", f"{WEB}/other/name/issues/12")),
        (f"{WEB}/octo/hello/wiki", Link("mentions", f"{WEB}/octo/hello/wiki")),
        ("https://evil.example/octo/hello/issues/12", Link("mentions", "https://evil.example/octo/hello/issues/12")),
        ("[docs](https://example.org/a#b)", Link("mentions", "https://example.org/a#b")),
        ("[a file](src/load.py)", None),
        ("it&#39;s", None),
        ("abc#12", None),
        ("_#12", None),
        ("#12abc", None),
        ("#12-3", None),
        ("##12", None),
        ("# 12", None),
        ("#fff and #1a2b3c", None),
        ("#000 on #000000", None),
        ("#0", None),
        ("color: #00ff00", None),
        ("#1234567890123", None),
        ("xGH-12", None),
        ("GH-12x", None),
        ("a line\n#12", within("issues/12")),
        ("other/name\n#12", within("issues/12")),
        ("it fixes\n#12", within("issues/12")),
        ("`#12`", None),
        ("`octo/hello#12` is how", None),
        ("```\n#12 https://example.org\n```", None),
        ("~~~sh\n# fixes #12\n~~~", None),
        ("/#12", None),
    ],
)  # fmt: skip
def test_one_reference(text: str, link: Link | None) -> None:
    assert references(text, HERE) == ((link,) if link else ())


def test_each_target_once_in_order_and_by_its_strongest_relation() -> None:
    text = f"See #3 and #2.\n\nFixes #3, #2\n\n{WEB}/octo/hello/issues/2 and #4"
    assert references(text, HERE) == (within("issues/3", "closes"), within("issues/2"), within("issues/4"))


def test_prose_around_code_counts() -> None:
    assert mentioned("#1\n```\n#2\n```\n#3 `#4` #5") == ["issues/1", "issues/3", "issues/5"]


def test_a_list_of_issues() -> None:
    assert mentioned("- [ ] #1\n- [x] #2\n| #3 | #4 |\n#5,#6;#7") == [f"issues/{number}" for number in range(1, 8)]


@given(
    st.lists(
        st.one_of(
            st.text(max_size=5),
            st.sampled_from(
                [
                    "#12",
                    "a/b",
                    "octo/hello#1",
                    "GH-1",
                    "fixes ",
                    "`",
                    "```",
                    "\n",
                    "[",
                    "](",
                    f"{WEB}/octo/hello/issues/1",
                ]
            ),
        ),
        max_size=30,
    ).map("".join)
)
def test_any_text_has_references_that_can_be_stored(text: str) -> None:
    found = references(text, HERE)
    assert len({link.target for link in found}) == len(found)
    for link in found:
        assert link.target.startswith(("issues/", "pulls/comments/") if link.is_source_id else ("http://", "https://"))
        assert link.relation in {"mentions", "closes", "duplicates"}


@pytest.mark.parametrize("part", ["#", "a/", "[", "a/b", "`", "fixes ", "](", "GH-", "https://", "&#", "[[", "\n#"])
def test_ten_megabytes_of_one_thing_refer_to_nothing(part: str) -> None:
    """What takes more than linear time would not end here."""
    assert not [link for link in references(part * (10_000_000 // len(part)), HERE) if link.is_source_id]


@pytest.mark.parametrize("part", ["#1 ", "a/b#1 ", "x/#1", "fixes #1 ", "aaaaaaaaaaaaaaaa/#1"])
def test_many_references_to_one_are_one(part: str) -> None:
    assert len(references(part * 20_000, HERE)) <= 1
