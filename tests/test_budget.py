"""An upstream that asks to wait is waited for, once for all threads, or the scope ends with the time to come back."""

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestion.errors import ConfigurationError, TransientError
from resources.budget import seconds_asked
from tests.faultserver.faults import Fault, Response
from tests.faultserver.server import FaultServer
from tests.http_support import NOW, PAYLOAD, Clock, believe, client, fail, payload, talk

AHEAD = 3_600
"""Our clock is that many seconds behind the upstream's."""
DATE = {"Date": formatdate(NOW + AHEAD, usegmt=True)}
DAY = 86_400
UNSAID = 60 / 16
NO_QUOTA = {"X-RateLimit-Remaining": "0"}
HUGE_DAY = f"Mon, {10**20} Jan 2026 00:00:00 GMT"
SECONDARY = b'{"message": "You have exceeded a secondary rate limit. Please wait a few minutes."}'
ABUSE = b'{"message": "You have triggered an abuse detection mechanism."}'


def at(seconds: float) -> str:
    """Give the instant so many seconds from now by the upstream's clock."""
    return str(int(NOW + AHEAD + seconds))


ASKED: dict[str, tuple[int, Mapping[str, str], float]] = {
    "429, seconds": (429, {"Retry-After": "7"}, 7),
    "429, a date": (429, {"Retry-After": formatdate(NOW + AHEAD + 30, usegmt=True)}, 30),
    "503, seconds": (503, {"Retry-After": "5"}, 5),
    "403, seconds": (403, {"Retry-After": "15"}, 15),
    "403, an instant": (403, {**NO_QUOTA, "X-RateLimit-Reset": at(40)}, 40),
    "429, an instant": (429, {**NO_QUOTA, "X-RateLimit-Reset": at(41)}, 41),
    "429, an instant in milliseconds": (429, {**NO_QUOTA, "X-RateLimit-Reset": at(42) + "500"}, 42.5),
    "429, a number of seconds": (429, {"RateLimit-Remaining": "0", "RateLimit-Reset": "12"}, 12),
    "429, with another hyphen": (429, {"X-Rate-Limit-Remaining": "0", "X-Rate-Limit-Reset": at(43)}, 43),
    "nonsense, then an instant": (429, {"Retry-After": "soon", **NO_QUOTA, "X-RateLimit-Reset": at(44)}, 44),
    "seconds win over an instant": (403, {"Retry-After": "9", **NO_QUOTA, "X-RateLimit-Reset": at(3_000)}, 9),
}


@pytest.mark.parametrize("asked", ASKED)
def test_it_waits_as_long_as_it_is_asked_to(asked: str) -> None:
    status, headers, seconds = ASKED[asked]
    with talk() as it:
        fail(it.server, Fault.status(status, headers={**DATE, **headers}), 1)
        assert it.http.get("x").json == PAYLOAD
        assert it.clock.slept == pytest.approx([seconds])
        assert len(it.server.requests) == 2


@pytest.mark.parametrize("value", ["soon", "", "-5", "1e400", "NaN", "inf", "٣ Mai 2026", HUGE_DAY])
@pytest.mark.parametrize("name", ["Retry-After", "X-RateLimit-Reset"])
def test_nonsense_is_waited_for_as_if_nothing_was_said(name: str, value: str) -> None:
    with talk() as it:
        headers = {**DATE, **NO_QUOTA, name: value.encode().decode("latin-1")}
        fail(it.server, Fault.status(429, headers=headers), 2)
        assert it.http.get("x").json == PAYLOAD
        assert it.clock.slept == pytest.approx([UNSAID, 2 * UNSAID])


@pytest.mark.parametrize("name", ["Retry-After", "X-RateLimit-Reset"])
def test_no_wait_at_all_is_a_short_one_that_grows(name: str) -> None:
    with talk() as it:
        fail(it.server, Fault.status(403, SECONDARY, {**NO_QUOTA, name: "0"}), 3)
        assert it.http.get("x").json == PAYLOAD
        assert it.clock.slept == pytest.approx([1, 2, 4])


@pytest.mark.parametrize("body", [SECONDARY, ABUSE], ids=["secondary", "abuse"])
def test_a_secondary_limit_that_says_no_time_is_waited_for_by_minutes(body: bytes) -> None:
    with talk(longest_wait=1_000) as it:
        fail(it.server, Fault.status(403, body), 4)
        assert it.http.get("x").json == PAYLOAD
        assert it.clock.slept == pytest.approx([60, 120, 240, 480])


def test_a_secondary_limit_that_says_a_time_is_taken_at_its_word() -> None:
    with talk() as it:
        fail(it.server, Fault.status(403, SECONDARY, {"Retry-After": "20"}), 2)
        it.http.get("x")
        assert it.clock.slept == pytest.approx([20, 20])


def test_a_refusal_that_is_no_limit_is_not_waited_for() -> None:
    with talk() as it:
        headers = {"X-RateLimit-Remaining": "4999", "X-RateLimit-Reset": at(3_000)}
        fail(it.server, Fault.status(403, b'{"message": "Resource not accessible"}', headers))
        with pytest.raises(ConfigurationError, match="403 Resource not accessible"):
            it.http.get("x")
        assert (len(it.server.requests), it.clock.slept) == (1, [])


def test_an_old_reset_does_not_make_it_knock_without_a_pause() -> None:
    with talk() as it:
        fail(it.server, Fault.status(403, headers={**DATE, **NO_QUOTA, "X-RateLimit-Reset": at(-10)}), 2)
        it.http.get("x")
        assert it.clock.slept == pytest.approx([1, 2])


def test_the_last_request_of_a_quota_is_not_followed_by_one_in_vain() -> None:
    with talk() as it:
        answer = Response.json(PAYLOAD, headers={**DATE, **NO_QUOTA, "X-RateLimit-Reset": at(50)})
        it.server.at(0, Fault.replaced(lambda _response: answer))
        it.http.get("x")
        assert it.clock.slept == []
        it.http.get("x")
        assert it.clock.slept == pytest.approx([50])
        assert len(it.server.requests) == 2


def test_a_wait_that_is_too_long_ends_the_scope_until_then() -> None:
    with talk() as it:
        it.clock.instant += 0.4
        it.server.at(0, Fault.status(429, headers={"Retry-After": "3600"}))
        with pytest.raises(TransientError, match="lets us ask again at 09:00:01 UTC") as caught:
            it.http.get("x")
        assert caught.value.resumes_at == datetime.fromtimestamp(NOW + 3_601, UTC)
        for _ in range(9):
            with pytest.raises(TransientError) as again:
                it.http.get("y")
            assert again.value.resumes_at == caught.value.resumes_at, "who goes away keeps no place in the row"
        assert (len(it.server.requests), it.clock.slept) == (1, [])
        it.clock.instant = caught.value.resumes_at.timestamp()
        assert it.http.get("x").json == PAYLOAD


def test_a_year_is_not_believed() -> None:
    with talk() as it:
        it.server.at(0, Fault.status(503, headers={"Retry-After": "31536000"}))
        with pytest.raises(TransientError) as caught:
            it.http.get("x")
        assert caught.value.resumes_at == datetime.fromtimestamp(NOW + DAY, UTC)


def test_a_limit_that_stays_ends_the_scope_until_the_last_said_time() -> None:
    with talk() as it:
        fail(it.server, Fault.status(429, headers={"Retry-After": "7"}))
        with pytest.raises(TransientError, match=r"429 asks to wait 7 s .*; gave up after 5 attempts") as caught:
            it.http.get("x")
        assert caught.value.resumes_at == datetime.fromtimestamp(it.clock.instant + 7, UTC)
        assert (len(it.server.requests), it.clock.slept) == (5, [7] * 4)


class Crowd(Clock):
    """A clock for threads: time moves once all of them sleep."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._barrier = threading.Barrier(count, timeout=20)
        self._lock = threading.Lock()

    def sleep(self, seconds: float) -> None:
        if seconds:
            wakes_at = self.instant + seconds
            self._barrier.wait()
            with self._lock:
                self.slept.append(seconds)
                self.instant = max(self.instant, wakes_at)


def test_threads_share_the_gate_and_are_let_through_one_after_another() -> None:
    count = 5
    crowd = Crowd(count)
    with talk() as it, ThreadPoolExecutor(count) as pool:
        it.server.at(0, Fault.replaced(lambda response: response.having(**NO_QUOTA, RateLimit_Reset="10")))
        it.http.get("x")
        clients = [client(it.server.url, it.token, crowd) for _ in range(count)]
        answers = list(pool.map(lambda one: one.get("x").json, clients))
        for one in clients:
            one.close()
        assert answers == [PAYLOAD] * count
        assert sorted(crowd.slept) == pytest.approx([10, 10.25, 10.5, 10.75, 11])
        assert len(it.server.requests) == 1 + count


def test_a_limit_met_by_several_threads_at_once_holds_for_all_of_them() -> None:
    count = 4
    crowd, arrived = Crowd(count), threading.Barrier(count, timeout=20)
    with talk() as it, client(it.server.url, it.token, crowd) as http, ThreadPoolExecutor(count) as pool:
        limit = Fault.status(429, headers={"Retry-After": "10"})
        it.server.when(lambda _request: crowd.instant < NOW + 10, limit)

        def ask(_number: int) -> object:
            arrived.wait()
            return http.get("x").json

        assert list(pool.map(ask, range(count))) == [PAYLOAD] * count
        assert len(crowd.slept) == count
        assert min(crowd.slept) == pytest.approx(10)
        assert len({round(seconds, 3) for seconds in crowd.slept}) > 1, "not all at once"


def test_neither_another_credential_nor_another_host_is_held_up() -> None:
    with talk() as it, it.again("another token") as other, FaultServer(payload) as host:
        it.server.at(0, Fault.status(429, headers={"Retry-After": "3600"}))
        with pytest.raises(TransientError):
            it.http.get("x")
        with client(host.url, it.token, it.clock) as elsewhere:
            assert other.get("x").json == elsewhere.get("x").json == PAYLOAD
        assert it.clock.slept == []


def test_another_client_of_the_same_credential_is_held_up() -> None:
    with talk() as it, it.again() as same:
        it.server.at(0, Fault.status(429, headers={"Retry-After": "3600"}))
        for http in (it.http, same):
            with pytest.raises(TransientError, match="lets us ask again"):
                http.get("x")
        assert len(it.server.requests) == 1


def test_the_limit_of_a_foreign_host_does_not_close_our_own() -> None:
    with talk() as it, FaultServer(payload) as foreign:
        believe(it.http, it.server, foreign)
        fail(foreign, Fault.status(429, headers={"Retry-After": "3600"}))
        with pytest.raises(TransientError, match="429") as caught:
            it.http.download(f"{foreign.url}/file")
        assert caught.value.resumes_at is None
        it.clock.slept.clear()
        it.http.get("x")
        assert it.clock.slept == []


def test_our_own_limit_does_not_hold_up_what_is_elsewhere() -> None:
    with talk() as it, FaultServer(payload) as foreign:
        believe(it.http, it.server, foreign)
        it.server.at(0, Fault.status(429, headers={"Retry-After": "3600"}))
        with pytest.raises(TransientError):
            it.http.get("x")
        assert it.http.download(f"{foreign.url}/file").json == PAYLOAD
        assert it.clock.slept == []


NUMBERS = st.floats().map(str) | st.integers().map(str) | st.datetimes().map(str)
VALUES = (
    NUMBERS | st.text(max_size=40) | st.from_regex(r"\A[A-Z][a-z]{2}, \d+ [A-Z][a-z]{2} \d+ \d+:\d+:\d+ [+-]?\w+\Z")
)


@given(st.dictionaries(st.sampled_from(["retry-after", "date", "x-ratelimit-reset", "ratelimit-reset"]), VALUES))
def test_whatever_is_asked_for_is_a_time_to_wait_or_nothing(headers: dict[str, str]) -> None:
    seconds = seconds_asked({"x-ratelimit-remaining": "0", **headers}, NOW)
    assert seconds is None or 0 <= seconds <= DAY
