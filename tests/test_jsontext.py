"""JSON is read as it was sent: cut without a byte lost, and never in a way that surprises the caller."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestion.jsontext import elements, is_json, parse

BOM = b"\xef\xbb\xbf"
BLANKS = st.text(alphabet=" \t\r\n", max_size=3).map(str.encode)
# Whole elements as upstreams write them, well and badly.
ODD = [
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"-0",
    b"1" * 5_000,
    b'"\\ud800"',
    b'"\\u0000"',
    b'"\xff\xfe"',
    b'"\xed\xa0\x80"',
    b'"],[{}"',
    b'"\\"]"',
    b'"\xe2\x80\xa8\xf0\x9f\x8e\x89"',
    b'{"a":1,"a":2}',
    b'{"\\ud800": [1, {"": null}], "b" : NaN}',
    b"[ ]",
    b"{ }",
]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.characters(categories=["Cs"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)
)
ELEMENTS = st.builds(
    lambda value, is_ascii: json.dumps(value, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass"),
    VALUES,
    st.booleans(),
) | st.sampled_from(ODD)
NOISE = st.lists(
    st.sampled_from([*(bytes([byte]) for byte in b'[]{},:"\\ 0-eE.untf'), *ODD, BOM, b"\x00"]) | st.binary()
)


@given(st.lists(st.tuples(BLANKS, ELEMENTS, BLANKS), max_size=6), BLANKS, BLANKS, st.sampled_from([b"", BOM]))
def test_an_array_is_cut_into_the_bytes_of_its_elements(
    parts: list[tuple[bytes, bytes, bytes]], before: bytes, after: bytes, bom: bytes
) -> None:
    inner = b",".join(b"".join(part) for part in parts) or before
    body = bom + before + b"[" + inner + b"]" + after
    found = elements(body)
    assert found == [element for _, element, _ in parts]
    assert is_json(body, list)
    assert not is_json(body, dict)
    assert repr(parse(body)) == repr([parse(element) for element in found])


@pytest.mark.parametrize("element", ODD)
def test_each_oddity_is_a_value(element: bytes) -> None:
    parse(element)
    assert elements(b"[" + element + b" ,0]") == [element, b"0"]


@given(VALUES)
def test_what_python_wrote_is_read_as_python_reads_it(value: Any) -> None:  # noqa: ANN401 -- JSON is anything
    text = json.dumps(value)
    assert repr(parse(text.encode())) == repr(json.loads(text))


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"a": 1, "a": 2}', {"a": 2}),
        (b'"\\ud800"', "\ud800"),
        (b'"a\xffb"', "a\ufffdb"),
        (BOM + b"[1]", [1]),
        (b"[Infinity, -Infinity]", [math.inf, -math.inf]),
        (b"1" * 5_000, math.inf),
        (b'"\\u0000"', "\0"),
        (b" null\n", None),
        (b"18446744073709551616", 2**64),
    ],
)
def test_what_is_wrong_in_a_value_is_read_all_the_same(body: bytes, value: object) -> None:
    assert parse(body) == value


BROKEN = [
    b"",
    b" ",
    b"[",
    b"[1",
    b"[1,",
    b"[1,]",
    b"[,]",
    b"[1 2]",
    b"[1]]",
    b"[1] x",
    b"[1][2]",
    b'["',
    b"[01]",
    b"[1.]",
    b'["\\x"]',
    b'["\x00"]',
    b"[tru]",
    b"\x0b[1]",
    b"[1]\x00",
    b"<html>",
    b"[NaN",
    b"[NaN,]",
    b'["\xff",]',
    b"[" * 100_000,
    b"[" * 100_000 + b"]" * 100_000,
    b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    b"[" + b'{"a":' * 100_000,
]


@pytest.mark.parametrize("body", BROKEN, ids=lambda body: repr(body[:12]) + str(len(body)))
def test_what_is_not_json_is_an_error_of_value(body: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 -- its words are those of one reader or another
        parse(body)
    with pytest.raises(ValueError):  # noqa: PT011
        elements(body)
    assert not is_json(body, list)
    assert not is_json(body, dict)


@pytest.mark.parametrize("body", [b'{"a": 1}', b"1", b'"[1]"', b"null", BOM + b"{}"])
def test_only_an_array_has_elements(body: bytes) -> None:
    assert not is_json(body, list)
    with pytest.raises(ValueError):  # noqa: PT011
        elements(body)


@given(st.binary() | NOISE.map(b"".join) | NOISE.map(lambda parts: b"[" + b"".join(parts) + b"]"))
def test_any_bytes_are_a_value_or_an_error_of_value_and_all_readers_agree(body: bytes) -> None:
    try:
        value = parse(body)
    except ValueError:
        value = None
    assert is_json(body, list) == isinstance(value, list)
    assert is_json(body, dict) == isinstance(value, dict)
    try:
        count = len(elements(body))
    except ValueError:
        count = None
    assert count == (len(value) if isinstance(value, list) else None)
