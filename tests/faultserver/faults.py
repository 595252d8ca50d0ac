"""What a server may answer, and the ways in which an answer goes wrong on its way out: faults are data.

A fault changes the answer, or the way in which it is sent, or both: `change` gives another response, `send` writes it
to the connection.
"""

import json
import socket
import struct
import threading
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from functools import cache
from http import HTTPStatus
from typing import Self

CHUNK = 64 * 1024
_NO_BODY = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})


@dataclass(frozen=True, slots=True)
class Response:
    """An answer; Content-Length and Date are added when it is sent, unless it names its own."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def json(cls, payload: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Self:
        """Answer with a payload as JSON."""
        kind = {"Content-Type": "application/json; charset=utf-8"}
        return cls(status, json.dumps(payload).encode(), kind | dict(headers or {}))

    def having(self, **headers: str) -> Self:
        """Add headers; an underscore in a name stands for a hyphen."""
        return replace(
            self, headers={**self.headers, **{key.replace("_", "-"): value for key, value in headers.items()}}
        )

    @property
    def head(self) -> bytes:
        """The status line and the headers, to the empty line."""
        phrase = HTTPStatus(self.status).phrase if self.status in HTTPStatus._value2member_map_ else "Unknown"
        given = {name.lower() for name in self.headers}
        added = {"Date": formatdate(usegmt=True)}
        if self.status not in _NO_BODY and "transfer-encoding" not in given:
            added["Content-Length"] = str(len(self.body))
        lines = [f"HTTP/1.1 {self.status} {phrase}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        lines += [f"{name}: {value}" for name, value in added.items() if name.lower() not in given]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


class Wire:
    """A connection as a fault sees it."""

    def __init__(self, connection: socket.socket, is_closing: threading.Event) -> None:
        self._connection = connection
        self._is_closing = is_closing
        self.is_finished = False
        """The connection is closed after this answer."""

    def send(self, data: bytes) -> None:
        """Write; raises ConnectionError when the client has gone."""
        self._connection.sendall(data)

    def wait(self, seconds: float) -> bool:
        """Wait, but no longer than the server lives; tells whether it still does."""
        return not self._is_closing.wait(seconds)

    def finish(self) -> None:
        """Close after this answer."""
        self.is_finished = True

    def reset(self) -> None:
        """Close with a RST instead of a FIN: https://man7.org/linux/man-pages/man7/socket.7.html (SO_LINGER)."""
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.is_finished = True


Change = Callable[[Response], Response]
Send = Callable[[Wire, Response], None]


def send_whole(wire: Wire, response: Response) -> None:
    """Send an answer as it should be."""
    wire.send(response.head + response.body)


def _same(response: Response) -> Response:
    return response


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to fail; each classmethod makes one kind."""

    change: Change = _same
    send: Send = send_whole

    @classmethod
    def replaced(cls, change: Change) -> Self:
        """Answer with whatever the function makes of the right answer."""
        return cls(change=change)

    @classmethod
    def status(cls, status: int, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> Self:
        """Answer with a status, by default with a message in JSON as APIs send it."""
        if status in _NO_BODY:
            return cls(change=lambda _response: Response(status, b"", headers or {}))
        message = Response.json({"message": f"fault {status}"}, status, headers)
        return cls(change=lambda _response: message if body is None else replace(message, body=body))

    @classmethod
    def redirect(cls, url: str, status: int = 302) -> Self:
        """Send the client to another URL."""
        return cls.status(status, b"", {"Location": url})

    @classmethod
    def html(cls, text: str = "<!doctype html><title>Please sign in</title><h1>Sign in to the proxy</h1>") -> Self:
        """Answer 200 with a page of a proxy."""
        return cls(change=lambda _response: Response(200, text.encode(), {"Content-Type": "text/html; charset=utf-8"}))

    @classmethod
    def cut(cls) -> Self:
        """Cut the body in the middle, under a Content-Length that is right for what is left."""
        return cls(change=lambda response: replace(response, body=response.body[: len(response.body) // 2]))

    @classmethod
    def wrong_encoding(cls, encoding: str = "gzip") -> Self:
        """Send the body as it is, and call it encoded."""
        return cls(change=lambda response: response.having(Content_Encoding=encoding))

    @classmethod
    def gzip_bomb(cls, size: int) -> Self:
        """Send `size` bytes of white space in a JSON string, packed to about a thousandth."""
        headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
        return cls(change=lambda _response: Response(200, _bomb(size), headers))

    @classmethod
    def delay(cls, seconds: float) -> Self:
        """Send the right answer late."""

        def send(wire: Wire, response: Response) -> None:
            if wire.wait(seconds):
                send_whole(wire, response)
            else:
                wire.finish()

        return cls(send=send)

    @classmethod
    def truncated(cls) -> Self:
        """Promise the whole body, send half of it, and close."""

        def send(wire: Wire, response: Response) -> None:
            wire.send(response.head + response.body[: len(response.body) // 2])
            wire.finish()

        return cls(send=send)

    @classmethod
    def reset(cls, *, is_after_headers: bool = False) -> Self:
        """Reset the connection, before or after the headers and half of the body."""

        def send(wire: Wire, response: Response) -> None:
            if is_after_headers:
                wire.send(response.head + response.body[: len(response.body) // 2])
            wire.reset()

        return cls(send=send)

    @classmethod
    def oversized(cls, size: int, *, is_announced: bool = True) -> Self:
        """Send a JSON string of `size` bytes, with its length in the headers or in chunks."""

        def send(wire: Wire, response: Response) -> None:
            announced = {"Content-Length": str(size)} if is_announced else {"Transfer-Encoding": "chunked"}
            wire.send(Response(200, b"", dict(response.headers) | announced).head)
            for part in _string(size):
                wire.send(part if is_announced else _chunk(part))
            wire.send(b"" if is_announced else _chunk(b""))

        return cls(send=send)

    @classmethod
    def endless(cls, every: float = 0.01) -> Self:
        """Send one byte of a body that never ends every so many seconds, until the client goes or the server closes."""

        def send(wire: Wire, response: Response) -> None:
            wire.finish()
            wire.send(Response(200, b"", dict(response.headers) | {"Transfer-Encoding": "chunked"}).head)
            while wire.wait(every):
                wire.send(_chunk(b" "))

        return cls(send=send)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _string(size: int) -> list[bytes]:
    """A JSON string of `size` bytes, in pieces that share their memory."""
    whole, rest = divmod(size - 2, CHUNK)
    return [b'"', *[b" " * CHUNK] * whole, *([b" " * rest] if rest else []), b'"']


@cache
def _bomb(size: int) -> bytes:
    packer = zlib.compressobj(wbits=31)
    return b"".join(packer.compress(part) for part in _string(size)) + packer.flush()
