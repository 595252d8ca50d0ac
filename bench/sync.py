"""GitHub-shaped issues through the whole pipeline, beside dlt and sqlite-utils doing the same work in the same run.

`python -m bench.sync [--records N] [--peers-at M] [--repeat R]` serves N issues of about 5 KB from a process of its own
and lets everybody read them over HTTP: a first load, a sync without changes, one after 1 % of them changed. CPU seconds
are user and system time of the whole command; `beyond imports` leaves out what the same interpreter takes to import
what the command uses. The others take minutes for what we do in seconds: beyond 20,000 issues they are run at M
(20,000). On a busy machine CPU seconds grow by a half at times: of R runs the cheapest is shown.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from bench import peers
from bench.issues import SCOPE
from bench.measure import ROOT, Figures, Home, home, imports, measured

SMALL = 20_000
"""The size that everybody is run at, and that memory is compared with."""
SHARE = 0.01
_ENVIRONMENT = ROOT / ".venv" / "peers"
_LEAST = {"dlt-nested": 4, "dlt-flat": 2, "sqlite-searched": 1, "sqlite-same-work": 1}
_MOST_MB, _MOST_GROWTH = 700, 1.2
_FIRST, _UNCHANGED, _CHANGED = "first", "unchanged", "1 % changed"


@dataclass
class Program:
    """One way to do the work, with what each sync took."""

    name: str
    imports_seconds: float
    forget: Callable[[], None]
    """Remove what was stored."""
    run: Callable[[str], Figures]
    """Sync once with the API at this address."""
    stored: Callable[[Figures], int]
    """How many issues the program says to hold."""
    sizes: Callable[[], str]
    figures: dict[str, Figures] = field(default_factory=dict)

    def rate(self, sync: str, total: int) -> float:
        """Give the issues accounted for per CPU second beyond imports."""
        return total / (self.figures[sync].cpu_seconds - self.imports_seconds)


def main() -> None:
    """Print the tables, and which bars are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=SMALL)
    parser.add_argument("--peers-at", type=int, help="issues for the others, 0 to leave them out")
    parser.add_argument("--repeat", type=int, default=1, help="runs of the first and of the unchanged sync")
    arguments = parser.parse_args()
    records: int = arguments.records
    peers_at: int = min(records, SMALL) if arguments.peers_at is None else arguments.peers_at
    ours: dict[int, Program] = {}
    others: list[Program] = []
    for count in sorted({records, min(records, SMALL), peers_at} - {0}):
        with home() as bench:
            ours[count] = tributary(bench)
            if count == peers_at:
                others = [other(name, bench.folder) for name in peers.PROGRAMS]
            compare([ours[count], *others] if count == peers_at else [ours[count]], count, arguments.repeat)
    bars(ours, others, records, peers_at)


def compare(programs: list[Program], count: int, repeat: int) -> None:
    """Let every program sync three times, and print a row for each.

    Raises:
        RuntimeError: a program does not hold every issue afterwards: its figures would say nothing.
    """
    versions = f"; {', '.join(peers.REQUIREMENTS)}" if len(programs) > 1 else ""
    print(f"\n{count:,} issues, Python {sys.version.split()[0]}{versions}\n")
    print("| program | sync | CPU s | issues per CPU s | beyond imports | wall s | peak RSS MB | files |")
    print("|---|---|---:|---:|---:|---:|---:|---|")
    with github(count) as api:
        for sync in (_FIRST, _UNCHANGED, _CHANGED):
            if sync == _CHANGED:
                httpx.post(f"{api}/control/change", params={"share": SHARE}).raise_for_status()
            for program in programs:
                figures = program.figures[sync] = cheapest(program, sync, api, 1 if sync == _CHANGED else repeat)
                if program.stored(figures) != count:
                    raise RuntimeError(f"{program.name} holds {program.stored(figures)} issues, not {count}")
                print(
                    f"| {program.name} | {sync} | {figures.cpu_seconds:.2f} | {count / figures.cpu_seconds:,.0f} "
                    f"| {program.rate(sync, count):,.0f} | {figures.wall_seconds:.1f} | {figures.peak_mb} "
                    f"| {program.sizes()} |",
                    flush=True,
                )


def cheapest(program: Program, sync: str, api: str, repeat: int) -> Figures:
    """Run one sync so many times, a first one from nothing each time; give the run of the least CPU time."""
    runs = []
    for _ in range(repeat):
        if sync == _FIRST:
            program.forget()
        runs.append(program.run(api))
    return min(runs, key=lambda figures: figures.cpu_seconds)


def bars(ours: dict[int, Program], others: Iterable[Program], records: int, peers_at: int) -> None:
    """Print what must hold, beside what does."""
    program = ours[records]
    first, unchanged = program.rate(_FIRST, records), program.rate(_UNCHANGED, records)
    print(f"\n{records:,} issues of ours, {peers_at:,} of the others; rates beyond imports\n\n| bar | is | met |")
    print("|---|---:|---|")
    for peer in others:
        multiple = first / peer.rate(_FIRST, peers_at)
        if peer.name in _LEAST:
            least = _LEAST[peer.name]
            _bar(f"first load at least {least} x {peer.name}", multiple, at_least=least)
        else:
            print(f"| first load, as a multiple of {peer.name} | {multiple:,.2f} | no bar |")
    _bar("unchanged at least 20 x the first load's rate", unchanged / first, at_least=20)
    peak = max(figures.peak_mb for figures in program.figures.values())
    _bar(f"peak RSS below {_MOST_MB} MB", peak, at_most=_MOST_MB)
    if records > SMALL:
        small = max(figures.peak_mb for figures in ours[SMALL].figures.values())
        _bar(f"peak RSS at most {_MOST_GROWTH} x that at {SMALL:,}", peak / small, at_most=_MOST_GROWTH)
    marginal = program.figures[_FIRST].cpu_seconds - program.figures[_UNCHANGED].cpu_seconds
    print(f"\nCPU per new issue, without what an unchanged sync takes: {marginal / records * 1e6:.0f} us")


def _bar(name: str, value: float, *, at_least: float = 0, at_most: float = float("inf")) -> None:
    print(f"| {name} | {value:,.2f} | {'yes' if at_least <= value <= at_most else '**no**'} |")


def tributary(bench: Home) -> Program:
    """Give our own command line, in a home of its own."""

    def forget() -> None:
        shutil.rmtree(bench.data, ignore_errors=True)

    def run(api: str) -> Figures:
        bench.configure({"github": {"connector": "github", "base_url": api, "scopes": [SCOPE]}})
        return bench.run("sync", "--json")

    def stored(figures: Figures) -> int:
        (scope,) = figures.report["scopes"]
        return sum(int(scope[name]) for name in ("created", "updated", "unchanged")) * bool(scope["caught_up"])

    def sizes() -> str:
        raw, warehouse = bench.size_mb("raw/**/*.parquet"), bench.size_mb("warehouse.duckdb")
        return f"raw log {raw:,.0f} MB, warehouse {warehouse:,.0f} MB"

    return Program("tributary", imports(), forget, run, stored, sizes)


def other(name: str, parent: Path) -> Program:
    """Give one of the programs of `bench.peers`, in a folder and an environment of its own."""
    folder = Path(tempfile.mkdtemp(prefix=name, dir=parent))
    command = [str(environment()), "-m", "bench.peers"]
    importing = [*command, f"{name.split('-', maxsplit=1)[0]}-imports"]
    seconds = min(measured(importing, folder).cpu_seconds for _ in range(3))

    def forget() -> None:
        shutil.rmtree(folder)
        folder.mkdir()

    def sizes() -> str:
        files = (path for path in folder.iterdir() if path.suffix in {".db", ".duckdb"})
        return f"database {sum(path.stat().st_size for path in files) / 1e6:,.0f} MB"

    return Program(
        name,
        seconds,
        forget,
        lambda api: measured([*command, name, api, str(folder)], folder),
        lambda figures: int(figures.report["stored"]),
        sizes,
    )


def environment(*more: str) -> Path:
    """Give the interpreter that has the others' libraries, and `more`; what is not there yet is installed."""
    wanted = [*peers.REQUIREMENTS, *more]
    python = _ENVIRONMENT / "bin" / "python"
    installed = _ENVIRONMENT / "installed.json"
    if not installed.exists() or not set(wanted) <= set(json.loads(installed.read_text())):
        subprocess.run([sys.executable, "-m", "venv", str(_ENVIRONMENT)], check=True)  # noqa: S603 -- our own command
        quiet = ["--quiet", "--disable-pip-version-check"]
        subprocess.run([str(python), "-m", "pip", "install", *quiet, *wanted], check=True)  # noqa: S603 -- as above
        installed.write_text(json.dumps(wanted))
    return python


@contextmanager
def github(count: int) -> Iterator[str]:
    """Serve so many issues from another process, whose CPU is nobody's; give the address."""
    command = [sys.executable, "-m", "bench.github_server", "--records", str(count)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603 -- our own command
        try:
            if server.stdout is None or not (api := server.stdout.readline().strip()):
                raise RuntimeError("the server did not start")
            yield api
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
