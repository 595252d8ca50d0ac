"""What an upstream lets one credential do, shared by every thread that uses it: when the next request may go.

Limits are counted per credential, so a thread that is told to wait waits for all: the others would only be refused as
well, and some upstreams punish that with longer waits.
"""

import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from hashlib import sha256

_SPACING_SECONDS = 0.25
"""Between the threads that waited together: all at once they would run into the next limit together."""
_MINUTE = 60.0
_DAY = 86_400.0
"""Nothing is believed that asks for more: to knock again after a day does no harm, a year of silence does."""
_EPOCH_BEGINS = 1_000_000_000
"""Reset headers hold an instant (GitHub, GitLab) or a number of seconds (RFC drafts); no wait is as long as this."""
_MILLISECONDS_BEGIN = 100 * _EPOCH_BEGINS


@dataclass(slots=True)
class Budget:
    """The one gate of a host and credential. Times are seconds since the epoch, of this machine's clock."""

    closed_until: float = 0.0
    _waiting_count: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def close_until(self, instant: float) -> None:
        """Let no request pass before `instant`; a later instant that was given before stays."""
        with self._lock:
            if instant > self.closed_until:
                self.closed_until, self._waiting_count = instant, 0

    def turn(self, now: float, longest: float) -> float:
        """Give the seconds that the caller has to wait before it asks again; 0 where it may send.

        Those who wait are called one after another. More than `longest` keeps no place: the caller will go away.
        """
        with self._lock:
            seconds = self.closed_until - now
            if seconds <= 0:
                return 0.0
            seconds += self._waiting_count * _SPACING_SECONDS
            if seconds <= longest:
                self._waiting_count += 1
            return seconds


_budgets: dict[tuple[str, str], Budget] = {}
_budgets_lock = threading.Lock()


def budget(origin: str, credential: str) -> Budget:
    """Give the budget of a host and credential; one per process, whichever source asks."""
    key = origin, sha256(credential.encode("utf-8", "surrogatepass")).hexdigest()
    with _budgets_lock:
        return _budgets.setdefault(key, Budget())


def seconds_asked(headers: Mapping[str, str], now: float) -> float | None:
    """Read how long an answer asks to wait, in seconds; None where it does not say, or says nonsense.

    Retry-After is a number of seconds or a date (RFC 9110, section 10.2.3). Instants are compared with the upstream's
    own Date, so that its clock need not agree with ours.
    """
    upstream_now = _instant(headers.get("date")) or now
    asked = headers.get("retry-after")
    seconds = _sane(_number(asked), _instant(asked), upstream_now)
    if seconds is not None:
        return seconds
    if exhausted(headers):
        for name in ("x-ratelimit-reset", "ratelimit-reset", "x-rate-limit-reset"):
            number = _number(headers.get(name))
            if number is not None:
                if number >= _MILLISECONDS_BEGIN:
                    number /= 1000
                is_instant = number >= _EPOCH_BEGINS
                return _sane(None if is_instant else number, number if is_instant else None, upstream_now)
    return None


def exhausted(headers: Mapping[str, str]) -> bool:
    """Tell whether the answer was the last that the quota allows: the next request before the reset is refused."""
    names = ("x-ratelimit-remaining", "ratelimit-remaining", "x-rate-limit-remaining")
    return any(headers.get(name, "").strip() == "0" for name in names)


def is_limit(status: int, headers: Mapping[str, str], text: str) -> bool:
    """Tell a refusal that asks us to wait from one that asks for another credential.

    GitHub sends its primary and secondary limits as 403 or 429, the secondary ones with or without Retry-After:
    https://docs.github.com/en/rest/using-the-rest-api/troubleshooting-the-rest-api#rate-limit-errors
    """
    says_so = "retry-after" in headers or "rate limit" in text.lower() or "abuse detection" in text.lower()
    match status:
        case 429:
            return True
        case 403:
            return says_so or exhausted(headers)
        case _:
            return status == 503 and "retry-after" in headers  # noqa: PLR2004 -- Service Unavailable


def unsaid_seconds(text: str, attempt: int) -> float:
    """Give how long to wait for a limit that does not say, more with each attempt (counted from 1).

    GitHub asks for a minute at least after a secondary limit; others mostly count seconds.
    """
    first = _MINUTE if "secondary" in text.lower() or "abuse" in text.lower() else _MINUTE / 16
    return first * 2.0 ** (attempt - 1)


def _sane(seconds: float | None, instant: float | None, now: float) -> float | None:
    if seconds is None and instant is not None:
        seconds = instant - now
    if seconds is None:
        return None
    return min(max(seconds, 0.0), _DAY)


def _number(text: str | None) -> float | None:
    """Read a number that is one to wait for: not below zero, not NaN, not infinite."""
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 <= number < math.inf else None


def _instant(text: str | None) -> float | None:
    """Read an HTTP date."""
    try:
        found = parsedate_to_datetime(text or "")
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def as_instant(seconds: float) -> datetime:
    """Give an instant for the operator and the log, in whole seconds and not too early."""
    return datetime.fromtimestamp(math.ceil(seconds), UTC)
