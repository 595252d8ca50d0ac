"""How many requests a fetch makes: what a quota counts, and the first thing to know of a connector."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_requests: ContextVar[list[int] | None] = ContextVar("requests", default=None)


@contextmanager
def counting_requests() -> Iterator[list[int]]:
    """Count the upstream requests made within; the list's one number is the count so far."""
    counter = [0]
    token = _requests.set(counter)
    try:
        yield counter
    finally:
        _requests.reset(token)


def count_request() -> None:
    """Note one upstream request; called by the HTTP client, once per request sent."""
    counter = _requests.get()
    if counter is not None:
        counter[0] += 1
