"""Connections that go only where they may: addresses are checked where the socket is made, and time has an end.

A URL that came from data (an attachment, a redirect) must not reach what only this machine can reach: a metadata
service, a router, a database on loopback. Checking the URL is not enough, for a name may resolve to anything, and to
something else a moment later. So names are resolved here, once; every address must be public; and the socket connects
to the address that was checked. Hosts that the operator wrote into sources.yaml are trusted by name and port.
"""

import ipaddress
import socket
import ssl
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

import httpcore
import httpx

from ingestion.errors import ConfigurationError, RecordError

Resolve = Callable[[str, int], list[str]]
SocketOption = tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]

CONNECTION_ERRORS = (
    httpx.TransportError,
    httpx.DecodingError,
    httpcore.NetworkError,
    httpcore.TimeoutException,
    httpcore.ProtocolError,
)
"""What a request can die of between here and the upstream: all of it may be tried again."""

_TRANSLATED = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48"))
"""NAT64 (RFC 6052, RFC 8215): the last 32 bits are the IPv4 address that is reached."""
_IPV6 = 6
_ALLOCATED = ipaddress.ip_network("2000::/3")
"""All that is public in IPv6: https://www.iana.org/assignments/ipv6-address-space/ipv6-address-space.xhtml"""
_CONNECTIONS = 8

_deadline: ContextVar[float] = ContextVar("deadline", default=float("inf"))


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """End whatever is sent and received within after so many seconds, however steadily it drips."""
    token = _deadline.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _deadline.reset(token)


def forbidden(address: str) -> str | None:
    """Say why an address is not to be reached by a URL that came from data; None for a public one."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    inner = _embedded(ip)
    if inner is not None:
        reason = forbidden(str(inner))
        return f"{reason} (in {address})" if reason else None
    kinds = {
        "unspecified": ip.is_unspecified,
        "a loopback address": ip.is_loopback,
        "link-local": ip.is_link_local,
        "multicast": ip.is_multicast,
        "not public": not ip.is_global or (ip.version == _IPV6 and ip not in _ALLOCATED),
    }
    kind = next((name for name, is_so in kinds.items() if is_so), None)
    return f"{address} is {kind}" if kind else None


def _embedded(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Give the IPv4 address that an IPv6 address stands for: mapped, compatible, 6to4, NAT64."""
    if isinstance(ip, ipaddress.IPv4Address):
        return None
    if any(ip in network for network in _TRANSLATED) or (int(ip) >> 32 == 0 and int(ip) > 1):
        return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.ipv4_mapped or ip.sixtofour


def resolve(host: str, port: int) -> list[str]:
    """Give every address of a name; numeric forms (`0x7f.1`, `2130706433`) become the address that they mean.

    Raises:
        httpcore.ConnectError: the name has none.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpcore.ConnectError(f"{host} cannot be resolved ({error})") from error
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))


class GuardedBackend(httpcore.NetworkBackend):
    """Opens the sockets of an httpcore pool; those of untrusted hosts to checked, public addresses alone."""

    def __init__(self, trusted: Collection[tuple[str, int]], resolver: Resolve = resolve) -> None:
        self._trusted = frozenset(trusted)
        self._resolve = resolver
        self._sockets = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to the first address that answers.

        Raises:
            RecordError: the host is not trusted, and has an address that is not public.
        """
        addresses = self._resolve(host, port)
        if (host, port) not in self._trusted:
            for reason in filter(None, map(forbidden, addresses)):
                raise RecordError(f"refused to connect to {host}: {reason}, and is not a host of sources.yaml")
        failure: Exception = httpcore.ConnectError(f"{host} has no address")
        for address in addresses:
            try:
                stream = self._sockets.connect_tcp(address, port, _left(timeout), local_address, socket_options)
                return _TimedStream(stream)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure


class _TimedStream(httpcore.NetworkStream):
    """A stream whose every operation also ends at the deadline of the request that it serves."""

    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _left(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        try:
            return _TimedStream(self._stream.start_tls(ssl_context, server_hostname, _left(timeout)))
        except httpcore.ConnectError as error:
            if not isinstance(error.__cause__, ssl.SSLCertVerificationError):
                raise
            text = f"the certificate of {server_hostname} is refused: {error.__cause__.verify_message}"
            raise ConfigurationError(f"{text}; for a server of your own, verify: false") from None

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401 -- httpcore's own signature
        return self._stream.get_extra_info(info)


def _left(timeout: float | None) -> float:
    left = _deadline.get() - time.monotonic()
    if left <= 0:
        raise httpcore.ReadTimeout("the request took too long as a whole")
    return left if timeout is None else min(timeout, left)


class GuardedTransport(httpx.BaseTransport):
    """The transport of httpx over such connections. Its errors are those of CONNECTION_ERRORS, and RecordError."""

    def __init__(self, trusted: Collection[tuple[str, int]], *, verify: bool, resolver: Resolve = resolve) -> None:
        self._pool = httpcore.ConnectionPool(
            ssl_context=_ssl_context(verify=verify),
            max_connections=_CONNECTIONS,
            keepalive_expiry=30.0,
            network_backend=GuardedBackend(trusted, resolver),
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request; its body is read by whoever reads the response."""
        url = request.url
        response = self._pool.handle_request(
            httpcore.Request(
                request.method,
                httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
                headers=request.headers.raw,
                content=request.stream,
                extensions=request.extensions,
            )
        )
        return httpx.Response(
            response.status, headers=response.headers, stream=_Body(response), extensions=response.extensions
        )

    def close(self) -> None:
        """Close every connection."""
        self._pool.close()


class _Body(httpx.SyncByteStream):
    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    def __iter__(self) -> Iterator[bytes]:
        yield from self._response.iter_stream()

    def close(self) -> None:
        self._response.close()


@cache
def _ssl_context(*, verify: bool) -> ssl.SSLContext:
    """Make the context once per process: reading the certificates takes longer than a request."""
    return httpx.create_ssl_context(verify=verify)
