"""JSON as upstreams send it: arrays cut into the bytes of their elements, and values read whatever is wrong in them."""

import json
import re
from typing import Any

import msgspec

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What the fast reader refuses. Python's own takes NaN, lone surrogates and broken UTF-8 as well."""
_slices = msgspec.json.Decoder(list[msgspec.Raw])
_syntax = msgspec.json.Decoder(msgspec.Raw)
_values = msgspec.json.Decoder()
_BOM = b"\xef\xbb\xbf"
_BLANKS = " \t\n\r"


def _integer(digits: str) -> int | float:
    """Read an integer; one beyond Python's limit of digits becomes an infinity, as a float of its size does."""
    try:
        return int(digits)
    except ValueError:
        return float(digits)


_DECODER = json.JSONDecoder(parse_int=_integer)
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


def elements(body: bytes) -> list[bytes]:
    """Give the bytes of each element of a JSON array, as they were sent.

    Raises:
        ValueError: it is not an array, or not JSON to its end.
    """
    try:
        return [bytes(raw) for raw in _slices.decode(body)]
    except UNREADABLE:
        return _elements_leniently(body)


def parse(body: bytes) -> Any:  # noqa: ANN401 -- JSON is anything
    """Read a JSON value; of two equal keys the last wins, bytes that are not UTF-8 become U+FFFD.

    Raises:
        ValueError: it is not JSON, or too deep to be read.
    """
    try:
        return _values.decode(body)
    except UNREADABLE:
        try:
            return _DECODER.decode(body.decode("utf-8-sig", "replace"))
        except RecursionError:
            raise ValueError("nested too deep to be read") from None


def is_json(body: bytes, kind: type[list[Any]] | type[dict[str, Any]]) -> bool:
    """Tell whether it is a whole JSON array, or object, without making it."""
    if body.removeprefix(_BOM).lstrip()[:1] != (b"[" if kind is list else b"{"):
        return False
    try:
        _syntax.decode(body)
    except UNREADABLE:
        try:
            _elements_leniently(body) if kind is list else parse(body)
        except ValueError:
            return False
    return True


def _elements_leniently(body: bytes) -> list[bytes]:
    text = body.decode("utf-8", "surrogateescape").removeprefix("\ufeff").strip(_BLANKS)
    if not text.startswith("["):
        raise ValueError("not a JSON array")
    found: list[bytes] = []
    end = _skip(text, 1)
    while text[end : end + 1] != "]":
        try:
            _, after = _DECODER.raw_decode(text, end)
        except RecursionError:
            after = _end_of_object(text, end)
        found.append(text[end:after].encode("utf-8", "surrogateescape"))
        end = _skip(text, after)
        if text[end : end + 1] == ",":
            end = _skip(text, end + 1)
            if text[end : end + 1] == "]":
                raise ValueError("a JSON array ends with a comma")
        elif text[end : end + 1] != "]":
            raise ValueError("a JSON array without its end")
    if end + 1 != len(text):
        raise ValueError("something follows a JSON array")
    return found


def _skip(text: str, at: int) -> int:
    while text[at : at + 1] in {*_BLANKS}:
        at += 1
    return at


def _end_of_object(text: str, start: int) -> int:
    """Find the end of an object by its brackets alone: a record that is nested too deep costs no other."""
    depth = 0
    for token in _TOKEN.finditer(text, start) if text[start] == "{" else ():
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
        if depth == 0:
            return token.end()
    raise ValueError("nested too deep to be read")
