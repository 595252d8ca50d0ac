"""The command line, as an operator or a script uses it."""

import json
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import pytest
from typer.testing import CliRunner

from assets.cli import _wanted, app
from assets.definitions import build
from assets.raw import SyncConfig
from assets.runs import Runner
from resources.lock import exclusive
from resources.sources import load_config
from tests.graph_support import configured, home, start, write_files

SOURCES = """
notes: {connector: files, scopes: [first, second, "mail:box"]}
hand-book: {connector: files, scopes: [book]}
"""
KEYS = [
    "source",
    "scope",
    "created",
    "updated",
    "unchanged",
    "tombstoned",
    "rejected",
    "cursor",
    "caught_up",
    "resumes_at",
    "requests",
    "seconds",
    "error",
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder like the project's root, with four scopes of one to three files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    write_files(tmp_path / "first", "1.md", "2.md", "3.md")
    for scope in ("second", "mail:box", "book"):
        write_files(tmp_path / scope, f"{scope}.md")
    return home(tmp_path, SOURCES)


@pytest.fixture
def instance(folder: Path) -> Iterator[dg.DagsterInstance]:
    """What the web page would show."""
    del folder  # it is DAGSTER_HOME
    with dg.DagsterInstance.get() as found:
        yield found


def run(*arguments: str, code: int = 0) -> tuple[str, str]:
    """Run a command; give what it wrote to the two streams."""
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.stdout, result.stderr


def run_json(*arguments: str, code: int = 0) -> dict[str, Any]:
    stdout, _ = run(*arguments, "--json", code=code)
    found = json.loads(stdout)  # fails if anything else was printed
    assert isinstance(found, dict)
    return found


def by_scope(report: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {f"{one['source']}:{one['scope']}": tuple(one[key] for key in keys) for one in report["scopes"]}


def rows(folder: Path, query: str) -> list[tuple[Any, ...]]:
    current = (folder / "data/published/current.duckdb").resolve()
    with duckdb.connect(str(current), read_only=True) as connection:
        connection.execute("SET timezone = 'UTC'")
        return connection.execute(query).fetchall()


def test_sync_gives_one_json_object_with_a_row_per_scope(folder: Path, instance: dg.DagsterInstance) -> None:
    report = run_json("sync")
    assert list(report) == ["scopes", "snapshot", "ok", "error", "warnings"]
    assert [list(one) for one in report["scopes"]] == [KEYS] * 4
    assert by_scope(report, "created", "unchanged", "caught_up", "resumes_at", "error") == {
        "notes:first": (3, 0, True, None, None),
        "notes:second": (1, 0, True, None, None),
        "notes:mail:box": (1, 0, True, None, None),
        "hand-book:book": (1, 0, True, None, None),
    }
    assert (report["ok"], report["error"], report["warnings"]) == (True, None, [])
    assert all(one["cursor"] and one["seconds"] >= 0 and one["requests"] == 0 for one in report["scopes"])
    assert (folder / report["snapshot"]).exists()
    assert sorted((one.job_name, one.status.value) for one in instance.get_runs()) == [
        ("load", "SUCCESS"),
        ("sync_hand_book", "SUCCESS"),
        ("sync_notes", "SUCCESS"),
    ]  # the web page shows them

    snapshots = [report["snapshot"]]
    while snapshots[-1:] != snapshots[-2:-1]:  # the cursor may still have to pass files that were young at first
        assert len(snapshots) < 5
        again = run_json("sync", "notes:first")
        assert by_scope(again, "created", "updated", "unchanged") == {"notes:first": (0, 0, 3)}
        snapshots.append(again["snapshot"])


def test_a_scope_that_fails_is_told_and_the_others_are_published(folder: Path) -> None:
    (folder / "second").rename(folder / "elsewhere")
    stdout, stderr = run("sync", "notes", code=1)
    remedy = f"there is no folder '{folder}/second': mount it, create it or correct the scope"
    header, *table = [line.split() for line in stdout.splitlines()]
    assert header[:8] == ["source", "scope", "created", "updated", "unchanged", "tombstoned", "rejected", "cursor"]
    assert header[8:] == ["caught", "up", "seconds"]
    assert table[0][:7] == ["notes", "first", "3", "0", "0", "0", "0"]
    assert table[1][:9] == ["notes", "second", "0", "0", "0", "0", "0", "-", "failed"]
    assert f"failed notes: second: {remedy}" in stdout.splitlines()
    assert stdout.splitlines()[-1].startswith("snapshot: data/published/snap-00000001-")
    assert "notes: first: 3 records, caught up" in stderr
    assert f"notes: second: failed: {remedy}" in stderr

    report = run_json("sync", "notes", code=1)
    assert (report["ok"], report["error"]) == (False, None)
    assert by_scope(report, "unchanged", "error", "caught_up", "cursor")["notes:second"] == (0, remedy, False, None)
    status = {one["scope"]: one["is_failed"] for one in run_json("status")["scopes"]}
    assert status == {"first": False, "second": True, "mail:box": False, "book": False}

    (folder / "elsewhere").rename(folder / "second")
    assert run_json("sync", "notes:second")["ok"] is True


@pytest.mark.parametrize(
    ("chosen", "wanted"),
    [
        ([], {"notes": ["first", "second", "mail:box"], "hand-book": ["book"]}),
        (["notes"], {"notes": ["first", "second", "mail:box"]}),
        (["hand-book", "notes:second"], {"notes": ["second"], "hand-book": ["book"]}),
        (["notes:mail:box"], {"notes": ["mail:box"]}),
        (["notes:mail:box", "notes:first"], {"notes": ["first", "mail:box"]}),
        (["notes:first", "notes"], {"notes": ["first", "second", "mail:box"]}),
    ],
)
def test_sources_and_scopes_are_chosen_by_name(folder: Path, chosen: list[str], wanted: dict[str, list[str]]) -> None:
    found = _wanted(configured(SOURCES, folder), chosen)
    assert found == wanted
    assert list(found) == list(wanted)  # in the order of the file


def test_scopes_that_do_not_stand_beside_each_other_are_two_runs(folder: Path, instance: dg.DagsterInstance) -> None:
    del folder
    report = run_json("sync", "notes:mail:box", "notes:first")
    assert by_scope(report, "created") == {"notes:first": (3,), "notes:mail:box": (1,)}
    assert instance.get_materialized_partitions(dg.AssetKey(["raw", "notes"])) == {"first", "mail:box"}
    assert instance.get_runs_count(dg.RunsFilter(job_name="sync_notes")) == 2


def test_a_row_is_also_given_for_what_a_fetch_of_the_web_page_left_to_load(
    folder: Path, instance: dg.DagsterInstance
) -> None:
    config = load_config()
    (fetch,) = Runner(build(config), instance, "another").sync(config, "notes", ["first"], SyncConfig())
    assert fetch.failures() == []
    report = run_json("sync", "hand-book")
    assert by_scope(report, "created", "caught_up") == {"hand-book:book": (1, True), "notes:first": (3, True)}
    assert all(one["cursor"] for one in report["scopes"])
    write_files(folder / "book", "new.md")
    assert by_scope(run_json("sync", "hand-book"), "created") == {"hand-book:book": (1,)}


def test_a_failed_load_says_why_and_a_replay_is_the_remedy(folder: Path) -> None:
    first = run_json("sync", "hand-book")
    with duckdb.connect(str(folder / "data/warehouse.duckdb")) as warehouse:
        warehouse.execute("UPDATE warehouse SET format_version = 99")
    report = run_json("sync", "hand-book", code=1)
    assert report["error"] == "the warehouse has format 99, this is format 2: run `python -m assets replay`"
    assert report["snapshot"] is None
    assert (folder / first["snapshot"]).exists()
    assert run_json("replay")["ok"] is True


def test_a_document_that_is_there_twice_keeps_the_snapshot_as_it_was(folder: Path) -> None:
    run_json("sync", "hand-book")
    before = (folder / "data/published/current.duckdb").resolve()
    write_files(folder / "book", "new.md")
    with duckdb.connect(str(folder / "data/warehouse.duckdb")) as warehouse:
        warehouse.execute("INSERT INTO document_versions FROM document_versions LIMIT 1")
    report = run_json("sync", "hand-book", code=1)
    assert report["error"] == "a check that guards the snapshot did not pass: nothing was published"
    assert len(report["warnings"]) == 2  # the index has one less as well
    assert re.fullmatch(r"unique_keys: .* has 2 rows", report["warnings"][0])
    assert report["warnings"][1].startswith("search_index: the index has 2 documents, not 3")
    assert by_scope(report, "created") == {"hand-book:book": (1,)}
    assert report["snapshot"] is None
    assert (folder / "data/published/current.duckdb").resolve() == before


def test_the_variable_tributary_config_names_another_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "sources.yaml").rename(folder / "mine.yaml")
    stderr = run("status", code=2)[1]
    assert stderr.startswith("sources.yaml: cannot be read")
    assert "TRIBUTARY_CONFIG" in stderr
    monkeypatch.setenv("TRIBUTARY_CONFIG", "mine.yaml")
    assert len(run_json("status")["scopes"]) == 4


def test_a_budget_of_pages_is_no_failure_and_the_next_run_continues(folder: Path) -> None:
    write_files(folder / "book", *(f"{number:04}.md" for number in range(1_009)))
    reports = [run_json("sync", "hand-book", "--max-pages", "1")]
    assert by_scope(reports[0], "created", "caught_up", "error") == {"hand-book:book": (500, False, None)}
    assert reports[0]["ok"] is True
    while not reports[-1]["scopes"][0]["caught_up"]:
        assert len(reports) < 20
        reports.append(run_json("sync", "hand-book", "--max-pages", "1"))
    assert sum(report["scopes"][0]["created"] for report in reports) == 1_010
    assert rows(folder, "SELECT count(*) FROM documents") == [(1_010,)]


def test_deletions_that_the_brake_holds_are_approved_on_the_command_line(folder: Path) -> None:
    names = [f"{number}.md" for number in range(40)]
    write_files(folder / "book", *names)
    run_json("sync", "hand-book")
    for name in names[:30]:
        (folder / "book" / name).unlink()
    held = run_json("sync", "hand-book", "--census")
    assert held["ok"] is True
    reason = "hand-book book: 30 of 41 are missing, the brake lets 20 pass"
    assert held["warnings"] == [f"census_brake: {reason}; look, then sync with --census --approve-deletions"]
    assert by_scope(held, "tombstoned") == {"hand-book:book": (0,)}
    stdout, _ = run("status")
    assert "held: 30 of 41 are missing" in stdout

    approved = run_json("sync", "hand-book", "--census", "--approve-deletions")
    assert by_scope(approved, "tombstoned") == {"hand-book:book": (30,)}
    assert approved["warnings"] == []
    assert rows(folder, "SELECT count(*), count(*) FILTER (is_deleted) FROM documents_all") == [(41, 30)]


def test_a_replay_gives_the_same_documents_with_no_source_there(folder: Path) -> None:
    run_json("sync", "notes")
    (folder / "first/1.md").unlink()
    (folder / "first/2.md").write_text("# Another\n", encoding="utf-8")
    synced = run_json("sync", "notes")
    everything = "SELECT * FROM document_versions ORDER BY ALL"
    before = rows(folder, everything)
    assert len(before) == 6
    for scope in ("first", "second", "mail:box"):
        (folder / scope).rename(folder / f"gone-{scope}")
    report = run_json("replay")
    assert rows(folder, everything) == before
    assert report["ok"] is True
    assert report["snapshot"] != synced["snapshot"]
    assert by_scope(report, "cursor", "caught_up") == by_scope(synced, "cursor", "caught_up")
    assert by_scope(report, "created", "updated", "tombstoned")["notes:first"] == (3, 1, 1)


def test_status_tells_of_each_scope_before_and_after_its_first_sync(folder: Path) -> None:
    del folder
    before = run_json("status")
    assert list(by_scope(before)) == ["notes:first", "notes:second", "notes:mail:box", "hand-book:book"]
    assert {one["last_fetched_at"] for one in before["scopes"]} == {None}
    run("sync", "notes:first")
    after = {one["scope"]: one for one in run_json("status")["scopes"]}
    assert (after["first"]["live"], after["first"]["upstream"], after["first"]["caught_up"]) == (3, 3, True)
    assert after["first"]["last_fetched_at"] > after["first"]["last_batch_at"]
    assert after["book"]["last_fetched_at"] is None
    table, _ = run("status")
    assert [line.split()[:3] for line in table.splitlines()[1:]] == [
        ["notes", "first", "3"],
        ["notes", "second", "0"],
        ["notes", "mail:box", "0"],
        ["hand-book", "book", "0"],
    ]


def test_check_says_who_we_are_or_what_to_do(folder: Path) -> None:
    stdout, _ = run("check", "notes")
    assert [line.split(": ")[:2] for line in stdout.splitlines()] == [
        ["ok      notes", "first"],
        ["ok      notes", "second"],
        ["ok      notes", "mail:box"],
    ]
    (folder / "book").rename(folder / "elsewhere")
    stdout, _ = run("check", code=1)
    remedy = f"there is no folder '{folder}/book': mount it, create it or correct the scope"
    assert stdout.splitlines()[-1] == f"failed  hand-book: book: {remedy}"
    assert not (folder / "data/raw").exists()


def test_names_are_printed_as_they_are_whatever_brackets_they_have(folder: Path) -> None:
    write_files(folder / "[red]a[/b]", "1.md")
    home(folder, 'odd: {connector: files, scopes: ["[red]a[/b]", "[bold]"]}')
    assert run("check", code=1)[0].splitlines()[0].startswith("ok      odd: [red]a[/b]: uid ")
    stdout, stderr = run("sync", code=1)
    assert stdout.splitlines()[1].split()[:3] == ["odd", "[red]a[/b]", "1"]
    assert "odd: [red]a[/b]: 1 records, caught up" in stderr
    assert "there is no folder" in stdout
    assert run("status")[0].splitlines()[2].split()[:2] == ["odd", "[bold]"]


@pytest.mark.parametrize("command", [["sync"], ["status"], ["check"], ["replay"]])
def test_mistakes_of_the_configuration_are_a_line_each(folder: Path, command: list[str]) -> None:
    text = "data: data\nsources:\n  notes:\n    connector: file\n    scopes: []\n    sync: every day\n"
    (folder / "sources.yaml").write_text(text, encoding="utf-8")
    stdout, stderr = run(*command, code=2)
    assert stdout == ""
    assert [re.sub(":.*", "", line.removeprefix("sources.yaml:")) for line in stderr.splitlines()] == ["4", "5", "6"]
    assert "did you mean files?" in stderr
    assert not (folder / "data/raw").exists()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["sync", "note"], "sources.yaml:2: there is no source 'note'; there is notes, hand-book"),
        (["sync", "notes:third"], "sources.yaml:3: notes has no scope 'third'; it has first, second, mail:box"),
        (["sync", "notes:"], "sources.yaml:3: notes has no scope ''; it has first, second, mail:box"),
        (["check", "none"], "sources.yaml:2: there is no source 'none'; there is notes, hand-book"),
    ],
)
def test_an_unknown_name_is_answered_with_those_there_are(folder: Path, arguments: list[str], line: str) -> None:
    del folder
    assert run(*arguments, code=2)[1].splitlines() == [line]


def test_a_variable_that_is_not_set_is_named_before_anything_runs(folder: Path, instance: dg.DagsterInstance) -> None:
    home_text = "sources:\n  notes:\n    connector: files\n    scopes: [first]\n    max_bytes: {env: MOST_BYTES}\n"
    (folder / "sources.yaml").write_text(home_text, encoding="utf-8")
    for command in ("sync", "check"):
        assert run(command, code=2)[1] == "sources.yaml:5: environment variable MOST_BYTES is not set\n"
    assert instance.get_runs() == []


def wait_until(is_so: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    for _ in range(600):
        if is_so():
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    raise AssertionError("it never came to that")


def holds_slot(instance: dg.DagsterInstance) -> bool:
    return bool(instance.event_log_storage.get_concurrency_info("raw_notes").claimed_slots)


def test_a_killed_command_holds_up_nobody(folder: Path, instance: dg.DagsterInstance) -> None:
    with exclusive(folder / "data/locks/raw-notes.lock", "a test", timeout=0):
        process = start(folder, ["sync", "notes", "--json"])
        wait_until(lambda: holds_slot(instance), process)  # it waits for our lock, in the middle of its run
        run("status")
        assert [one.status.value for one in instance.get_runs()] == ["STARTED"]  # one that lives is left alone
        process.kill()
        process.communicate()
    assert holds_slot(instance)
    assert run_json("sync", "notes")["ok"] is True
    assert not holds_slot(instance)
    runs = instance.get_runs()
    assert sorted((one.job_name, one.status.value) for one in runs) == [
        ("load", "SUCCESS"),
        ("sync_notes", "FAILURE"),
        ("sync_notes", "SUCCESS"),
    ]
    assert [path.name for path in (folder / "data/locks").glob("process-*")] == []


def test_a_command_killed_before_its_first_run_leaves_no_lock_behind(folder: Path) -> None:
    with exclusive(folder / "data/locks/process-living.lock", "running jobs", timeout=0):
        (folder / "data/locks/process-dead.lock").write_text("pid 1 on a host, running jobs")
        assert run_json("sync", "notes")["ok"] is True
        assert [path.name for path in (folder / "data/locks").glob("process-*")] == ["process-living.lock"]


def test_an_interrupt_ends_the_command_and_frees_its_place(folder: Path, instance: dg.DagsterInstance) -> None:
    with exclusive(folder / "data/locks/raw-notes.lock", "a test", timeout=0):
        process = start(folder, ["sync", "--json"])
        wait_until(lambda: holds_slot(instance), process)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate()
    assert (process.returncode, stdout) == (130, "")
    assert "Traceback" not in stderr
    runs = instance.get_runs()
    assert [(one.job_name, one.status.value) for one in runs] == [("sync_notes", "FAILURE")]  # and nothing after it
    assert not holds_slot(instance)


def test_two_commands_at_once_end_well_and_double_nothing(folder: Path) -> None:
    write_files(folder / "first", *(f"more-{number}.md" for number in range(300)))
    processes = [start(folder, ["sync", "notes", "--json"]) for _ in range(2)]
    reports = []
    for process in processes:
        stdout, stderr = process.communicate()
        assert (process.returncode, stderr) == (0, "")
        reports.append(json.loads(stdout))
    assert all(report["ok"] for report in reports)
    assert sum(one["created"] for report in reports for one in report["scopes"]) == 305
    assert rows(folder, "SELECT count(*), count(DISTINCT doc_id) FROM documents") == [(305, 305)]
    assert rows(folder, "SELECT count(*) FROM document_versions") == [(305,)]
