"""A client and a server that it talks to over a socket, with a clock that only sleeping moves."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypedDict, Unpack
from uuid import uuid4

from resources.guard import GuardedTransport, Resolve, resolve
from resources.http import MAX_BYTES, Http
from resources.sender import Patience, Sender
from tests.faultserver.faults import Fault, Response, Wire
from tests.faultserver.server import FaultServer, Handler, Request

PAYLOAD = {"text": "a body of some length, to be cut in the middle"}
NOW = 1_800_000_000.0


@dataclass
class Clock:
    """Tells the time, and how long who slept."""

    instant: float = NOW
    slept: list[float] = field(default_factory=list)

    def now(self) -> float:
        return self.instant

    def sleep(self, seconds: float) -> None:
        if seconds:  # after a limit, the wait is at the gate
            self.slept.append(seconds)
        self.instant += seconds


@dataclass
class Talk:
    """Both ends."""

    server: FaultServer
    http: Http
    clock: Clock
    token: str

    def again(self, token: str | None = None) -> Http:
        """Make another client of the same host, to be closed by the caller."""
        return client(self.server.url, token or self.token, self.clock)


class Numbers(TypedDict, total=False):
    """The numbers of Patience, for tests to name the ones that matter."""

    attempts: int
    longest_wait: float
    longest_request: float


def client(url: str, token: str, clock: Clock, resolver: Resolve = resolve, **patience: Unpack[Numbers]) -> Http:
    """Make a client that sleeps by the clock."""
    return Http(
        url,
        authorization=f"Bearer {token}",
        patience=Patience(sleep=clock.sleep, now=clock.now, **patience),
        resolver=resolver,
    )


def payload(_request: Request) -> Response:
    """Answer everything with the same."""
    return Response.json(PAYLOAD)


@contextmanager
def talk(handler: Handler = payload, **patience: Unpack[Numbers]) -> Iterator[Talk]:
    """Serve, and be a client; the token is one of its own, as budgets and remembered answers outlive a client."""
    clock, token = Clock(), f"{uuid4().hex}/+{uuid4().hex}"
    with FaultServer(handler) as server, client(server.url, token, clock, **patience) as http:
        yield Talk(server, http, clock, token)


def fail(server: FaultServer, fault: Fault, times: int | None = None) -> None:
    """Let whatever is asked fail."""
    server.when(lambda _request: True, fault, times)


def believe(http: Http, *servers: FaultServer) -> None:
    """Let the client take these loopback servers for public ones: there are no others to connect to in a test."""
    trusted = {("127.0.0.1", int(server.url.rpartition(":")[2])) for server in servers}
    before = http._sender
    before.close()
    transport = GuardedTransport(trusted, verify=True)
    http._sender = Sender(transport, http._home, http._authorization, MAX_BYTES, before._patience)


def drip_headers(wire: Wire, _response: Response) -> None:
    """Send a header that never ends, a byte at a time."""
    wire.finish()
    wire.send(b"HTTP/1.1 200 OK\r\nX-Endless: ")
    while wire.wait(0.01):
        wire.send(b"x")
