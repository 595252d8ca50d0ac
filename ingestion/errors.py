"""One small tree of errors, sorted by what the operator does next.

TributaryError
├── ConfigurationError       change sources.yaml or a credential; retrying does not help
│   └── ScopeNotFoundError   the scope is not there, or not for this account: fix its name or its access
├── TransientError           wait: the next sync retries, from the last durable batch
│   └── LockedError          another process is at work: wait for it, or stop it
├── ConnectorError           a defect in a connector or an upstream that breaks its own rules: report it
└── RecordError              one record cannot be read: it becomes a reject, the sync goes on
"""

from collections.abc import Sequence
from datetime import datetime


class TributaryError(Exception):
    """Anything that Tributary raises on purpose; its text is written for the operator."""


class ConfigurationError(TributaryError):
    """The operator has to change a setting or a credential.

    `problems` holds one readable line per mistake; the text of the error is those lines.
    """

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems: tuple[str, ...] = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(self.problems))


class ScopeNotFoundError(ConfigurationError):
    """The scope does not exist upstream, or this account may not see it."""


class TransientError(TributaryError):
    """The upstream is down, slow or rate limited: what was fetched is kept, the next sync continues.

    `resumes_at` is the instant (aware) at which the upstream said that it answers again, None where it did not say.
    """

    def __init__(self, text: str, *, resumes_at: datetime | None = None) -> None:
        self.resumes_at = resumes_at
        super().__init__(text)


class LockedError(TransientError):
    """Another process holds the lock; the text names the holder."""


class ConnectorError(TributaryError):
    """A connector or upstream broke the contract, by a cursor that stands still, say: going on could lose records."""


class RecordError(TributaryError):
    """One record cannot be mapped to documents; raised by a connector's `documents`."""
