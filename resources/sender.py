"""One request, sent until it has an answer: retries, rate limits, and ends to size and time."""

import base64
import logging
import random
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx
import tenacity

from ingestion.errors import ConnectorError, TransientError
from ingestion.redact import redact
from resources.answer import AgainError, Answer, JsonKind, as_error, masked, origin
from resources.body import ACCEPT_ENCODING, pieces
from resources.budget import as_instant, budget, exhausted, is_limit, seconds_asked, unsaid_seconds
from resources.counting import count_request
from resources.guard import CONNECTION_ERRORS, deadline

_MAX_RATIO = 200
_RATIO_BEGINS = 5_000_000
"""Bytes from which on the ratio counts: short answers of one repeated letter are no attack."""
_TIMEOUT = httpx.Timeout(connect=10.0, read=60.0, write=60.0, pool=60.0)

_log = logging.getLogger("tributary.http")
for _name in ("httpx", "httpcore"):  # they log whole URLs, which may hold secrets
    logging.getLogger(_name).setLevel(logging.WARNING)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a request is worth waiting for; times are in seconds."""

    attempts: int = 5
    backoff: float = 1.0
    """The first wait after a fault that says nothing of waiting; each further one is twice as long."""
    longest_wait: float = 60.0
    """A longer wait ends the scope instead, until then."""
    longest_request: float = 300.0
    """From the first byte sent to the last byte read, however steadily they drip."""
    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], float] = time.time


def _secrets(authorization: str) -> tuple[str, ...]:
    """Give all of a credential that nobody may read; of Basic auth the user as well, which may be a key."""
    scheme, _, credential = authorization.partition(" ")
    basic = ""
    if scheme.lower() == "basic":
        with suppress(ValueError):
            basic = base64.b64decode(credential).decode()
    return authorization, credential, basic, *basic.split(":", 1)


class Sender:
    """Sends requests for one host and credential, whose budget it keeps."""

    def __init__(
        self, transport: httpx.BaseTransport, home: str, authorization: str, max_bytes: int, patience: Patience
    ) -> None:
        self._home = home
        self._max_bytes = max_bytes
        self._patience = patience
        self._budget = budget(home, authorization)
        self._secrets = _secrets(authorization)
        self._client = httpx.Client(
            transport=transport,
            headers={"User-Agent": "Tributary", "Accept-Encoding": ACCEPT_ENCODING},
            auth=httpx.Auth(),  # adds nothing: a user and password within a URL would take the place of our credential
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),  # cookies know no ports: none is kept
            timeout=_TIMEOUT,
            trust_env=False,
        )

    def close(self) -> None:
        """Close every connection."""
        self._client.close()

    def send(
        self, url: httpx.URL, headers: Mapping[str, str], kind: JsonKind | None, accept: Collection[int]
    ) -> Answer:
        """Send one request until it has an answer, or until that is hopeless.

        Raises:
            TransientError: it was tried often enough, or the wait would be too long.
        """
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(AgainError),
            stop=tenacity.stop_after_attempt(self._patience.attempts),
            wait=self._pause,
            sleep=self._patience.sleep,
            before_sleep=self._say,
            reraise=True,
        )
        try:
            for attempt in retrying:
                with attempt:
                    self._gate(url)
                    answer = self._send(url, headers)
                    self._obey(answer, attempt.retry_state.attempt_number)
                    if (error := as_error(answer, kind, accept)) is not None:
                        raise error
        except AgainError as last:
            resumes_at = as_instant(self._budget.closed_until) if last.is_limit else None
            text = f"{masked(url)}: {last}; gave up after {self._patience.attempts} attempts"
            raise TransientError(redact(text, self._secrets), resumes_at=resumes_at) from None
        return answer

    def _pause(self, state: tenacity.RetryCallState) -> float:
        """Give the seconds before the next attempt: none after a limit, for which the gate waits, with all others."""
        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, AgainError) and error.is_limit:
            return 0.0
        return self._patience.backoff * 2.0 ** (state.attempt_number - 1) * random.uniform(0.75, 1.25)  # noqa: S311 -- no secret

    def _say(self, state: tenacity.RetryCallState) -> None:
        if state.outcome and state.next_action and state.next_action.sleep:
            reason = redact(str(state.outcome.exception()), self._secrets)
            _log.warning("%s: %s; trying again in %.1f s", self._home, reason, state.next_action.sleep)

    def _gate(self, url: httpx.URL) -> None:
        """Wait until the budget of our own host is open.

        Raises:
            TransientError: that is too long to wait for.
        """
        if origin(url) != self._home:
            return
        while seconds := self._budget.turn(self._patience.now(), self._patience.longest_wait):
            if seconds > self._patience.longest_wait:
                resumes_at = as_instant(self._patience.now() + seconds)
                text = f"{url.host} lets us ask again at {resumes_at:%H:%M:%S} UTC (rate limit)"
                raise TransientError(text, resumes_at=resumes_at)
            _log.warning("%s: waiting %.0f s for its rate limit", url.host, seconds)
            self._patience.sleep(seconds)

    def _obey(self, answer: Answer, attempt: int) -> None:
        """Close the budget for as long as the answer asks to.

        Raises:
            AgainError: the answer is nothing but that request.
        """
        text = answer.text() if answer.status in {403, 429} else ""
        is_refused = is_limit(answer.status, answer.headers, text)
        seconds = None
        if is_refused or exhausted(answer.headers):
            seconds = seconds_asked(answer.headers, self._patience.now())
        if is_refused and seconds is None:
            seconds = unsaid_seconds(text, attempt)
        elif is_refused and seconds == 0:  # to ask at once, again and again, is what nobody means by it
            seconds = self._patience.backoff * 2.0 ** (attempt - 1)
        is_own = origin(answer.url) == self._home
        if is_own and seconds is not None:
            self._budget.close_until(self._patience.now() + seconds)
        if is_refused:
            raise AgainError(f"{answer.status} asks to wait {seconds:.0f} s {text}", is_limit=is_own)

    def _send(self, url: httpx.URL, headers: Mapping[str, str]) -> Answer:
        count_request()
        request = self._client.build_request("GET", url, headers=dict(headers))
        try:
            with deadline(self._patience.longest_request), closing(self._client.send(request, stream=True)) as response:
                return Answer(url, response.status_code, response.headers, self._body(response), secrets=self._secrets)
        except httpx.InvalidURL as error:  # httpx reads the address of a redirect, and not all of them can be read
            raise ConnectorError(f"{masked(url)} redirects to no address ({error})") from None
        except CONNECTION_ERRORS as error:
            raise AgainError(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__) from None

    def _body(self, response: httpx.Response) -> bytes:
        """Read a body to its end, unless it is larger than anything that we asked for."""
        chunks: list[bytes] = []
        size = 0
        for chunk in pieces(response):
            chunks.append(chunk)
            size += len(chunk)
            if size > self._max_bytes:
                chunks.clear()  # an error keeps the frame that raised it, for as long as it is kept itself
                raise ConnectorError(f"{masked(response.url)} sends more than {self._max_bytes:,} bytes")
            if size > _RATIO_BEGINS and size > _MAX_RATIO * max(response.num_bytes_downloaded, 1):
                raise ConnectorError(f"{masked(response.url)} decompresses to more than {_MAX_RATIO} times its size")
        return b"".join(chunks)
