"""Runs the command line as a user does, in an own home, and takes its figures from the operating system."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Figures:
    """What one command took, with what it printed."""

    cpu_seconds: float
    wall_seconds: float
    peak_mb: int
    report: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Home:
    """A folder with a configuration and a Dagster instance of its own."""

    folder: Path

    @property
    def data(self) -> Path:
        """Where the raw log, the warehouse and the snapshots are."""
        return self.folder / "data"

    def configure(self, sources: Mapping[str, object]) -> None:
        """Write the configuration, and an instance like the shipped one whose history lies here."""
        text = yaml.safe_dump({"data": str(self.data), "sources": dict(sources)}, allow_unicode=True)
        (self.folder / "sources.yaml").write_text(text, encoding="utf-8")
        shipped = (ROOT / "dagster.yaml").read_text(encoding="utf-8")
        (self.folder / "dagster.yaml").write_text(shipped.replace("data/dagster", str(self.data / "dagster")))

    def run(self, *arguments: str) -> Figures:
        """Run `python -m assets` to its end; raise CalledProcessError when it fails."""
        return measured([sys.executable, "-m", "assets", *arguments], self.folder)

    def size_mb(self, pattern: str) -> float:
        """Add up the sizes of the data files that match."""
        return sum(path.stat().st_size for path in self.data.glob(pattern) if path.is_file()) / 1e6


@contextmanager
def home() -> Iterator[Home]:
    """Make a home that is removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="tributary-bench-"))
    try:
        yield Home(folder)
    finally:
        shutil.rmtree(folder)


def measured(command: list[str], folder: Path) -> Figures:
    """Run a command and wait for it alone: wait4(2) gives its own CPU time and its peak resident memory."""
    environment = {**os.environ, "DAGSTER_HOME": str(folder), "TRIBUTARY_CONFIG": str(folder / "sources.yaml")}
    output = folder / "stdout"
    with output.open("wb") as stdout:
        started = os.times().elapsed
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=stdout)  # noqa: S603 -- our own command
        _, status, usage = os.wait4(process.pid, 0)
        elapsed = os.times().elapsed - started
    process.returncode = os.waitstatus_to_exitcode(status)
    text = output.read_text(encoding="utf-8")
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, text)
    report = json.loads(text) if text.startswith("{") else {}
    return Figures(usage.ru_utime + usage.ru_stime, elapsed, usage.ru_maxrss // 1024, report)


def imports() -> float:
    """Give the CPU seconds of `--help`: the imports, which every command pays before it does anything."""
    with home() as empty:
        empty.configure({"none": {"connector": "files", "scopes": ["."]}})
        return min(empty.run("--help").cpu_seconds for _ in range(3))
