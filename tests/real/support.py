"""What the tests of crashes, rivals and real trees share: a store on disk, programs that work on it, what must hold.

The programs are this module, run by `python -m tests.real.support <program> <tree> <data> ...`, so that they can be
killed, run as somebody else and meet each other, while the tests look on from a process of their own.
"""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from select import select
from tempfile import TemporaryDirectory
from typing import IO, Any

import duckdb
import pandera.polars  # noqa: F401 -- the load imports it: here once, before the fork, not in each victim

from ingestion.model import Batch
from resources import batches
from resources.connectors.files import FilesConnector
from resources.discovery import connectors
from resources.fetch import Fetched, FetchOptions, ScopeFetch
from resources.known import known
from resources.load import load_all
from resources.lock import is_free
from resources.publish import KEPT, publish
from resources.rawlog import RawLog
from resources.sql import statement
from resources.warehouse import Warehouse
from resources.wave import Loaded

ROOT = Path(__file__).parents[2]
SOURCE = "tree"
MAX_BYTES = 100_000
_NOBODY = 65_534
TABLES = ("document_versions", "records", "rejects", "loaded_batches")
PHASES = ("change", "fetch", "load", "publish", "drop", "bloat")


@dataclass(frozen=True, slots=True)
class Store:
    """A folder of files, and what Tributary keeps of it: the three verbs of a sync without the graph around them."""

    tree: Path
    data: Path
    raw: str = ""
    """Where the raw log is, if it is not in `data`."""
    max_bytes: int = MAX_BYTES

    @property
    def raw_log(self) -> RawLog:
        return RawLog(root=self.raw or str(self.data / "raw"), locks=str(self.data / "locks"))

    @property
    def warehouse(self) -> Warehouse:
        return Warehouse(data=str(self.data), lock_timeout=120)

    def fetch(self, *, max_pages: int | None = None, timeout: float = 120) -> Fetched:
        """Fetch with the brake off: the tests delete as they like."""
        connector = FilesConnector(include=["*"], max_bytes=self.max_bytes)
        log = self.raw_log.scope(SOURCE, str(self.tree))
        options = FetchOptions(max_pages=max_pages, brake_share=1.0)
        with self.raw_log.lock(SOURCE, timeout=timeout), known(self.warehouse.snapshot, "256MB") as held:
            return ScopeFetch(connector, "files", log, held, options).run()

    def load(self) -> list[Loaded]:
        with self.warehouse.locked("loading"):
            return load_all(self.warehouse, self.raw_log, connectors())

    def publish(self) -> Path | None:
        with self.warehouse.locked("publishing"):
            return publish(self.warehouse)

    def sync(self) -> None:
        self.fetch()
        self.load()
        self.publish()

    def arguments(self) -> list[str]:
        return [str(self.tree), str(self.data)]


# ---- a tree that changes

_WORDS = ("the", "quick", "brown", "fox", "naïve", "Zürich", "writes", "Größe", "to", "東京", "and", "back")
_SUFFIXES = (".md", ".txt", ".html", ".rst", "", ".bin", ".big")


def change(tree: Path, chance: random.Random, count: int) -> None:
    """Change up to `count` files in as many ways as a tree changes, ending where a rival or a kill ends it."""
    files = [path for path in tree.rglob("*") if path.is_file()]
    for _ in range(count):
        roll = chance.random()
        path = chance.choice(files) if files else tree / "0" / "0.txt"
        with suppress(OSError):  # a rival was faster, or the name is taken
            if roll < 0.4 or len(files) < 10:
                path = tree / str(chance.randrange(12)) / f"{chance.randrange(200)}{chance.choice(_SUFFIXES)}"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(_content(path.suffix, chance))
            elif roll < 0.6:
                path.write_bytes(_content(path.suffix, chance))
            elif roll < 0.7:
                path.touch()
            elif roll < 0.8:
                path.rename(path.with_name(f"renamed-{chance.randrange(200)}{path.suffix}"))
            elif roll < 0.98:
                path.unlink()
            else:
                path.parent.rename(tree / f"moved-{chance.randrange(10**9)}")


def _content(suffix: str, chance: random.Random) -> bytes:
    if suffix == ".bin":
        return b"\x00\x01\x02\x03" + chance.randbytes(400)
    if suffix == ".big":
        return b"x" * (MAX_BYTES + 1)
    text = " ".join(chance.choices(_WORDS, k=chance.randrange(200)))
    return text.encode("latin-1", "ignore") if chance.random() < 0.1 else text.encode()


def files_in(tree: Path, *, hidden: bool = False) -> set[str]:
    """Give the regular files of a tree, by a walk that shares nothing with the connector."""
    found = set()
    for folder, folders, names in os.walk(tree):
        folders[:] = [name for name in folders if hidden or not _is_ignored(name)]
        for name in names:
            path = os.path.join(folder, name)  # noqa: PTH118 -- a Path would normalize what is compared
            if not os.path.islink(path) and os.path.isfile(path) and (hidden or not _is_ignored(name)):  # noqa: PTH113, PTH114
                found.add(os.path.relpath(path, tree))
    return found


def _is_ignored(name: str) -> bool:
    return name.startswith(".") or name.lower() in {"node_modules", "__pycache__"}


# ---- what must hold


@contextmanager
def read_only(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database as an analyst does."""
    with duckdb.connect(str(path.resolve()), read_only=True) as connection:
        connection.execute("SET timezone = 'UTC'")
        yield connection


@dataclass(slots=True)
class Witness:
    """Looks at a store after each crash as the next process would, and leaves it as it is for the next crash."""

    store: Store
    scratch: Path
    batches: list[Batch] = field(default_factory=list)
    """The log, as far as it was read: a batch never changes, so each is read once and then only looked at."""
    stamps: dict[str, tuple[int, int]] = field(default_factory=dict)

    def look(self) -> None:
        self.look_at_log()
        self.look_at_warehouse()
        self.look_at_snapshot()

    def look_at_log(self) -> None:
        """Every batch opens, sequences have no gaps, each begins where the one before ended, none ever changed."""
        log = self.store.raw_log.scope(SOURCE, str(self.store.tree))
        folder = Path(log.folder)
        names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
        names = [name for name in names if name != "next.tmp"]
        found = [re.fullmatch(r"(\d{10})\.(records|census)\.parquet", name) for name in names]
        assert [match and int(match[1]) for match in found] == list(range(1, len(names) + 1))
        for name in names[: len(self.batches)]:
            assert self.stamps[name] == _stamp(folder / name)
        for name in names[len(self.batches) :]:
            batch = batches.footer(log.filesystem, str(folder / name))
            rows = log.read(batch)
            assert rows.num_rows == batch.records_count or batch.kind == "census"
            assert batch.since == (self.batches[-1].cursor if self.batches else None)
            self.stamps[name] = _stamp(folder / name)
            self.batches.append(batch)
        assert len(names) == len(self.batches)
        assert log.last() == (self.batches[-1] if self.batches else None)

    def look_at_warehouse(self) -> None:
        """The file opens, whatever state it was left in; a copy is opened, for opening heals."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir()
        for path in self.store.data.glob("warehouse.duckdb*"):
            shutil.copyfile(path, self.scratch / path.name)  # nobody has it open here: no lock to lose
        copy = self.scratch / self.store.warehouse.path.name
        if copy.exists():
            with duckdb.connect(str(copy)) as connection:
                if connection.execute("SELECT count(*) FROM duckdb_tables()").fetchone() != (0,):
                    self._check(connection)

    def look_at_snapshot(self) -> None:
        """What the symlink names is whole; there is none only before the first publication."""
        snapshot = self.store.warehouse.snapshot
        if snapshot.is_symlink():
            with read_only(snapshot) as connection:
                self._check(connection)

    def _check(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Nothing twice; what is loaded is the beginning of the log, with its cursor; every table can be read."""
        assert connection.execute(statement("check_unique_keys")).fetchall() == []
        loaded = connection.execute("SELECT sequence, cursor FROM loaded_batches ORDER BY sequence").fetchall()
        assert loaded == [(batch.sequence, batch.cursor) for batch in self.batches[: len(loaded)]]
        if loaded:
            status = connection.execute("SELECT batches_count, cursor FROM sync_status").fetchall()
            assert status == [loaded[-1]]
        contents(connection)


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def outcome(database: Path) -> tuple[set[tuple[Any, ...]], set[tuple[Any, ...]]]:
    """Give the live documents, by what they say, and the rejects, by their reason."""
    with read_only(database) as connection:
        documents = connection.execute("SELECT record_id, title, content_hash FROM documents").fetchall()
        rejects = connection.execute("SELECT source_id, reason FROM rejects").fetchall()
    assert len(set(documents)) == len(documents)
    return set(documents), set(rejects)


def assert_complete(store: Store, scratch: Path) -> None:
    """All files and nothing else are there, as a first sync of the same tree would bring them; a replay agrees."""
    documents, rejects = outcome(store.warehouse.snapshot)
    assert {row[0] for row in documents} | {row[0] for row in rejects} == files_in(store.tree)
    assert len(documents) + len(rejects) == len(files_in(store.tree))
    fresh = replace(store, data=scratch / "fresh", raw="")
    fresh.sync()
    assert (documents, rejects) == outcome(fresh.warehouse.snapshot)
    assert_replays(store, scratch / "replayed")


def assert_replays(store: Store, data: Path) -> None:
    """The log alone gives the same tables, row by row: nothing in them is of the clock but `warehouse.created_at`."""
    replayed = replace(store, data=data, raw=store.raw_log.root)
    replayed.load()
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{store.warehouse.snapshot.resolve()}' AS live (READ_ONLY)")
        connection.execute(f"ATTACH '{replayed.warehouse.path}' AS again (READ_ONLY)")
        for table in TABLES:
            for one, other in (("live", "again"), ("again", "live")):
                query = f"FROM {one}.{table} EXCEPT ALL FROM {other}.{table}"
                assert connection.execute(query).fetchall() == [], query


def assert_tidy(store: Store) -> None:
    """Nothing is left of what was interrupted."""
    published = sorted(path.name for path in store.warehouse.published.iterdir())
    snapshots = [name for name in published if name.startswith("snap-")]
    assert len(snapshots) <= KEPT
    assert published == ["current.duckdb", *snapshots]
    others = {path.name for path in store.data.iterdir()}
    assert others <= {"raw", "locks", "published", "tmp", "attachments", "warehouse.duckdb"}
    assert len(list((store.data / "locks").iterdir())) == 2
    assert not (store.data / "tmp").exists() or not list((store.data / "tmp").iterdir())


# ---- programs


def program(*arguments: str) -> list[str]:
    """Give the command that runs a program of this module."""
    return [sys.executable, "-m", "tests.real.support", *arguments]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}


@contextmanager
def started(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """Start a program of this module, to talk with until the block ends: then its input ends, and so must it."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(program(*arguments), env=_environment(), cwd=ROOT, stdin=pipe, stdout=pipe, text=True)
    try:
        yield process
    except BaseException:
        process.kill()
        raise
    finally:
        process.communicate(timeout=60)
    assert process.returncode == 0


def answer(process: "subprocess.Popen[str]", question: object = None) -> Any:  # noqa: ANN401 -- JSON
    """Send a line of JSON to a program that was started, and wait for its line."""
    assert process.stdin is not None
    assert process.stdout is not None
    if question is not None:
        process.stdin.write(json.dumps(question) + "\n")
        process.stdin.flush()
    line = process.stdout.readline()
    assert line, f"{process.args!r} ended without an answer"
    return json.loads(line)


def _say(value: object) -> None:
    sys.stdout.write(json.dumps(value, default=str) + "\n")
    sys.stdout.flush()


def zygote(store: Store) -> None:
    """For each question, a victim: forked, since to import takes longer than to work, and killed after a while.

    No database is open here, nor ever was: what is forked is code alone.
    """
    for line in sys.stdin:
        question = json.loads(line)
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            _victim(store, writing, **question["victim"])
        os.close(writing)
        with os.fdopen(reading) as pipe:
            said = _until(pipe, question["phase"])
            if question["kill_after"] is not None:
                time.sleep(question["kill_after"])
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            said += pipe.read().splitlines()
        _, status = os.waitpid(pid, 0)
        phases = [one for one in said if one.split()[0] in PHASES]
        errors = [one for one in said if one not in phases]
        _say({"is_killed": os.WIFSIGNALED(status), "phases": phases, "errors": errors})


def _until(pipe: IO[str], phase: str | None) -> list[str]:
    """Read what a victim says until it enters a phase."""
    said: list[str] = []
    while phase is not None and not (said and said[-1].startswith(phase)):
        line = pipe.readline().strip()
        if not line:
            break
        said.append(line)
    return said


def _enter(pipe: int, phase: str) -> None:
    os.write(pipe, f"{phase} {time.monotonic()}\n".encode())


def _victim(store: Store, pipe: int, *, seed: int, rounds: int) -> None:
    """Change the tree and sync it, over and over; say what is being done. Never returns."""
    try:
        chance, parent = random.Random(seed), os.getppid()  # noqa: S311 -- a test that can be repeated
        for _ in range(rounds):
            if os.getppid() == parent:  # else the test is over, and failed
                _round(store, pipe, chance)
        _enter(pipe, "change")
    except BaseException:  # noqa: BLE001 -- whatever it is, the test must hear of it
        os.write(pipe, traceback.format_exc().encode())
    os._exit(0)


def _round(store: Store, pipe: int, chance: random.Random) -> None:
    _enter(pipe, "change")
    change(store.tree, chance, chance.choice((1, 10, 60)))
    _enter(pipe, "fetch")
    if chance.random() < 0.3:
        store.fetch(max_pages=1)
    store.fetch()
    if chance.random() < 0.03:
        _enter(pipe, "drop")
        store.warehouse.drop()
    _enter(pipe, "load")
    store.load()
    if chance.random() < 0.1:
        _enter(pipe, "bloat")
        bloat(store)
    _enter(pipe, "publish")
    store.publish()


def bloat(store: Store) -> None:
    """Fill the warehouse with free blocks, so that publishing compacts it."""
    with store.warehouse.locked("bloating"), store.warehouse.connect() as connection:
        connection.execute("CREATE TABLE filler AS SELECT repeat(uuid()::VARCHAR, 30) FROM range(30_000)")
        connection.execute("CHECKPOINT")
        connection.execute("DROP TABLE filler")


def rival(store: Store, seed: str, rounds: str) -> None:
    """Change the tree and sync it so many times, beside others who do the same; say each snapshot that was made."""
    chance = random.Random(int(seed))  # noqa: S311 -- a test that can be repeated
    made = []
    for _ in range(int(rounds)):
        change(store.tree, chance, 20)
        store.fetch()
        store.load()
        made.append(store.publish())
    _say(made)


def attempt(store: Store) -> None:
    """Sync once; say which part failed, and how."""
    said = {"phase": "", "error": ""}
    try:
        said["phase"] = "fetch"
        store.fetch(timeout=0)
        said["phase"] = "load"
        store.load()
        said["phase"] = "publish"
        store.publish()
        said["phase"] = ""
    except Exception as error:  # noqa: BLE001 -- as the graph does
        said["error"] = f"{type(error).__name__}: {error}"
    _say(said)


def attempt_as_nobody(store: Store) -> None:
    """Sync as somebody whom permissions bind, once all is imported: the interpreter may lie where only root reads.

    What DuckDB loads later, each time that it opens the warehouse, is copied to where everybody may.
    """
    public = store.data.parent / "extension"
    spec = find_spec("duckdb_extension_fts")
    assert spec is not None
    for location in spec.submodule_search_locations or ():
        shutil.copytree(location, public / spec.name, dirs_exist_ok=True)
    sys.path.insert(0, str(public))
    with TemporaryDirectory() as folder:
        other = Store(Path(folder, "tree"), Path(folder, "data"))
        change(other.tree, random.Random(0), 50)  # noqa: S311 -- a test that can be repeated
        other.sync()
    os.setgroups([])
    os.setgid(_NOBODY)
    os.setuid(_NOBODY)
    attempt(store)


def reader(store: Store) -> None:
    """Open the snapshot once; for each question, tell what it holds."""
    with read_only(store.warehouse.snapshot) as connection:
        for _ in sys.stdin:
            _say(contents(connection))


def contents(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Give a digest of each table, over every value in it."""
    digest = "count(*) || '-' || coalesce(bit_xor(hash(t)), 0)"
    queries = [f"SELECT {digest} FROM {table} AS t" for table in TABLES]  # noqa: S608 -- our own names
    return [row[0] for query in queries for row in connection.execute(query).fetchall()]


def intruder(store: Store) -> None:
    """Try without pause to be the second writer; for each question, tell how often it went which way meanwhile."""
    counts = {"refused": 0, "entered": 0}
    while True:
        if select([sys.stdin], [], [], 0)[0]:
            if not sys.stdin.readline():
                return
            _say(counts)
            counts = {"refused": 0, "entered": 0}
        counts["entered" if is_free(store.data / "locks" / "warehouse.lock") else "refused"] += 1


def opener(store: Store) -> None:
    """For each question, try to open the warehouse past our own lock; tell what DuckDB says."""
    for _ in sys.stdin:
        try:
            duckdb.connect(str(store.warehouse.path)).close()
        except duckdb.IOException as error:
            _say(str(error))
        else:
            _say("opened")


# ---- the command line


@dataclass(frozen=True, slots=True)
class Project:
    """A folder with a configuration and a Dagster instance of its own, for the real command."""

    folder: Path

    @classmethod
    def make(cls, folder: Path, tree: Path, settings: str = "", brake_ids: int = 20) -> "Project":
        """Configure one source over a tree, every file of it; `settings` are further lines of the file."""
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / "dagster.yaml", folder / "dagster.yaml")
        source = f"connector: files, include: ['*'], scopes: ['{tree}'], brake: {{ids: {brake_ids}}}"
        text = f"data: data\n{settings}\nsources:\n  {SOURCE}: {{{source}}}\n"
        (folder / "sources.yaml").write_text(text, encoding="utf-8")
        return cls(folder)

    def store(self, tree: Path) -> Store:
        return Store(tree, self.folder / "data", max_bytes=50_000_000)

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Start `python -m assets ...`."""
        environment = _environment() | {
            "DAGSTER_HOME": str(self.folder),
            "TRIBUTARY_CONFIG": str(self.folder / "sources.yaml"),
        }
        command = [sys.executable, "-m", "assets", *arguments]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=self.folder, env=environment, stdout=pipe, stderr=pipe, text=True)

    def sync(self, *arguments: str) -> "Sync":
        """Sync to the end, which must come."""
        return self.run("sync", "--json", *arguments)

    def run(self, *arguments: str) -> "Sync":
        """Run a command to its end."""
        process = self.start(*arguments)
        with ThreadPoolExecutor(1) as pool:  # one pipe is read here, the other there, for wait4 must come last
            err = pool.submit(process.stderr.read)  # type: ignore[union-attr]
            out = process.stdout.read()  # type: ignore[union-attr]
            text = err.result()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        process.__exit__(None, None, None)
        assert out, text
        return Sync(process.returncode, json.loads(out), text, usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime)


@dataclass(frozen=True, slots=True)
class Sync:
    """What one sync by the command line said and cost."""

    returncode: int
    report: dict[str, Any]
    stderr: str
    rss_mb: float
    cpu_seconds: float

    def counts(self) -> dict[str, int]:
        """Give the numbers of its one scope."""
        (scope,) = self.report["scopes"]
        return {name: scope[name] for name in ("created", "updated", "tombstoned", "rejected")}


def main(name: str, tree: str, data: str, *rest: str) -> None:
    """Run one of the programs."""
    programs = {each.__name__: each for each in (zygote, rival, attempt, attempt_as_nobody, reader, intruder, opener)}
    programs[name](Store(Path(tree), Path(data)), *rest)


if __name__ == "__main__":
    main(*sys.argv[1:])
