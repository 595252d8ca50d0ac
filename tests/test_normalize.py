"""Records to rows and rejects: what a mapping may do wrong, what counts as a change, which rows pass the checks."""

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from types import MappingProxyType
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestion import schema
from ingestion.hashing import content_hash, text_hash
from ingestion.model import Attachment, Document, Link, Record, doc_id
from ingestion.normalize import Mapper, Normalized, normalize, storable
from ingestion.validate import failures

PLAIN = Document("a", "note", "title", "content", "https://example.org/a")
NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=20)  # surrogates and controls too


def run(*found: Document, record_id: str = "r") -> Normalized:
    return normalize("source", "scope", [Record(record_id, "note", b"payload")], lambda _scope, _record: found)


def row(document: Document) -> dict[str, Any]:
    (only,) = run(document).documents.to_pylist()
    return dict(only)


def test_a_document_becomes_a_row_of_the_schema() -> None:
    full = replace(
        PLAIN,
        author="me",
        assignees=("x", "x", "y"),
        tags=("b", "a"),
        created_at=datetime(2020, 1, 1, 14, tzinfo=timezone(timedelta(hours=2))),
        metadata={"b": [1, None], "a": "é"},
        attachments=(Attachment("n", "text/plain", content=b"bytes"), Attachment("u", "image/png", url="https://u")),
        links=(Link("mentions", "x"),),
    )
    result = run(full)
    assert result.documents.schema == schema.arrow(schema.DOCUMENT)
    (made,) = result.documents.to_pylist()
    digest = hashlib.sha256(b"bytes").hexdigest()
    assert made["doc_id"] == "source:scope:a"
    assert (made["source"], made["scope"], made["record_id"]) == ("source", "scope", "r")
    assert made["assignees"] == ["x", "y"]
    assert made["tags"] == ["b", "a"]
    assert made["created_at"] == NOON
    assert made["metadata"] == '{"a": "é", "b": [1, null]}'
    assert [one["sha256"] for one in made["attachments"]] == [digest, None]
    assert made["links"] == [{"relation": "mentions", "target": "x"}]
    assert result.files == {digest: b"bytes"}


def test_no_records_are_an_empty_table() -> None:
    result = normalize("source", "scope", [], lambda _scope, _record: ())
    assert result.documents.num_rows == 0
    assert result.documents.schema == schema.arrow(schema.DOCUMENT)
    assert failures(result.documents) == {}


def raising(_scope: str, _record: Record) -> Iterable[Document]:
    yield PLAIN
    raise KeyError("author")


def giving(found: object) -> Mapper:
    return lambda _scope, _record: cast("Iterable[Document]", found)


def raising_a_surrogate(_scope: str, record: Record) -> Iterable[Document]:
    raise KeyError("\udc80" + record.source_id)


MAPPINGS: dict[str, tuple[Mapper, str]] = {
    "raises half-way": (raising, "KeyError: 'author'"),
    "gives nothing to iterate": (giving(None), "TypeError"),
    "gives something else": (giving(["text"]), "AttributeError"),
    "raises a surrogate": (raising_a_surrogate, "KeyError"),
}


@pytest.mark.parametrize("case", MAPPINGS)
def test_whatever_a_mapping_does_it_costs_one_record(case: str) -> None:
    mapping, reason = MAPPINGS[case]

    def only_b(scope: str, record: Record) -> Iterable[Document]:
        return mapping(scope, record) if record.source_id == "b" else [replace(PLAIN, source_id=record.source_id)]

    result = normalize("source", "scope", [Record(name, "note", name.encode()) for name in "abc"], only_b)
    assert result.documents["source_id"].to_pylist() == ["a", "c"]
    (reject,) = result.rejects
    assert reject.source_id == "b"
    assert reject.reason.startswith(reason)
    assert reject.reason.encode()


@pytest.mark.parametrize("metadata", [{}, {"a": 1}, MappingProxyType({"a": [1, {"b": None}]})])
def test_metadata_may_be_any_mapping(metadata: dict[str, object]) -> None:
    assert run(replace(PLAIN, metadata=metadata)).rejects == []


@given(ANY_TEXT)
def test_any_text_becomes_storable_and_then_stays(text: str) -> None:
    once = storable(text)
    assert "\0" not in once
    assert once.encode().decode() == storable(once) == once
    if "\0" not in text and not any("\ud800" <= one <= "\udfff" for one in text):
        assert once == text


@given(ANY_TEXT, ANY_TEXT)
def test_any_text_is_a_row_wherever_it_stands(text: str, other: str) -> None:
    whole = replace(
        PLAIN,
        source_id=text,
        title=text,
        content=text,
        tags=(text, other),
        metadata={text: other},
        links=(Link(text, other),),
        attachments=(Attachment(text, other),),
    )
    result = run(whole, record_id=storable(text))
    assert result.rejects == []
    assert isinstance(failures(result.documents), dict)


SOURCE_NAMES = st.text("ab", min_size=1, max_size=2)  # no colon
COLONS = st.text("a:%3A", max_size=5)


@given(st.tuples(SOURCE_NAMES, COLONS, COLONS), st.tuples(SOURCE_NAMES, COLONS, COLONS))
def test_a_doc_id_names_one_document_only(left: tuple[str, str, str], right: tuple[str, str, str]) -> None:
    assert (doc_id(*left) == doc_id(*right)) == (left == right)


def test_hostile_scopes_have_doc_ids_of_their_own() -> None:
    triples = [("s", "a:b", "c"), ("s", "a", "b:c"), ("s", "a%3Ab", "c"), ("s", "a", ":b:c"), ("s", "", "a:b:c")]
    assert len({doc_id(*triple) for triple in triples}) == len(triples)


MEANING: dict[str, object] = {
    "doc_type": "page",
    "title": "other",
    "content": "other",
    "url": "https://example.org/b",
    "author": "me",
    "assignees": ("me",),
    "participants": ("me",),
    "tags": ("status:closed",),
    "channel": "c",
    "thread_id": "t",
    "metadata": {"a": 1},
    "attachments": (Attachment("n", "text/plain"),),
    "links": (Link("blocks", "b"),),
}
NO_MEANING: dict[str, object] = {
    "source_id": "b",
    "participants_raw": ("Me <me@example.org>",),
    "created_at": NOON,
    "updated_at": NOON,
}


def test_every_field_either_has_meaning_or_has_none() -> None:
    assert set(MEANING) | set(NO_MEANING) == set(Document.__dataclass_fields__)


@pytest.mark.parametrize("field", MEANING)
def test_a_change_of_meaning_changes_the_hash(field: str) -> None:
    changed: Any = {field: MEANING[field]}
    assert content_hash(replace(PLAIN, **changed)) != content_hash(PLAIN)


@pytest.mark.parametrize("field", NO_MEANING)
def test_times_and_ids_do_not_change_the_hash(field: str) -> None:
    changed: Any = {field: NO_MEANING[field]}
    assert content_hash(replace(PLAIN, **changed)) == content_hash(PLAIN)


@given(st.permutations(["a", "b", "c"]), st.permutations(["x", "y"]))
def test_the_order_of_sets_does_not_change_the_hash(names: list[str], keys: list[str]) -> None:
    def made(names: Iterable[str], keys: Iterable[str]) -> str:
        texts = tuple(names)
        return content_hash(
            replace(
                PLAIN,
                tags=texts,
                assignees=texts,
                participants=texts,
                links=tuple(Link(name, name) for name in texts),
                attachments=tuple(Attachment(name, name) for name in texts),
                metadata=dict.fromkeys(keys, 1),
            )
        )

    assert made(names, keys) == made("abc", "xy")


@given(ANY_TEXT, ANY_TEXT, ANY_TEXT, ANY_TEXT)
def test_fields_do_not_run_into_each_other(title: str, content: str, title_2: str, content_2: str) -> None:
    same = (title, content) == (title_2, content_2)
    is_same_text = (content or title) == (content_2 or title_2)
    assert (text_hash(title, content) == text_hash(title_2, content_2)) == is_same_text
    hashes = {content_hash(replace(PLAIN, title=t, content=c)) for t, c in ((title, content), (title_2, content_2))}
    assert (len(hashes) == 1) == same


CHECKS: list[tuple[dict[str, object], str]] = [
    ({}, ""),
    ({"source_id": ""}, "source_id: not empty"),
    ({"source_id": "x" * 4_001}, "source_id: at most 4000 characters"),
    ({"title": ""}, "title: not empty"),
    ({"title": "é" * 10_000}, ""),
    ({"title": "x" * 10_001}, "title: at most 10000 characters"),
    ({"content": ""}, ""),
    ({"doc_type": "pull_request"}, ""),
    ({"doc_type": ""}, "doc_type: a word of a-z and _"),
    ({"doc_type": "note\n"}, "doc_type: a word of a-z and _"),
    ({"tags": ("status:open", "straße", "日本")}, ""),
    ({"tags": ("Status:open",)}, "tags: lower case"),
    ({"tags": ("a", "")}, "tags: no empty item"),
    ({"assignees": ("",)}, "assignees: no empty item"),
    ({"participants": ("",)}, "participants: no empty item"),
    ({"url": "file:///a"}, ""),
    ({"url": "mailto:a@b"}, ""),
    ({"url": ""}, "url: an absolute address"),
    ({"url": "a/b"}, "url: an absolute address"),
    ({"url": "https:// "}, ""),
    ({"url": "https:"}, "url: an absolute address"),
    ({"url": "https://" + "x" * 8_000}, "url: at most 8000 characters"),
    ({"created_at": NOON.replace(year=1900)}, ""),
    ({"created_at": NOON.replace(year=200)}, "created_at: between 1900 and 2200"),
    ({"updated_at": NOON.replace(year=2200)}, "updated_at: between 1900 and 2200"),
    ({"title": "", "url": "", "tags": ("A",)}, "tags: lower case; title: not empty; url: an absolute address"),
]


@pytest.mark.parametrize(("fields", "reason"), CHECKS, ids=[str(number) for number in range(len(CHECKS))])
def test_a_row_that_fails_says_which_checks(fields: dict[str, Any], reason: str) -> None:
    good, checked = run(PLAIN).documents, run(replace(PLAIN, **fields)).documents
    expected = {1: reason} if reason else {}
    assert failures(pa.concat_tables([good, checked, good])) == expected


@pytest.mark.parametrize(
    "fields",
    [
        {"title": None},
        {"title": 5},
        {"content": b"bytes"},
        {"url": None},
        {"tags": "bug"},
        {"tags": (None,)},
        {"tags": None},
        {"author": 5},
        {"created_at": "2020-01-01"},
        {"created_at": NOON.replace(tzinfo=None)},
        {"created_at": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))},
        {"metadata": {"n": float("inf")}},
        {"metadata": {"n": object()}},
        {"metadata": {1: 1, "1": 2}},
        {"attachments": (Attachment("n", "t", content="text"),)},  # type: ignore[arg-type]
        {"attachments": ("n",)},
        {"links": (Link("r", None),)},  # type: ignore[arg-type]
        {"links": None},
    ],
    ids=str,
)
def test_a_wrong_type_is_a_reject_and_never_an_error(fields: dict[str, Any]) -> None:
    result = run(replace(PLAIN, **fields))
    assert result.documents.num_rows == 0
    (reject,) = result.rejects
    assert reject.reason


def test_equal_texts_have_one_text_hash_whatever_else_differs() -> None:
    assert row(PLAIN)["text_hash"] == row(replace(PLAIN, source_id="b", author="you", doc_type="page"))["text_hash"]
