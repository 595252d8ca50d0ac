"""Laws 2 and 9 when the process is killed, wherever in a load, a merge or a refill it is.

Whatever it left: the file opens; what is there is what some of the batches give, none of them by half; the index is the
one of these documents; and the next load brings all to where an undisturbed one does.
"""

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pytest

from resources import load, searchindex
from resources.searchindex import TOKENIZER_VERSION
from tests.sameindex import check_sums, differing, scores
from tests.scripted import KINDS, document, owning
from tests.search_kills import CHECKPOINT, COMMIT, SIZES, Question, Told, ask
from tests.support import Rows, Site

ROOT = Path(__file__).parent.parent
WORDS = ["heron", "battery", "recall", "snake_case", "v1.5.5", "東京都", "workshop", "bearing", "invoices", "rider's"]
QUERY = "heron battery recalled snake case 1.5.5 東京 workshop bearings invoice rider"
"""All of them: every posting has its part in the scores."""
BATCHES, BATCH = 5, 80
INDEXED, MERGED, EMPTIED = "INSERT INTO fts.lengths FROM keyed", "DELETE FROM fts.dead", "DELETE FROM fts.words"
DONE = {"load": {INDEXED, MERGED}, "merge": {MERGED}, "refill": {EMPTIED, INDEXED, MERGED}}
"""Statements of which an undisturbed one consists, among others."""
KILLS = int(os.environ.get("KILLS", "6"))
"""How many of each kind; where, a fixed seed says. Each takes a second: `KILLS=200` covers every statement there is."""

State = tuple[dict[str, Rows], dict[str, float]]


class Victims:
    """Processes that do something in a folder, and are killed at it."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def ask(self, question: Question) -> Told:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        answers: IO[str] = self._process.stdout
        return ask(self._process.stdin, answers, question)


@dataclass(frozen=True)
class Case:
    """What a victim begins with, and what it can come to."""

    operation: str
    folder: Path
    states: dict[int, State]
    """What the warehouse is when so many batches are loaded."""
    told: Told
    """How an undisturbed one went."""
    sizes: tuple[int, int]
    """The length of the longest file, before and after."""


@pytest.fixture(scope="module")
def victims() -> Iterator[Victims]:
    command = [sys.executable, "-m", "tests.search_kills"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Victims(process)


@pytest.fixture(scope="module", params=["load", "merge", "refill"])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, victims: Victims) -> Case:
    operation: str = request.param
    folder = tmp_path_factory.mktemp(operation) / "site"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SIZES.items():
            patch.setattr(name, value)
        patch.setattr(searchindex, "_MERGE_ROWS", 2**40)
        prepare(folder, operation)
        patch.setattr(load, "_TRANSACTION_RECORDS", 0)
        states = states_of(copied(folder, "states"))
    undisturbed = copied(folder, "undisturbed")
    told = victims.ask({"folder": str(undisturbed), "operation": "merge" if operation == "merge" else "load"})
    assert told["signal"] == 0
    assert DONE[operation] <= set(told["statements"])
    return Case(operation, folder, states, told, (longest(folder), longest(undisturbed)))


def prepare(folder: Path, operation: str) -> None:
    """Fill a site, whose documents were edited since; for a load, half of the batches are not loaded yet."""
    site = Site(folder)
    site.upstream.page_size = BATCH
    choice = random.Random(1)  # noqa: S311 -- the same kills each time
    for batch in range(BATCHES):
        for number in range(BATCH):
            name = f"{(batch // 2 * BATCH // 2) + number}"
            text = " ".join(choice.choice(WORDS) for _ in range(20))
            site.upstream.put(name, owning(document(name, text, title=choice.choice(WORDS) + f" {number % 7}")))
        if batch == BATCHES - 1:
            site.upstream.delete("3", "4")
        site.fetch(take_census=batch == BATCHES - 1)
        if operation != "load" or batch < BATCHES // 2:
            site.load()
    if operation == "refill":
        site.query("UPDATE fts.state SET tokenizer_version = 0")
    site.close()


def states_of(folder: Path) -> dict[int, State]:
    """Load wave by wave, and look after each."""
    site = Site(folder)
    states = {loaded_count(site): state(site)}
    for _ in load.load(site.connection, site.raw_log, KINDS, site.warehouse.attachments):
        states[loaded_count(site)] = state(site)
    site.close()
    return states


def loaded_count(site: Site) -> int:
    ((count,),) = site.query("SELECT count(*) FROM loaded_batches")
    return int(count)


def state(site: Site) -> State:
    return site.tables(), scores(site, QUERY)


def copied(folder: Path, name: str) -> Path:
    copy = folder.with_name(name)
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    return copy


def longest(folder: Path) -> int:
    return max(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_a_kill_at_a_statement_leaves_whole_batches_and_their_index(case: Case, victims: Victims) -> None:
    for number in chosen(case, range(len(case.told["statements"]))):
        assert survive(case, victims, {"at_statement": number})


def test_a_kill_within_a_write_leaves_whole_batches_and_their_index(case: Case, victims: Victims) -> None:
    killed = [survive(case, victims, {"at_size": size}) for size in chosen(case, range(1, max(case.sizes), 512))]
    assert any(killed)


def test_a_kill_at_any_time_of_a_commit_or_checkpoint_leaves_whole_batches_and_their_index(
    case: Case, victims: Victims
) -> None:
    statements, began = case.told["statements"], [*case.told["began"], case.told["began"][-1] + 0.01]
    marks = [number for number, one in enumerate(statements) if one in {COMMIT, CHECKPOINT}]
    choice = random.Random(2)  # noqa: S311 -- the same kills each time
    for mark in (choice.choice(marks) for _ in range(KILLS)):
        survive(case, victims, {"at_mark": mark, "after": choice.uniform(0, began[mark + 1] - began[mark])})


def chosen(case: Case, numbers: Sequence[int]) -> list[int]:
    return random.Random(case.operation).sample(numbers, min(KILLS, len(numbers)))  # noqa: S311 -- the same kills each time


def survive(case: Case, victims: Victims, end: Question) -> bool:
    """Have a victim end like this, look at what it left, and go on from there; give whether it was killed."""
    folder = copied(case.folder, "killed")
    told = victims.ask({"folder": str(folder), "operation": "merge" if case.operation == "merge" else "load", **end})
    site = Site(folder)
    expect(case, site, loaded_count(site))
    site.load()
    expect(case, site, max(case.states))
    assert site.query("SELECT tokenizer_version FROM fts.state") == [(TOKENIZER_VERSION,)]
    site.close()
    return told["signal"] != 0


def expect(case: Case, site: Site, batches_count: int) -> None:
    tables, found = case.states[batches_count]
    assert site.tables() == tables
    assert differing({QUERY: found}, {QUERY: scores(site, QUERY)}) == []
    check_sums(site)
    assert site.doubles() == []
