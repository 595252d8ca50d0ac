"""A URL that came from data reaches public addresses alone, however the others are written."""

import ipaddress
from collections.abc import Iterator

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pytest_socket import SocketConnectBlockedError

from ingestion.errors import RecordError, TransientError, TributaryError
from resources.guard import forbidden
from tests.faultserver.faults import Fault
from tests.faultserver.server import FaultServer
from tests.http_support import Clock, Talk, client, payload, talk

V4, V6 = st.ip_addresses(v=4), st.ip_addresses(v=6)
LOCAL_NAT64 = ipaddress.ip_network("64:ff9b:1::/48")
PUBLIC = "93.184.215.14"
WIDE = [
    "127.0.0.1".translate({ord(digit): ord(digit) + 0xFEE0 for digit in "0127"}),  # full-width digits
    "127.0.0.1".replace(".", "\u3002"),  # ideographic full stops
    "127.0.0.1".replace("127", "\u2460\u2461\u2466"),  # digits in circles
]


@pytest.fixture
def it() -> Iterator[Talk]:
    with talk() as it:
        yield it


@pytest.fixture
def other() -> Iterator[FaultServer]:
    """A service on this machine that is nobody's business."""
    with FaultServer(payload) as other:
        yield other


def port(server: FaultServer) -> int:
    return int(server.url.rpartition(":")[2])


class Names:
    """A resolver that gives other addresses each time, and the last ones for ever."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def __call__(self, host: str, _port: int) -> list[str]:
        self.asked.append(host)
        return self.answers[min(len(self.asked), len(self.answers)) - 1]


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("0.0.0.0", "unspecified"),  # noqa: S104 -- refused
        ("0.1.2.3", "not public"),
        ("10.1.2.3", "not public"),
        ("100.64.0.1", "not public"),
        ("127.0.0.1", "loopback"),
        ("127.255.255.254", "loopback"),
        ("169.254.169.254", "link-local"),
        ("172.31.255.255", "not public"),
        ("192.0.2.1", "not public"),
        ("192.168.0.1", "not public"),
        ("198.18.0.1", "not public"),
        ("224.0.0.1", "multicast"),
        ("240.0.0.1", "not public"),
        ("255.255.255.255", "not public"),
        ("::", "unspecified"),
        ("::1", "loopback"),
        ("fe80::1", "link-local"),
        ("fe80::1%eth0", "link-local"),
        ("fd00:ec2::254", "not public"),
        ("fec0::1", "not public"),
        ("ff02::1", "multicast"),
        ("2001:db8::1", "not public"),
        ("100::1", "not public"),
        ("::ffff:10.0.0.1", "not public"),
        ("::ffff:169.254.169.254", "link-local"),
        ("::127.0.0.1", "loopback"),
        ("::ffff:0:127.0.0.1", "not public"),
        ("64:ff9b::169.254.169.254", "link-local"),
        ("64:ff9b:1::10.0.0.1", "not public"),
        ("2002:7f00:1::", "loopback"),
        ("2001:0:5db8:d70e::f5ff:fffe", "not public"),
    ],
)
def test_what_is_not_public_is_forbidden_and_the_reason_names_it(address: str, reason: str) -> None:
    text = forbidden(address)
    assert text is not None
    assert reason in text
    assert address in text


@pytest.mark.parametrize(
    "address",
    [PUBLIC, "8.8.8.8", "100.128.0.1", "172.32.0.1", "2606:4700::1111", f"::ffff:{PUBLIC}", f"64:ff9b::{PUBLIC}"],
)
def test_a_public_address_is_not_forbidden(address: str) -> None:
    assert forbidden(address) is None


@given(V4 | V6)
def test_whatever_the_standard_library_calls_private_is_forbidden(
    ip: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    assume(ip.is_private and ip not in LOCAL_NAT64)  # its last 32 bits decide
    assert forbidden(str(ip)) is not None


@given(V4)
def test_an_address_within_another_is_judged_as_itself(ip: ipaddress.IPv4Address) -> None:
    high, low = divmod(int(ip), 0x10000)
    inner = f"{high:x}:{low:x}"
    wrapped = [f"::ffff:{inner}", f"64:ff9b::{inner}", f"64:ff9b:1::{inner}", f"2002:{inner}::"]
    assert {forbidden(address) is None for address in wrapped} == {forbidden(str(ip)) is None}


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "2130706433",
        "017700000001",
        "0x7f000001",
        "0x7f.0.0.1",
        "0177.1",
        "127.1",
        "127.0.1",
        "0",
        "0.0.0.0",  # noqa: S104 -- refused
        "localhost",
        "LocalHost",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[2002:7f00:1::]",
        "user:password@127.0.0.1",
    ],
)
def test_every_way_to_write_this_machine_is_refused(it: Talk, other: FaultServer, host: str) -> None:
    for way in (f"http://{host}:{port(other)}/x", f"//{host}:{port(other)}/x"):
        with pytest.raises(RecordError, match=r"refused to connect .* is (a loopback|unspecified).* not a host of"):
            it.http.download(way)
    assert (other.requests, it.server.requests, it.clock.slept) == ([], [], [])


@pytest.mark.parametrize("host", ["0177.0.0.01", *WIDE, "[fe80::1%25lo]", "[::1%25lo]", "%31.0.0.1"])
def test_what_is_no_host_reaches_nothing(it: Talk, other: FaultServer, host: str) -> None:
    with pytest.raises(TributaryError):
        it.http.download(f"http://{host}:{port(other)}/x")
    assert other.requests == []


@pytest.mark.parametrize("url", ["http://169.254.169.254/latest/meta-data/", "http://[fd00:ec2::254]/latest"])
def test_a_metadata_service_is_refused(it: Talk, url: str) -> None:
    with pytest.raises(RecordError, match=r"link-local|not public"):
        it.http.download(url)


@pytest.mark.parametrize("name", ["files.test", "files.test.", "FILES.TEST", "127.0.0.1.files.test"])
@pytest.mark.parametrize("addresses", [["127.0.0.1"], [PUBLIC, "127.0.0.1"], ["127.0.0.1", PUBLIC]], ids="+".join)
def test_a_name_with_one_private_address_is_refused(other: FaultServer, name: str, addresses: list[str]) -> None:
    refused = pytest.raises(RecordError, match=r"127\.0\.0\.1 is a loopback address")
    with client("http://home.test", "token", Clock(), Names(addresses)) as http, refused:
        http.download(f"http://{name}:{port(other)}/x")
    assert other.requests == []


def test_a_name_is_resolved_once_and_the_checked_address_is_connected_to() -> None:
    names = Names([PUBLIC], ["127.0.0.1"])
    blocked = pytest.raises(SocketConnectBlockedError, match=PUBLIC)  # the test run lets nothing out
    with client("http://home.test", "token", Clock(), names) as http, blocked:
        http.download("http://rebinding.test/x")
    assert names.asked == ["rebinding.test"]


def test_a_name_that_changes_between_two_requests_is_checked_again(other: FaultServer) -> None:
    names = Names([PUBLIC], ["127.0.0.1"])
    url = f"http://rebinding.test:{port(other)}/x"
    with client("http://home.test", "token", Clock(), names) as http:
        with pytest.raises(SocketConnectBlockedError, match=PUBLIC):
            http.download(url)
        with pytest.raises(RecordError, match="loopback"):
            http.download(url)
    assert other.requests == []


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1", "localhost", "[::1]"])
def test_a_redirect_to_this_machine_is_refused(it: Talk, other: FaultServer, host: str) -> None:
    it.server.at(0, Fault.redirect("/second"))
    it.server.at(1, Fault.redirect(f"http://{host}:{port(other)}/x"))
    with pytest.raises(RecordError, match=r"refused to connect .* loopback"):
        it.http.download("file")
    assert (len(it.server.requests), other.requests) == (2, [])


def test_another_port_of_our_own_host_is_refused(it: Talk, other: FaultServer) -> None:
    with pytest.raises(RecordError, match=r"not a host of sources.yaml"):
        it.http.download(f"{other.url}/x")
    assert other.requests == []


def test_our_own_host_may_be_private() -> None:
    with talk() as it, client(f"http://home.test:{port(it.server)}", "token", it.clock, Names(["127.0.0.1"])) as named:
        for http, base in ((it.http, it.server.url), (named, f"http://Home.TEST:{port(it.server)}")):
            assert http.get("x").status == http.download(f"{base}/file").status == http.download("file").status == 200
        assert len(it.server.requests) == 6


def test_our_own_host_is_our_own_by_the_name_it_was_given(it: Talk) -> None:
    for url in (f"http://localhost:{port(it.server)}/x", f"http://127.1:{port(it.server)}/x"):
        with pytest.raises(RecordError, match="loopback"):
            it.http.download(url)
    assert it.server.requests == []


def test_the_next_address_of_our_host_is_tried() -> None:
    names = Names(["::1", "127.0.0.1"])
    with talk() as it, client(f"http://home.test:{port(it.server)}", "token", it.clock, names) as http:
        assert http.get("x").status == 200
        assert (len(it.server.requests), it.clock.slept) == (1, [])


@pytest.mark.parametrize("addresses", [[], ["::1"]], ids=["none", "one where nobody listens"])
def test_a_host_that_cannot_be_reached_may_be_so_later(addresses: list[str]) -> None:
    with talk() as it, client(f"http://home.test:{port(it.server)}", "token", it.clock, Names(addresses)) as http:
        with pytest.raises(TransientError, match=r"home.test.*gave up after 5 attempts"):
            http.get("x")
        assert len(it.clock.slept) == 4


def test_a_name_that_cannot_be_looked_up_ends_the_download_for_now(it: Talk) -> None:
    label = 64 * "a"  # too long: no name server is asked
    with pytest.raises(TransientError, match=f"{label}.test cannot be resolved"):
        it.http.download(f"http://{label}.test/x")
