"""The one HTTP client: every request of every connector goes through it.

It waits where the upstream asks to, tries again where that may help, and gives up with an error that says what to do.
A credential goes to the host of `base_url` and to no other; a URL that came from data reaches public hosts alone.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Self

import httpx

from ingestion.errors import ConfigurationError, ConnectorError, RecordError
from resources.answer import REDIRECTS, Answer, JsonKind, masked, origin, remember, remembered
from resources.guard import GuardedTransport, Resolve, resolve
from resources.sender import Patience, Sender

MAX_BYTES = 50_000_000
"""The largest body that is read, decompressed."""
_MAX_REDIRECTS = 5
_PORTS = {"http": 80, "https": 443}
_LAST_PORT = 65_535
_NO_ADDRESS = (httpx.InvalidURL, UnicodeError)
"""What httpx makes of a text that is no URL; lone surrogates are the second."""

Params = Mapping[str, str | int | None]


class Http:
    """A client for one host and credential. Close it, or use it as a context manager. Threads may share it."""

    def __init__(  # noqa: PLR0913 -- each is a property of the upstream or of a test
        self,
        base_url: str,
        *,
        authorization: str = "",
        headers: Mapping[str, str] | None = None,
        verify: bool = True,
        max_bytes: int = MAX_BYTES,
        patience: Patience = Patience(),  # noqa: B008 -- frozen
        resolver: Resolve = resolve,
    ) -> None:
        """Open a client of `base_url`, below which paths are resolved.

        `authorization` is the header's whole value; `verify=False` is for the operator's own hosts.

        Raises:
            ConfigurationError: the address or the credential cannot be used.
        """
        self.base = _base(base_url)
        if not authorization.isprintable() or not authorization.isascii():
            raise ConfigurationError("the credential has a line break or a character that no header may have")
        self._home = origin(self.base)
        self._authorization = authorization
        self._headers = dict(headers or {}) | ({"Authorization": authorization} if authorization else {})
        trusted = (self.base.raw_host.decode("ascii"), self.base.port or _PORTS[self.base.scheme])
        transport = GuardedTransport({trusted}, verify=verify, resolver=resolver)
        self._sender = Sender(transport, self._home, authorization, max_bytes, patience)

    def __enter__(self) -> Self:
        """Give the client."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close every connection."""
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self._sender.close()

    def get(
        self,
        path: str,
        params: Params | None = None,
        *,
        kind: JsonKind = dict,
        accept: Collection[int] = (),
        is_conditional: bool = False,
    ) -> Answer:
        """Ask our own host for JSON: `path` is relative to the base, or a whole URL of the same host.

        `kind` is what must come with 200: a list or an object. `accept` are statuses (404, say) that the caller judges;
        they too must come with JSON or nothing, as a proxy's error page proves nothing. Redirects are followed on the
        same host. `is_conditional` gives the answer of last time again where the upstream says that it still holds:
        for polls alone, as some upstreams say so wrongly.

        Raises:
            ConfigurationError: the credential is refused, or the host redirects to another.
            ScopeNotFoundError: there is nothing at this address for this account.
            TransientError: no good answer in time; `resumes_at` where the upstream said when.
            ConnectorError: an answer that waiting does not cure.
        """
        url = self.own_url(path)
        if params:
            url = url.copy_merge_params({name: value for name, value in params.items() if value is not None})
        before = remembered(self._authorization, url) if is_conditional else None
        headers = self._headers | ({"If-None-Match": before.headers["etag"]} if before else {})
        answer = self._follow(url, headers, kind, {*accept, *([304] if before else [])})
        if before and answer.status == httpx.codes.NOT_MODIFIED:
            return before
        if is_conditional:
            remember(self._authorization, url, answer)
        return answer

    def own_url(self, url: str) -> httpx.URL:
        """Resolve a path or URL below the base.

        Raises:
            ConnectorError: it is on another host: our credential would go there.
        """
        try:
            resolved = self.base.join(url)
        except _NO_ADDRESS as error:
            raise ConnectorError(f"{masked(self.base)} gave an address that is none: {error}") from None
        if origin(resolved) != self._home:
            raise ConnectorError(
                f"{self.base.host} points to {origin(resolved)}: our credential goes to no other host; "
                "if that is its right address, write it as base_url"
            )
        return resolved

    def download(self, url: str) -> Answer:
        """Fetch the bytes behind a URL that came from data; the credential goes along to our own host alone.

        Raises:
            RecordError: it is not http(s), leads to an address that is not public, is too large, or is not there.
            TransientError: no good answer in time.
        """
        try:
            return self._follow(self.base.join(url), self._headers, None, ())
        except _NO_ADDRESS as error:
            raise RecordError(f"the record gives an address that is none: {error}") from None
        except (ConfigurationError, ConnectorError) as error:
            raise RecordError(str(error)) from None

    def _follow(
        self, url: httpx.URL, own_headers: Mapping[str, str], kind: JsonKind | None, accept: Collection[int]
    ) -> Answer:
        """Follow redirects: of API calls (where JSON is asked for) on our own host, of others to any public one."""
        asked = url
        for _ in range(_MAX_REDIRECTS + 1):
            if not _is_web(url):
                raise RecordError(f"{masked(url)} is not an http or https address")
            is_own = origin(url) == self._home
            answer = self._sender.send(url, own_headers if is_own else {}, kind, accept)
            if answer.status not in REDIRECTS:
                return replace(answer, is_moved=url != asked)
            try:
                target = url.join(answer.headers["location"])
            except (KeyError, *_NO_ADDRESS):
                raise ConnectorError(f"{masked(url)} redirects to no address") from None
            if kind is not None and origin(target) != self._home:
                raise ConfigurationError(
                    f"{masked(url)} redirects to {origin(target)}: not followed, as our credential goes to no other "
                    "host; if that is its right address, write it as base_url"
                )
            url = target
        raise ConnectorError(f"{masked(asked)} redirects in circles")


def _is_web(url: httpx.URL) -> bool:
    return url.scheme in _PORTS and bool(url.host) and (url.port is None or 0 < url.port <= _LAST_PORT)


def _base(text: str) -> httpx.URL:
    """Read the address of an upstream; relative paths are resolved below it, with or without a slash at its end."""
    try:
        url = httpx.URL(text.rstrip("/") + "/")
    except _NO_ADDRESS as error:
        raise ConfigurationError(f"base_url {text!r} is no address: {error}") from None
    if not _is_web(url):
        raise ConfigurationError(f"base_url {text!r} is no address; it begins with https:// or http://")
    if url.userinfo or url.query or url.fragment:
        raise ConfigurationError("base_url has a user, a query or a fragment; credentials have settings of their own")
    return url
