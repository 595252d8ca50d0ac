"""One writer at a time: others wait, or say who it is; the death of the holder sets the lock free."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ingestion.errors import LockedError
from resources.lock import exclusive, is_free
from resources.rawlog import RawLog
from resources.warehouse import Warehouse

ROOT = Path(__file__).parent.parent
HOLD = """
import sys
from pathlib import Path
from resources.lock import exclusive
with exclusive(Path(sys.argv[1]), "loading documents", timeout=10):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds a lock until its input ends."""
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def test_another_process_is_named_when_it_does_not_let_go(tmp_path: Path) -> None:
    path = tmp_path / "locks" / "warehouse.lock"
    with holder(path) as process:
        assert not is_free(path)
        with (
            pytest.raises(LockedError, match=rf"warehouse\.lock is held by pid {process.pid} on .*, loading documents"),
            exclusive(path, "publishing", timeout=0.2),
        ):
            pass
        assert f"pid {process.pid}" in path.read_text(), "who waited in vain leaves the holder's name"


def test_who_waits_gets_the_lock_when_it_is_let_go(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    with holder(path) as process:
        assert process.stdin
        process.stdin.close()
        with exclusive(path, "publishing", timeout=30):
            assert f"pid {os.getpid()}" in path.read_text()
        assert process.wait(30) == 0


def test_a_killed_holder_holds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    with holder(path) as process:
        process.send_signal(signal.SIGKILL)
        with exclusive(path, "publishing", timeout=30):
            pass
    assert is_free(path)


def test_the_lock_is_free_after_an_error_and_excludes_this_process_too(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    with (
        pytest.raises(LockedError, match=r"one"),
        exclusive(path, "one", timeout=0),
        exclusive(path, "two", timeout=0),
    ):
        pass
    assert is_free(path)


def test_a_locked_error_can_be_retried_by_whoever_retries_transient_ones() -> None:
    assert issubclass(LockedError, Exception)
    assert LockedError.__mro__[1].__name__ == "TransientError"


def test_sources_lock_apart_and_the_warehouse_apart_from_them(tmp_path: Path) -> None:
    log = RawLog(root=str(tmp_path / "raw"), locks=str(tmp_path / "locks"))
    warehouse = Warehouse(data=str(tmp_path), lock_timeout=0)
    with log.lock("a", timeout=0), log.lock("b", timeout=0), warehouse.locked("loading"):
        with pytest.raises(LockedError, match="fetching a"), log.lock("a", timeout=0):
            pass
        with pytest.raises(LockedError, match="loading"), warehouse.locked("publishing"):
            pass
