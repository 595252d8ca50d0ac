"""Bytes of any origin to one canonical text: total functions, which raise on nothing."""

import codecs
import re

from charset_normalizer import from_bytes

_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\v\f"))
_BREAKS = bytes.maketrans(b"\r\v\f", b"\n\n\n")
_BLANK_LINES = re.compile(rb"\n{4,}")
_ESCAPED_BYTES = re.compile("[\udc80-\udcff]")
_HIGH_BYTE = re.compile(rb"[\x80-\xff]")

_BOMS = (  # UTF-32 first: its little-endian mark begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SUPERSETS = {"iso8859-1": "cp1252", "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949"}
"""What a declared charset means in practice (as browsers read it): the larger set that contains it."""
_SEVEN_BIT = ("iso2022", "utf-7", "hz")
"""Charsets whose bytes are valid UTF-8 as well: if one of them is declared, it is tried before UTF-8."""
_WIDE = ("utf-16", "utf-32")
"""The same, but declared by mistake so often that the bytes have to show it by a NUL."""
_NOT_CHARSETS = {"idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined"}
_GUESSABLE = [
    *("cp1252", "cp1250", "cp1251", "koi8_r", "cp1253", "cp1254", "cp1255", "cp1256"),
    *("cp932", "euc_jp", "gb18030", "big5", "cp949"),
]
"""The legacy charsets in real use; among all that Python knows, exotic ones win on short texts."""
_SAMPLE = 16_384


def clean(text: str) -> str:
    """Make any text storable and comparable: no surrogates or controls, one kind of line end, no blanks at ends.

    Vertical tabs and form feeds become line breaks (without them words would be joined); three and more blank lines
    become one. Everything else stays as it was written.
    """
    try:
        raw = text.encode()
    except UnicodeEncodeError:  # surrogate pairs become the character that they mean, lone ones U+FFFD
        raw = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()
    # UTF-8 has these bytes for these characters alone, and bytes are several times faster here than text.
    raw = raw.translate(None, _CONTROLS)
    if b"\r" in raw or b"\v" in raw or b"\f" in raw:
        raw = raw.replace(b"\r\n", b"\n").translate(_BREAKS)
    if b" \n" in raw or (b"\t" in raw and b"\t\n" in raw):  # one byte is found many times faster than two
        raw = b"\n".join([line.rstrip(b" \t") for line in raw.split(b"\n")])
    if b"\n\n\n\n" in raw:
        raw = _BLANK_LINES.sub(b"\n\n", raw)
    return raw.decode().strip()


def decode(payload: bytes, declared: str | None = None) -> str:
    """Read bytes as text: by their BOM, as UTF-8, as `declared`, as mostly UTF-8, by guess, as Latin-1."""
    if payload.startswith(codecs.BOM_UTF8):
        return payload[3:].decode("utf-8", "replace")
    for mark, name in _BOMS:
        if payload.startswith(mark):
            return payload[len(mark) :].decode(name, "replace")
    charset = _known_charset(declared)
    first = _first_charset(payload, charset) if charset or b"\0" in payload[:1024] else None
    for candidate in (first, "utf-8", charset):
        text = _strictly(payload, candidate)
        if text is not None:
            return text
    return _mostly_utf8(payload) or _strictly(payload, _guess(payload) or "cp1252") or payload.decode("latin-1")


def _strictly(payload: bytes, charset: str | None) -> str | None:
    try:
        return payload.decode(charset) if charset else None
    except (LookupError, ValueError):  # LookupError: a codec that is not a charset, such as `hex`
        return None


def _known_charset(declared: str | None) -> str | None:
    try:
        name = codecs.lookup(declared.strip()).name if declared else None
    except (LookupError, ValueError):  # ValueError: a NUL or a surrogate in the name
        return None
    return None if name in _NOT_CHARSETS else _SUPERSETS.get(name or "", name)


def _first_charset(payload: bytes, charset: str | None) -> str | None:
    """Give the charset to be tried before UTF-8: a declared one, or UTF-16 without a BOM, told by its NULs."""
    if charset and (charset.startswith(_SEVEN_BIT) or (charset.startswith(_WIDE) and b"\0" in payload)):
        return charset
    for high, name in ((1, "utf-16-le"), (0, "utf-16-be")):
        high_bytes, low_bytes = payload[high:1024:2], payload[1 - high : 1024 : 2]
        if high_bytes.count(0) > 0.7 * len(high_bytes) and low_bytes.count(0) < 0.1 * len(low_bytes):
            return name  # Western text: every second byte is NUL
    return None


def _mostly_utf8(payload: bytes) -> str | None:
    """Rescue UTF-8 with a few foreign bytes (mixed encodings, a cut end): those alone are read as Windows-1252."""
    text = payload.decode("utf-8", "surrogateescape")
    saved_count = len(payload) - len(text)  # a character of n bytes saves n - 1, a foreign byte nothing
    if saved_count < 2 * len(_ESCAPED_BYTES.findall(text)):
        return None
    return _ESCAPED_BYTES.sub(lambda byte: bytes([ord(byte[0]) - 0xDC00]).decode("cp1252", "replace"), text)


def _guess(payload: bytes) -> str | None:
    """Guess from whole lines around the first byte that tells; where several charsets fit equally, Western it is."""
    found = _HIGH_BYTE.search(payload)
    start = payload.rfind(b"\n", 0, found.start()) + 1 if found else 0
    sample = payload[start : start + _SAMPLE]
    matches = from_bytes(sample[: sample.rfind(b"\n") + 1] or sample, cp_isolation=_GUESSABLE)
    best = matches.best()
    if best is None:
        return None
    equal = {match.encoding for match in matches if (match.chaos, match.coherence) == (best.chaos, best.coherence)}
    return "cp1252" if "cp1252" in equal else best.encoding
