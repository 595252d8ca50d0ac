"""What an upstream answered, and what the operator does about it."""

import re
import threading
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import httpx

from ingestion.errors import ConfigurationError, ConnectorError, ScopeNotFoundError, TributaryError
from ingestion.jsontext import elements, is_json, parse
from ingestion.redact import redact

JsonKind = type[list[Any]] | type[dict[str, Any]]

REDIRECTS = {301, 302, 303, 307, 308}
_SECRET_PARAMETER = re.compile(r"token|secret|passw|key|sig|auth|credential|code", re.IGNORECASE)
_TAG = re.compile("<[^>]*>")
_MESSAGE_LENGTH = 200
_GONE = (ScopeNotFoundError, "not there, or not for this credential")
_REMEDIES: dict[int, tuple[type[TributaryError], str]] = {
    401: (ConfigurationError, "the credential is refused; renew it"),
    403: (ConfigurationError, "not allowed; the credential lacks a permission for this"),
    404: _GONE,
    410: _GONE,
    451: _GONE,
}
"""What the operator does about a refusal; any other is a defect of the connector or the upstream."""
_PASSING = {408, 421, 425, 429}
_SERVER_FAULTS = 500


class AgainError(Exception):
    """What asking again may cure; never leaves the client. `is_limit` where the upstream said that we have to wait."""

    def __init__(self, reason: str, *, is_limit: bool = False) -> None:
        self.is_limit = is_limit
        super().__init__(reason)


@dataclass(frozen=True)
class Answer:
    """What came back, read to its end."""

    url: httpx.URL
    """Where it came from, after redirects."""
    status: int
    headers: httpx.Headers
    body: bytes
    is_moved: bool = False
    """A redirect led here."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """What the upstream was told and may say back to us."""

    @cached_property
    def json(self) -> Any:  # noqa: ANN401 -- JSON is anything
        """The body as JSON; known to be readable where it was asked for as JSON."""
        return parse(self.body)

    @property
    def is_success(self) -> bool:
        """The status is one of success."""
        return httpx.codes.is_success(self.status)

    def elements(self) -> list[bytes]:
        """Give the bytes of each element of a JSON array, as they were sent."""
        return elements(self.body)

    def text(self) -> str:
        """Give what an error says, in a line for the operator: its `message` or `error`, or the beginning of it."""
        try:
            value = self.json
        except ValueError:
            value = None
        if isinstance(value, dict):
            value = next((value[name] for name in ("message", "error", "errorMessages") if value.get(name)), value)
        text = str(value) if value is not None else _TAG.sub(" ", self.body[:2_000].decode("utf-8", "replace"))
        return " ".join(redact(text, self.secrets).split())[:_MESSAGE_LENGTH]  # cut last: half a secret is one as well

    @property
    def next_url(self) -> str | None:
        """The next page, as the Link header says (RFC 8288)."""
        link = httpx.Response(self.status, headers={"link": self.headers.get("link", "")}).links.get("next")
        return str(self.url.join(link["url"])) if link and link.get("url") else None


def as_error(answer: Answer, kind: JsonKind | None, accept: Collection[int]) -> Exception | None:
    """Say what is to be done about an answer: the one place where statuses become remedies. None: it is good.

    `kind` is the JSON that a success must bring, None for anything; what is in `accept` is the caller's to judge, but
    with JSON or nothing in it, as an error page of a proxy on the way is not the upstream's word.
    """
    status = answer.status
    if status in REDIRECTS or (status == httpx.codes.NOT_MODIFIED and status in accept):
        return None
    is_success = answer.is_success
    if kind and not _is_whole(answer, kind if is_success else dict, is_empty_good=not is_success):
        return AgainError(f"{status} without readable JSON ({answer.headers.get('content-type', 'of no type')})")
    if is_success or status in accept:
        return None
    if status in _PASSING or status >= _SERVER_FAULTS:
        return AgainError(f"{status} {answer.text()}")
    error, remedy = _REMEDIES.get(status, (ConnectorError, "the request is refused"))
    return error(redact(f"{masked(answer.url)}: {status} {answer.text()} ({remedy})", answer.secrets))


def _is_whole(answer: Answer, kind: JsonKind, *, is_empty_good: bool) -> bool:
    return (is_empty_good and not answer.body.strip()) or is_json(answer.body, kind)


def origin(url: httpx.URL) -> str:
    """Give what a credential is bound to: scheme, host and port."""
    return f"{url.scheme}://{url.netloc.decode('ascii')}"


def masked(url: httpx.URL) -> str:
    """Give a URL for an error or a log: without a user, and without values that look like secrets by their name."""
    params = [(name, "***" if _SECRET_PARAMETER.search(name) else value) for name, value in url.params.multi_items()]
    query = "?" + "&".join(f"{name}={value}" for name, value in params) if params else ""
    return f"{origin(url)}{url.path}{query}"[:500]


_REMEMBERED_COUNT = 1_000
_REMEMBERED_BYTES = 50_000_000
_remembered: OrderedDict[tuple[str, str], Answer] = OrderedDict()
_remembered_lock = threading.Lock()


def remember(authorization: str, url: httpx.URL, answer: Answer) -> None:
    """Keep the newest answers that can be asked for again by their ETag, for this process."""
    if answer.status == httpx.codes.OK and "etag" in answer.headers:
        with _remembered_lock:
            _remembered.pop((authorization, str(url)), None)
            _remembered[authorization, str(url)] = replace(answer)  # without the JSON that it may hold by now
            size = sum(len(one.body) for one in _remembered.values())
            while len(_remembered) > _REMEMBERED_COUNT or size > _REMEMBERED_BYTES:
                size -= len(_remembered.popitem(last=False)[1].body)


def remembered(authorization: str, url: httpx.URL) -> Answer | None:
    """Give what the same account was answered last time."""
    with _remembered_lock:
        found = _remembered.get((authorization, str(url)))
        if found is None:
            return None
        _remembered.move_to_end((authorization, str(url)))
        return replace(found)
