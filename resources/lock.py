"""An exclusive lock between processes that says who holds it, and that the system frees when its holder dies."""

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from ingestion.errors import LockedError

_POLL_SECONDS = 0.1


@contextmanager
def exclusive(path: Path, purpose: str, *, timeout: float) -> Iterator[None]:
    """Hold the lock file `path` for the duration of the block.

    `purpose` is what another process reads while it waits; `timeout` is in seconds.
    flock(2) belongs to the open file: it also excludes other threads of this process, and ends with the process.

    Raises:
        LockedError: the lock was not free in time; the text names the holder.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _acquire(descriptor, path, timeout)
        holder = f"pid {os.getpid()} on {socket.gethostname()}, {purpose}, since {datetime.now(UTC):%Y-%m-%d %H:%M:%SZ}"
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, holder.encode(), 0)
        yield
    finally:
        os.close(descriptor)


def is_free(path: Path) -> bool:
    """Tell whether nobody holds the lock file now."""
    try:
        with exclusive(path, "looking", timeout=0):
            return True
    except LockedError:
        return False


def _acquire(descriptor: int, path: Path, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                holder = (
                    os.pread(descriptor, 400, 0).decode(errors="replace") or "a process that has not said who it is"
                )
                raise LockedError(f"{path} is held by {holder}") from None
            time.sleep(_POLL_SECONDS)
        else:
            return
