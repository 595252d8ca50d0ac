"""An HTTP/1.1 server on loopback that answers by a function, logs what it was asked, and misbehaves as it is told.

    with FaultServer(handler) as server:
        server.at(3, Fault.status(500))                                      # the request of that number, once
        server.when(lambda request: request.path == "/slow", Fault.delay(2)) # every request like this
        httpx.get(server.url + "/slow")
        assert [request.path for request in server.requests] == ["/slow"]

Requests are counted from 0. Answers are made one at a time, in the order of the log, so a handler needs no locks.
"""

import socket
import socketserver
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Any, Self, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.faultserver.faults import Fault, Response, Wire, send_whole

Handler = Callable[["Request"], Response]
Hook = Callable[[int, "Request"], None]
Predicate = Callable[["Request"], bool]


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it arrived."""

    number: int
    """Its place in the log, from 0."""
    method: str
    path: str
    """Percent-decoded, without the query."""
    query: tuple[tuple[str, str], ...]
    """Decoded as forms are: a bare `+` is a space."""
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes = b""

    def first(self, name: str, default: str = "") -> str:
        """Give a query parameter's first value."""
        return next((value for key, value in self.query if key == name), default)

    @property
    def origin(self) -> str:
        """Scheme and host as the client named them, for absolute URLs in the answer."""
        return f"http://{self.headers['host']}"


@dataclass(slots=True)
class _Rule:
    predicate: Predicate
    fault: Fault
    times: int | None


class FaultServer:
    """The server; as a context manager it listens, and closes every connection at the end.

    Raises:
        ExceptionGroup: on leaving, with what the handler or the hook raised; the client saw a closed connection.
    """

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.before_request: Hook = _nothing
        """Called with number and request before the answer is made: here a test lets the world move."""
        self._lock = threading.RLock()
        self._log: list[Request] = []
        self._numbered: dict[int, Fault] = {}
        self._rules: list[_Rule] = []
        self._listener = _Listener(self)
        self._thread = threading.Thread(target=self._listener.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def url(self) -> str:
        """Scheme, host and port, without a slash at the end."""
        return f"http://127.0.0.1:{self._listener.server_address[1]}"

    @property
    def requests(self) -> list[Request]:
        """What was asked since the start or the last `reset_log`."""
        with self._lock:
            return list(self._log)

    def reset_log(self) -> None:
        """Forget the requests; the next one is number 0."""
        with self._lock:
            self._log.clear()

    def at(self, number: int, fault: Fault) -> None:
        """Let the request of this number fail, once."""
        with self._lock:
            self._numbered[number] = fault

    def when(self, predicate: Predicate, fault: Fault, times: int | None = None) -> None:
        """Let the next `times` (None: all) requests of a kind fail; a fault by number goes first."""
        with self._lock:
            self._rules.append(_Rule(predicate, fault, times))

    def calm(self) -> None:
        """Drop every fault and the hook, and reset the log."""
        with self._lock:
            self._numbered.clear()
            self._rules.clear()
            self.before_request = _nothing
            self._log.clear()

    def answer(self, **parts: Any) -> tuple[Response, Fault | None]:  # noqa: ANN401  # the fields of Request, but its number
        """Log a request and make the answer to it, and say which fault it leaves with."""
        with self._lock:
            request = Request(number=len(self._log), **parts)
            self._log.append(request)
            self.before_request(request.number, request)
            fault = self._numbered.pop(request.number, None) or self._by_rule(request)
            return self.handler(request), fault

    def _by_rule(self, request: Request) -> Fault | None:
        for rule in self._rules:
            if rule.times != 0 and rule.predicate(request):
                rule.times = None if rule.times is None else rule.times - 1
                return rule.fault
        return None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.stop()
        self._thread.join()
        if self._listener.errors and error is None:
            raise ExceptionGroup("while the fault server answered", self._listener.errors)


class _Listener(socketserver.ThreadingTCPServer):
    """Accepts, with a thread per connection; knows the open connections, to end them."""

    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, owner: FaultServer) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.owner = owner
        self.is_closing = threading.Event()
        self.errors: list[Exception] = []
        self._open: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401  # as the base has it
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401  # as the base has it
        """Close without the base's shutdown, which would send a FIN where a fault wants a reset."""
        self._open.discard(request)
        request.close()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401, ARG002  # as the base has it
        """Keep what the handler raised; a client that went away is none of it."""
        error = sys.exception()
        if isinstance(error, Exception) and not isinstance(error, ConnectionError):
            self.errors.append(error)

    def stop(self) -> None:
        """End the listening, every wait and every connection, and join their threads."""
        self.is_closing.set()
        self.shutdown()
        for connection in list(self._open):
            with suppress(OSError):  # it was just closed by its thread
                connection.shutdown(socket.SHUT_RDWR)
        self.server_close()


class _Connection(BaseHTTPRequestHandler):
    """One keep-alive connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def _answer(self) -> None:
        listener = cast("_Listener", self.server)
        target = urlsplit(self.path)
        response, fault = listener.owner.answer(
            method=self.command,
            path=unquote(target.path),
            query=tuple(parse_qsl(target.query, keep_blank_values=True)),
            headers={name.lower(): value for name, value in self.headers.items()},
            body=self.rfile.read(int(self.headers.get("content-length", 0))),
        )
        wire = Wire(self.connection, listener.is_closing)
        if fault is None:
            send_whole(wire, response)
        else:
            fault.send(wire, fault.change(response))
        self.close_connection = self.close_connection or wire.is_finished

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815  # the base looks for these names


def _nothing(_number: int, _request: Request) -> None:
    pass
