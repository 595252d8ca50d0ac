"""No answer takes more memory than it may, however it is packed and whatever it announces."""

import gzip
import json
import tracemalloc
import zlib
from collections.abc import Iterator

import pytest

from ingestion.errors import ConnectorError, RecordError, TransientError
from resources.http import Http
from tests.faultserver.faults import Fault, Response
from tests.http_support import PAYLOAD, Clock, Talk, fail, talk

CAP = 1_000_000
SLACK = 1_000_000
"""What else is allocated meanwhile, by the server as well."""


@pytest.fixture
def it() -> Iterator[Talk]:
    with talk() as it:
        yield it


@pytest.fixture
def small(it: Talk) -> Iterator[Http]:
    with Http(it.server.url, max_bytes=CAP) as http:
        yield http


def packed(body: bytes, coding: str = "gzip") -> Fault:
    return Fault.replaced(lambda _response: Response(200, body, {"Content-Encoding": coding}))


@pytest.mark.parametrize("is_announced", [True, False])
def test_a_body_that_is_too_large_is_not_read_to_its_end(it: Talk, small: Http, is_announced: bool) -> None:  # noqa: FBT001 -- a parameter of the test
    fail(it.server, Fault.oversized(50 * CAP, is_announced=is_announced))
    tracemalloc.start()
    try:
        with pytest.raises(ConnectorError, match="sends more than 1,000,000 bytes"):
            small.get("x")
        with pytest.raises(RecordError, match="sends more than 1,000,000 bytes"):
            small.download("x")
        assert tracemalloc.get_traced_memory()[1] < CAP + SLACK
    finally:
        tracemalloc.stop()
    assert len(it.server.requests) == 2


def test_what_fits_is_read(it: Talk, small: Http) -> None:
    body = json.dumps(["x" * (CAP - 4)]).encode()
    faults = [packed(body, "identity"), packed(gzip.compress(body)), packed(body[:-1] + b" ]", "identity")]
    for number, fault in enumerate(faults):
        it.server.at(number, fault)
    assert [len(small.get("x", kind=list).body) for _ in range(2)] == [CAP, CAP]
    with pytest.raises(ConnectorError, match="more than"):
        small.get("x", kind=list)


def test_a_bomb_is_unpacked_to_the_cap_and_no_further(it: Talk, small: Http) -> None:
    bomb = gzip.compress(bytes(60 * CAP))
    fail(it.server, packed(bomb))
    tracemalloc.start()
    try:
        with pytest.raises(ConnectorError, match="sends more than 1,000,000 bytes"):
            small.get("x")
        assert tracemalloc.get_traced_memory()[1] < CAP + SLACK
    finally:
        tracemalloc.stop()


def test_a_bomb_below_the_cap_is_known_by_its_ratio(it: Talk) -> None:
    fail(it.server, Fault.gzip_bomb(20_000_000))
    with pytest.raises(ConnectorError, match="decompresses to more than 200 times its size"):
        it.http.get("x")
    assert len(it.server.requests) == 1


def test_a_small_body_may_repeat_itself(it: Talk) -> None:
    body = json.dumps(["0" * 4_900_000]).encode()
    fail(it.server, packed(gzip.compress(body)))
    assert it.http.get("x", kind=list).body == body


def test_a_bomb_within_a_bomb_is_not_opened(it: Talk) -> None:
    bomb = gzip.compress(gzip.compress(bytes(100 * CAP)))
    assert len(bomb) < 1_000
    fail(it.server, packed(bomb, "gzip, gzip"))
    tracemalloc.start()
    try:
        with pytest.raises(TransientError, match="packed as 'gzip, gzip', which was not asked for"):
            it.http.get("x")
        assert tracemalloc.get_traced_memory()[1] < SLACK
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("coding", ["gzip", "GZIP", " gzip "])
def test_a_packed_body_is_unpacked(it: Talk, coding: str) -> None:
    body = json.dumps([*range(100_000)]).encode()
    fail(it.server, packed(gzip.compress(body), coding))
    assert it.http.get("x", kind=list).body == body
    assert it.server.requests[0].headers["accept-encoding"] == "gzip"


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.99])
def test_a_packed_body_that_ends_early_is_fetched_again(it: Talk, kept: float) -> None:
    body = gzip.compress(json.dumps(PAYLOAD).encode())
    fail(it.server, packed(body[: int(kept * len(body)) or 1]), 1)
    assert it.http.download("file").json == PAYLOAD
    assert len(it.server.requests) == 2


def test_a_packed_body_with_a_wrong_checksum_is_fetched_again(it: Talk) -> None:
    body = gzip.compress(json.dumps(PAYLOAD).encode())
    fail(it.server, packed(body[:-8] + zlib.crc32(b"another").to_bytes(4, "little") + body[-4:]), 1)
    assert it.http.download("file").json == PAYLOAD
    assert len(it.server.requests) == 2


def test_no_body_is_none_however_it_is_packed() -> None:
    with talk(lambda _request: Response(404, b"", {"Content-Encoding": "gzip"})) as it:
        assert it.http.get("x", accept=(404,)).body == b""
        assert it.clock == Clock()
