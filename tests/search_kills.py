"""Victims for tests/test_search_kills.py: processes that fill, merge or refill the search index, and are killed at it.

`python -m tests.search_kills` forks one for each question (to import takes longer than to work), kills it where the
question says, and answers how it ended. No database is open here, nor ever was: what is forked is code alone.
"""

import json
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, TypedDict

import duckdb
import pandera.polars  # noqa: F401 -- the load imports it: here once, before the fork, not in each victim

from resources import load, searchindex
from resources.searchindex import merge
from tests.support import Site

SIZES = {
    "resources.load._TRANSACTION_RECORDS": 150,
    "resources.searchindex._PIECE_BYTES": 3_000,
    "resources.searchindex._REFILL_DOCUMENTS": 120,
    "resources.searchindex._MERGE_ROWS": 1_000,
}
"""So small that a few hundred documents take several transactions, pieces and chunks, and that their edits pay a merge.

With how many records a transaction ends, decides what a killed load may leave.
"""
BEGIN, COMMIT, CHECKPOINT = "BEGIN", "COMMIT", "CHECKPOINT"


def _merge(site: Site) -> None:
    merge(site.connection)


OPERATIONS: dict[str, Callable[[Site], object]] = {"load": Site.load, "merge": _merge}


class Question(TypedDict, total=False):
    """What is done in a folder, and when it ends; without an end it goes well."""

    folder: str
    operation: str
    at_statement: int
    """Killed before the statement of that number, counted from 0."""
    at_size: int
    """Killed as it makes a file longer than so many bytes: in the middle of a write."""
    at_mark: int
    """Killed `after` so many seconds from when this statement began."""
    after: float


class Told(TypedDict):
    """How it ended."""

    signal: int
    statements: list[str]
    """All that were begun, each in one line."""
    began: list[float]
    """When, in seconds."""
    error: str


def ask(process: "IO[str]", answers: "IO[str]", question: Question) -> Told:
    """Have a victim do something, and hear how it ended."""
    process.write(json.dumps(question) + "\n")
    process.flush()
    line = answers.readline()
    assert line, "the victims' parent ended without an answer"
    told: Told = json.loads(line)
    assert not told["error"], told["error"]
    return told


def _zygote() -> None:
    for line in sys.stdin:
        sys.stdout.write(json.dumps(_answer(json.loads(line))) + "\n")
        sys.stdout.flush()


def _answer(question: Question) -> Told:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _victim(question, writing)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said: list[str] = []
        if "after" in question:
            while len(said) <= question["at_mark"] and (line := pipe.readline()):
                said.append(line)
            time.sleep(question["after"])
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        said += pipe.readlines()
    _, status = os.waitpid(pid, 0)
    lines = [json.loads(line) for line in said]
    begun = [line for line in lines if "statement" in line]
    return {
        "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
        "statements": [line["statement"] for line in begun],
        "began": [line["at"] for line in begun],
        "error": "".join(line["error"] for line in lines if "error" in line),
    }


def _victim(question: Question, pipe: int) -> None:
    """Do it; say each statement before it is executed. Never returns."""
    try:
        _make_small()
        if "at_size" in question:
            _limit(question["at_size"])
        number = 0

        def begin(text: str) -> None:
            nonlocal number
            _say(pipe, statement=" ".join(text.split()), at=time.monotonic())
            if number == question.get("at_statement"):
                os.kill(os.getpid(), signal.SIGKILL)
            number += 1

        _watch(begin)
        site = Site(Path(question["folder"]))
        OPERATIONS[question["operation"]](site)
        site.close()
    except BaseException:  # noqa: BLE001 -- whatever it is, the test must hear of it
        _say(pipe, error=traceback.format_exc())
    os._exit(0)


def _say(pipe: int, **said: object) -> None:
    os.write(pipe, json.dumps(said).encode() + b"\n")


def _make_small() -> None:
    modules = {"resources.load": load, "resources.searchindex": searchindex}
    for name, value in SIZES.items():
        module, _, attribute = name.rpartition(".")
        assert hasattr(modules[module], attribute)
        setattr(modules[module], attribute, value)


def _limit(size: int) -> None:
    """Have the system end this process, as suddenly as SIGKILL does, when a file of it gets longer than that."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it


def _watch(begin: Callable[[str], None]) -> None:
    """Tell of every statement before it is executed: also of those within a script, one by one."""
    connection: Any = duckdb.DuckDBPyConnection
    execute = connection.execute

    def executing(self: duckdb.DuckDBPyConnection, query: str, parameters: Sequence[object] | None = None) -> Any:  # noqa: ANN401 -- duckdb's own
        *first, last = self.extract_statements(query)
        for one in first:
            begin(one.query)
            execute(self, one)
        begin(last.query)
        return execute(self, last, parameters)

    def telling(name: str, method: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def told(self: duckdb.DuckDBPyConnection) -> Any:  # noqa: ANN401 -- duckdb's own
            begin(name)
            return method(self)

        return told

    connection.execute = executing
    connection.begin = telling(BEGIN, connection.begin)
    connection.commit = telling(COMMIT, connection.commit)


if __name__ == "__main__":
    _zygote()
