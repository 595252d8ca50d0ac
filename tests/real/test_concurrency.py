"""Two writers, readers beside a writer, a disk that is full: one waits, nobody sees half a thing, nothing is lost."""

import logging
import os
import random
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from resources import publish
from tests.real.support import (
    Project,
    Store,
    Witness,
    answer,
    assert_complete,
    assert_replays,
    assert_tidy,
    change,
    contents,
    files_in,
    outcome,
    read_only,
    started,
)

pytestmark = pytest.mark.real
log = logging.getLogger(__name__)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Give a synced tree."""
    store = Store(tmp_path / "tree", tmp_path / "data")
    store.tree.mkdir()
    change(store.tree, chance(), 300)
    store.sync()
    return store


def chance() -> random.Random:
    return random.Random(20_260)  # noqa: S311 -- a test that can be repeated


def test_rivals_that_fetch_load_and_publish_at_once_lose_and_double_nothing(store: Store, tmp_path: Path) -> None:
    rounds = 12
    with ExitStack() as started_rivals:
        rivals = [
            started_rivals.enter_context(started("rival", *store.arguments(), str(seed), str(rounds)))
            for seed in range(2)
        ]
        made = [snapshot for rival in rivals for snapshot in answer(rival) if snapshot]
    assert len(set(made)) == len(made) > rounds  # each made its own; where one published for both, the other made none
    Witness(store, tmp_path / "scratch").look()
    store.sync()
    assert_complete(store, tmp_path)
    assert_tidy(store)


def test_a_fetch_that_may_not_wait_says_who_holds_the_source(store: Store) -> None:
    with store.raw_log.lock("tree", timeout=0):
        said = attempt(store)
    assert said["phase"] == "fetch"
    assert said["error"].startswith("LockedError: ")
    assert f"pid {os.getpid()} on " in said["error"]
    assert "fetching tree, since 20" in said["error"]


def test_two_commands_at_once_both_end_well(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    change(tree, chance(), 300)
    project = Project.make(tmp_path / "project", tree)
    commands = [project.start("sync", "--json") for _ in range(2)]
    ended = [(command.communicate(timeout=300), command.returncode) for command in commands]
    assert [(code, err) for (_, err), code in ended] == [(0, ""), (0, "")]
    documents, rejects = outcome(project.store(tree).warehouse.snapshot)
    assert len(documents) + len(rejects) == len(files_in(tree))
    assert_replays(project.store(tree), tmp_path / "replayed")


def test_a_reader_keeps_its_snapshot_through_ten_publications(store: Store) -> None:
    with ExitStack() as open_readers:
        readers = []
        seen = []
        for number in range(10):
            if number in {0, 5}:
                reader = open_readers.enter_context(started("reader", *store.arguments()))
                readers.append(reader)
                seen.append(answer(reader, "what do you hold?"))
            (store.tree / f"new-{number}.txt").write_text("news")
            store.sync()
            assert [answer(each, "and now?") for each in readers] == seen
        assert seen[0] != seen[1]
        with read_only(store.warehouse.snapshot) as connection:
            assert contents(connection) not in seen
    assert_tidy(store)


def test_no_second_writer_gets_in_while_snapshots_are_made(store: Store) -> None:
    with started("intruder", *store.arguments()) as intruder:
        assert answer(intruder, "how goes it, while nobody writes?")["refused"] == 0
        with store.warehouse.locked("publishing"):
            answer(intruder, "how went it, until now?")
            for _ in range(10):
                shutil.rmtree(store.warehouse.published)
                assert publish.publish(store.warehouse)
            counts = answer(intruder, "how went it, while snapshots were made?")
        assert counts["entered"] == 0
        assert counts["refused"] > 0


def test_copying_the_open_file_as_publish_does_keeps_duckdbs_own_lock(store: Store, tmp_path: Path) -> None:
    with started("opener", *store.arguments()) as opener:
        assert answer(opener, "alone?") == "opened"
        with store.warehouse.connect():
            assert "Conflicting lock is held" in answer(opener, "beside a writer?")
            publish._copy(store.warehouse.path, tmp_path / "copy.duckdb")
            assert "Conflicting lock is held" in answer(opener, "after a copy by another process?")
            # Why it is another process that copies: to close the file anywhere in this one drops the lock.
            store.warehouse.path.read_bytes()
            assert answer(opener, "after a copy by the writer itself?") == "opened"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Give a file system of its own; needs root, as `make test-real` has it."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["/usr/bin/env", "mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["/usr/bin/env", "umount", folder], check=True)


def leave(disk: Path, free: int) -> None:
    """Fill the disk but for so many bytes."""
    ballast = disk / "ballast"
    ballast.unlink(missing_ok=True)
    status = os.statvfs(disk)
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, status.f_bavail * status.f_bsize - free))


def test_a_full_disk_fails_readably_and_costs_nothing(small_disk: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "tree", small_disk / "data")
    store.tree.mkdir()
    dice = chance()
    change(store.tree, dice, 300)
    store.sync()
    witness = Witness(store, tmp_path / "scratch")
    failed = {}
    for free in (2**power * 1024 for power in range(3, 20)):
        change(store.tree, dice, 100)
        leave(small_disk, free)
        said = attempt(store)
        witness.look()
        if not said["phase"]:
            break
        assert re.search("no space left|not enough space", said["error"], re.IGNORECASE), said
        failed[said["phase"]] = said["error"]
    log.info("on a full disk: %s", failed)
    assert set(failed) == {"fetch", "load", "publish"}
    (small_disk / "ballast").unlink()
    store.sync()
    assert_complete(store, tmp_path)
    assert_tidy(store)


def attempt(store: Store) -> dict[str, str]:
    with started("attempt", *store.arguments()) as process:
        said: dict[str, str] = answer(process)
    return said
