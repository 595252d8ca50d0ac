"""A real documentation tree, through all that happens to one: what Debian installs, unpacked."""

import logging
import os
import random
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from resources.connectors.files import FilesConnector
from tests.real.support import Project, Store, Sync, answer, change, files_in, outcome, read_only, started

pytestmark = pytest.mark.real

FILES = 20_000
INSTALLED = (Path("/usr/share/doc"), Path("/usr/share/man"))
PACKAGES = ("vim-runtime", "manpages-ja", "manpages-ru", "mutt", "debian-policy", "developers-reference", "debian-faq")
"""Old and foreign: vim's tutors are in two dozen encodings."""
MORE_PACKAGES = ("git-doc", "libboost1.81-doc", "python3.11-doc", "linux-doc-6.1")
"""For a machine without installed documentation."""
log = logging.getLogger(__name__)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the unpacked tree."""
    folder = tmp_path_factory.mktemp("documentation")
    tree = folder / "tree"
    tree.mkdir()
    _unpack(tree, folder / "packages", PACKAGES)
    for installed in INSTALLED:
        if installed.is_dir():
            _run("cp", "-a", installed, tree)
    if len(files_in(tree)) < FILES:
        _unpack(tree, folder / "more", MORE_PACKAGES)
    packed = [str(path) for path in tree.rglob("*.gz") if path.is_file() and not path.is_symlink()]
    subprocess.run(["/usr/bin/env", "xargs", "-0", "gunzip", "-qf"], input="\0".join(packed), text=True, check=False)
    assert len(files_in(tree)) >= FILES
    return tree


def _unpack(tree: Path, folder: Path, packages: tuple[str, ...]) -> None:
    """Unpack Debian packages, those that can be had."""
    folder.mkdir()
    for package in packages:
        subprocess.run(["/usr/bin/env", "apt-get", "-qq", "download", package], cwd=folder, check=False)
    for file in folder.iterdir():
        _run("dpkg-deb", "-x", file, tree / file.name.split("_")[0])


def _run(*command: object) -> None:
    subprocess.run(["/usr/bin/env", *map(str, command)], check=True)


@dataclass(frozen=True, slots=True)
class Held:
    """What is published of the tree, by path."""

    documents: dict[str, str]
    """The digest of each content."""
    rejects: dict[str, str]
    """The reason of each."""


def held(store: Store) -> Held:
    with read_only(store.warehouse.snapshot) as connection:
        documents = connection.execute("SELECT record_id, md5(content) FROM documents").fetchall()
        rejects = connection.execute("SELECT source_id, reason FROM rejects").fetchall()
    assert len(dict(documents)) == len(documents)
    return Held(dict(documents), dict(rejects))


def assert_exact(store: Store) -> Held:
    """Each file is a document or a reject, and nothing else is."""
    now, files = held(store), files_in(store.tree)
    assert now.documents.keys() | now.rejects.keys() == files
    assert len(now.documents) + len(now.rejects) == len(files)
    return now


def test_a_documentation_tree_lands_exactly_through_all_that_happens_to_it(tree: Path, tmp_path: Path) -> None:
    project = Project.make(tmp_path / "project", tree)
    store = project.store(tree)
    first = _sync(project, "first")
    before = assert_exact(store)
    assert first.counts() == counts(created=len(before.documents), rejected=len(before.rejects))
    for path, reason in before.rejects.items():
        assert reason == _reason(tree / path)
    _encodings(tree)

    state = _state(project)
    assert _sync(project, "unchanged").counts() == counts()
    assert _state(project) == state

    chance = random.Random(20_260)  # noqa: S311 -- a test that can be repeated
    edited = _edit(tree, chance, sorted(before.documents))
    renamed = _rename(tree, chance, sorted(before.documents.keys() - edited))
    _delete(tree, chance.sample(sorted(before.documents.keys() - edited - renamed.keys()), 3))
    changed = _sync(project, "changed")
    after = assert_exact(store)
    created, gone = after.documents.keys() - before.documents.keys(), before.documents.keys() - after.documents.keys()
    updated = {path for path in edited if path in after.documents}
    assert changed.counts()["created"] == len(created)
    assert changed.counts()["tombstoned"] == len(gone)
    assert changed.counts()["updated"] == len(updated)
    assert {path for path in updated if after.documents[path] == before.documents[path]} == set()
    for old, new in renamed.items():
        assert after.documents[new] == before.documents[old]
    unmoved = after.documents.keys() & before.documents.keys() - updated
    assert {path for path in unmoved if after.documents[path] != before.documents[path]} == set()

    _delete(tree, sorted(after.documents)[::2])
    braked = _sync(project, "half is gone")
    assert braked.counts()["tombstoned"] == 0
    assert any(line.startswith("census_brake: ") for line in braked.report["warnings"])
    assert held(store).documents == after.documents
    approved = _sync(project, "approved", "--census", "--approve-deletions")
    assert approved.counts()["tombstoned"] == len(after.documents) - len(assert_exact(store).documents)
    assert approved.report["warnings"] == []
    # Last, so that it hides nothing of the above: 700 MB are promised, and Dagster and Python take 150 of them.
    # Of the first alone: the system counts what this process held when it started the others as theirs.
    assert first.rss_mb < 800


def _reason(file: Path) -> str:
    """Say why a file must have been refused."""
    content, limit = file.read_bytes(), FilesConnector.model_fields["max_bytes"].default
    if len(content) > limit:
        return f"RecordError: has {len(content)} bytes, max_bytes is {limit}"
    assert b"\0" in content[:4096]
    return "RecordError: is not text: give its kind in `ignore`"


def counts(created: int = 0, updated: int = 0, tombstoned: int = 0, rejected: int = 0) -> dict[str, int]:
    return {"created": created, "updated": updated, "tombstoned": tombstoned, "rejected": rejected}


def _sync(project: Project, what: str, *arguments: str) -> Sync:
    started = time.monotonic()
    done = project.sync(*arguments)
    seconds = time.monotonic() - started
    log.info("%s: %s, %.1f s, %.1f CPU s, %.0f MB", what, done.counts(), seconds, done.cpu_seconds, done.rss_mb)
    assert done.report["ok"], done.report
    return done


def _state(project: Project) -> list[tuple[str, int]]:
    """Give what a sync that finds nothing must leave as it is: the raw log and the snapshots."""
    paths = (project.folder / "data").rglob("*")
    return sorted(
        (str(path), path.lstat().st_mtime_ns)
        for path in paths
        if path.suffix in {".parquet", ".duckdb"} and path.name != "warehouse.duckdb"
    )


def _encodings(tree: Path) -> None:
    """Tell how the files are written: information for the reader of the log."""
    kinds = {"ascii": 0, "utf-8": 0, "other": 0}
    for path in files_in(tree):
        content = (tree / path).read_bytes()
        kinds["ascii" if content.isascii() else "utf-8" if _is_utf8(content) else "other"] += 1
    log.info("%s", kinds)


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _edit(tree: Path, chance: random.Random, paths: list[str]) -> set[str]:
    """Edit files in three ways: appended in place, replaced by another, replaced by an older file with its times."""
    chosen = chance.sample(paths, 290)
    for number, path in enumerate(chosen):
        file = tree / path
        if number < 200:
            with file.open("ab") as end:
                end.write(b"\nedited by a test\n")
        elif number < 250:
            new = file.with_name("new.tmp")
            new.write_text(f"replaced by a test, {number}")
            new.replace(file)
        else:
            old = tree / "old.tmp"
            old.write_text(f"an old file, {number}")
            os.utime(old, (number, number))
            _run("cp", "-p", old, file)
            old.unlink()
    return set(chosen)


def _rename(tree: Path, chance: random.Random, paths: list[str]) -> dict[str, str]:
    """Rename files, and folders with all that is in them, times and all."""
    renamed: dict[str, str] = {}
    sizes = Counter(os.path.dirname(path) for path in paths)  # noqa: PTH120 -- a text, to be a text
    for folder in chance.sample(sorted(folder for folder, size in sizes.items() if 20 <= size <= 500), 5):
        new = f"{folder}-moved"
        if (tree / folder).is_dir():  # else it went with one around it
            (tree / folder).rename(tree / new)
            renamed |= {path: new + path.removeprefix(folder) for path in paths if path.startswith(f"{folder}/")}
    for path in chance.sample([path for path in paths if path not in renamed], 50):
        (tree / path).rename(tree / f"{path}.renamed")
        renamed[path] = f"{path}.renamed"
    return renamed


def _delete(tree: Path, paths: list[str]) -> None:
    for path in paths:
        (tree / path).unlink()


@pytest.fixture
def public() -> Iterator[Path]:
    """Give a folder that everybody may enter."""
    folder = Path(tempfile.mkdtemp(prefix="tributary-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def test_what_may_not_be_read_is_said_and_is_not_taken_for_gone(public: Path) -> None:
    store = Store(public / "tree", public / "data")
    (store.tree / "secret").mkdir(parents=True)
    change(store.tree, random.Random(20_260), 300)  # noqa: S311 -- a test that can be repeated
    for number in range(5):
        (store.tree / "secret" / f"{number}.txt").write_text("not for everybody")
    private = store.tree / "private.txt"
    private.write_text("mine")
    private.chmod(0o600)

    assert as_nobody(store)["error"] == ""
    documents, rejects = outcome(store.warehouse.snapshot)
    assert len(documents) + len(rejects) == len(files_in(store.tree))
    assert ("private.txt", "RecordError: cannot be read: Permission denied") in rejects

    (store.tree / "secret").chmod(0o700)
    (store.tree / "news.txt").write_text("news")
    said = as_nobody(store)
    assert said["phase"] == "fetch"
    assert said["error"].startswith("ConfigurationError: 1 folder(s) may not be listed: ")
    assert "Let uid 65534 read and enter them (chmod u+rx)" in said["error"]
    store.load()
    store.publish()
    again, _ = outcome(store.warehouse.snapshot)
    assert again - documents == {row for row in again if row[0] == "news.txt"} != set()
    assert documents - again == set()  # what cannot be seen is not gone

    (store.tree / "secret").chmod(0o711)  # may be entered, but not listed
    assert as_nobody(store)["phase"] == "fetch"
    (store.tree / "secret").chmod(0o744)  # may be listed, but not entered
    assert as_nobody(store)["phase"] == "fetch"
    (store.tree / "secret").chmod(0o755)
    private.chmod(0o644)
    assert as_nobody(store)["error"] == ""
    documents, rejects = outcome(store.warehouse.snapshot)
    assert {row[0] for row in documents} | {row[0] for row in rejects} == files_in(store.tree)
    assert "private.txt" in {row[0] for row in documents}
    assert len(documents) + len(rejects) == len(files_in(store.tree))


def as_nobody(store: Store) -> dict[str, str]:
    with started("attempt_as_nobody", *store.arguments()) as process:
        said: dict[str, str] = answer(process)
    return said
