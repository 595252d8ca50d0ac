"""Bodies, unpacked in small steps: what is small on the wire may be anything in memory.

httpx unpacks a piece of the wire (64 KB) at once, and as often as Content-Encoding says: 600 bytes, packed twice, fill
600 MB before anyone can count them. Here no step gives more than 64 KB, and nothing is unpacked twice.
"""

import zlib
from collections.abc import Iterator

import httpx

ACCEPT_ENCODING = "gzip"
_STEP = 65_536
_GZIP = 31
"""The window bits of zlib that stand for gzip: https://docs.python.org/3/library/zlib.html#zlib.decompressobj"""


def pieces(response: httpx.Response) -> Iterator[bytes]:
    """Give the body of a response that is being streamed, unpacked, in pieces of some 64 KB.

    Raises:
        httpx.DecodingError: it is not what Content-Encoding says, ends too early, or is packed as nobody asked for.
    """
    coding = response.headers.get("content-encoding", "identity").strip().lower()
    if coding in {"", "identity"}:
        yield from response.iter_raw()
    elif coding == ACCEPT_ENCODING:
        yield from _unpacked(response.iter_raw())
    else:
        raise httpx.DecodingError(f"the body is packed as {coding[:50]!r}, which was not asked for")


def _unpacked(wire: Iterator[bytes]) -> Iterator[bytes]:
    unpacker = zlib.decompressobj(_GZIP)
    packed = b""
    try:
        for packed in wire:
            rest = packed
            while piece := unpacker.decompress(rest, _STEP):
                yield piece
                rest = unpacker.unconsumed_tail
    except zlib.error as error:
        raise httpx.DecodingError(str(error)) from None
    if packed and not unpacker.eof:  # an answer without a body (304) may carry the header all the same
        raise httpx.DecodingError("the packed body ends too early")
