"""kill -9 at any moment of fetch, load and publish: nothing is lost or doubled, and everything opens."""

import logging
import os
import random
import subprocess
import time
from collections import Counter
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import dagster as dg
import pytest

from tests.real.support import (
    PHASES,
    Project,
    Store,
    Witness,
    answer,
    assert_complete,
    assert_tidy,
    change,
    started,
)

pytestmark = pytest.mark.real

KILLS = int(os.environ.get("TRIBUTARY_KILLS", "100"))
COMMAND_KILLS = 8
log = logging.getLogger(__name__)


def test_a_process_killed_at_any_moment_loses_and_doubles_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "tree", tmp_path / "data")
    chance = random.Random(20_260)  # noqa: S311 -- a test that can be repeated
    store.tree.mkdir()
    change(store.tree, chance, 800)
    witness = Witness(store, tmp_path / "scratch")
    hit: Counter[str] = Counter()
    with started("zygote", *store.arguments()) as zygote:
        quiet = answer(zygote, {"victim": {"seed": 0, "rounds": 3}, "phase": None, "kill_after": None})
        assert quiet["errors"] == []
        lengths = _lengths(quiet["phases"])
        log.info("quiet: %s", lengths)
        for number in range(KILLS):
            # Half of the kills anywhere in a round, half in a phase: the shorter ones would hardly ever be hit.
            phase = chance.choice((None, None, "load", "publish"))
            after = chance.uniform(0, lengths[phase])
            said = answer(zygote, {"victim": {"seed": number, "rounds": 1_000}, "phase": phase, "kill_after": after})
            assert said["errors"] == []
            assert said["is_killed"]
            hit[said["phases"][-1].split()[0] if said["phases"] else "start"] += 1
            witness.look()
    log.info("%d kills: %s, %d batches", KILLS, dict(hit), len(witness.batches))
    assert min(hit["fetch"], hit["load"], hit["publish"]) > 0
    (store.tree / "last.txt").write_text("so that there is something to publish")
    store.sync()
    witness.look()
    assert_complete(store, tmp_path)
    assert_tidy(store)


def test_a_killed_command_leaves_nothing_that_the_next_one_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    chance = random.Random(20_260)  # noqa: S311 -- a test that can be repeated
    change(tree, chance, 300)
    project = Project.make(tmp_path / "project", tree, brake_ids=10_000)
    begun_at = time.monotonic()
    assert project.sync().report["ok"]
    length = time.monotonic() - begun_at
    witness = Witness(project.store(tree), tmp_path / "scratch")
    for _ in range(COMMAND_KILLS):
        change(tree, chance, 30)
        command = project.start("sync", "--json")
        _wait_for_work(project, command)
        time.sleep(chance.uniform(0, length / 2))
        command.kill()
        command.communicate()
        witness.look()
    change(tree, chance, 30)
    report = project.sync().report
    assert report["ok"], report
    witness.look()
    monkeypatch.chdir(project.folder)  # the paths in dagster.yaml are relative
    _assert_closed(project, length)
    assert_complete(project.store(tree), tmp_path)
    locks = sorted(path.name for path in (project.folder / "data" / "locks").iterdir())
    assert locks == ["dagster.lock", "raw-tree.lock", "warehouse.lock"]


def _wait_for_work(project: Project, command: "subprocess.Popen[str]") -> None:
    """Wait until the command has begun: the time before goes into imports, where a kill proves little."""
    locks = project.folder / "data" / "locks"
    while command.poll() is None and not any(_holds(command, path) for path in locks.glob("process-*.lock")):
        time.sleep(0.01)


def _holds(command: "subprocess.Popen[str]", lock: Path) -> bool:
    with suppress(FileNotFoundError):
        return lock.read_text(encoding="utf-8").startswith(f"pid {command.pid} ")
    return False


def _assert_closed(project: Project, length: float) -> None:
    """Every run has ended, the killed ones as failures; no pool has a slot taken."""
    with dg.DagsterInstance.from_config(str(project.folder)) as instance:
        statuses = Counter(run.status for run in instance.get_runs())
        log.info("runs: %s, a whole sync takes %.1f s", statuses, length)
        assert set(statuses) == {dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE}
        storage = instance.event_log_storage
        for pool in storage.get_concurrency_keys():
            assert not storage.get_concurrency_info(pool).claimed_slots


def _lengths(phases: list[str]) -> dict[str | None, float]:
    """Give the mean length of each phase, and under None that of a round."""
    entered = [(name, float(at)) for name, at in (line.split() for line in phases)]
    lengths: dict[str | None, float] = dict.fromkeys(PHASES, 0.0)
    rounds = sum(name == "publish" for name, _ in entered)
    for (name, at), (_, until) in pairwise(entered):
        lengths[name] += (until - at) / rounds
    lengths[None] = (entered[-1][1] - entered[0][1]) / rounds
    return lengths
