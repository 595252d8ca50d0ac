"""The automation, and the poll that asks for a run where something is new."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import pytest

from assets.schedules import RANGE_END, RANGE_START
from resources.sources import build_connectors, raw_log
from tests.graph_support import Project, project, write_files

SOURCES = """
notes: {connector: files, scopes: [first, second, third, fourth]}
hand-book: {connector: files, scopes: [book]}
"""
SCOPES = ["first", "second", "third", "fourth"]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """Everything is fetched, and the files are old enough to be settled: a cursor is beyond them."""
    monkeypatch.chdir(tmp_path)
    for scope in (*SCOPES, "book"):
        write_files(tmp_path / scope, "1.md")
    with project(tmp_path, SOURCES) as one:
        yield one


@dataclass(frozen=True)
class Tick:
    """What one evaluation of the poll came to."""

    asked: list[tuple[str, str]]
    """First and last scope of each run."""
    run_keys: list[str | None]
    skipped: str | None
    cursor: str | None


def poll(made: Project, cursor: str | None = None) -> Tick:
    """Evaluate the sensor with the connector and the raw log that the daemon would give it."""
    (sensor,) = (one for one in made.definitions.sensors or () if one.name == "poll_notes")
    assert isinstance(sensor, dg.SensorDefinition)
    resources = {"raw_log": raw_log(made.config), "source_notes": build_connectors(made.config)["notes"]}
    context = dg.build_sensor_context(made.instance, cursor, resources=resources, definitions=made.definitions)
    with context:
        data = sensor.evaluate_tick(context)
    runs = data.run_requests or []
    asked = [(one.tags[RANGE_START], one.tags[RANGE_END]) for one in runs]
    return Tick(asked, [one.run_key for one in runs], data.skip_message, data.cursor)


def settled(made: Project) -> None:
    """Sync until nothing is new: young files are read again, as an edit may share their clock tick."""
    while poll(made).asked:
        made.sync()


def test_the_automation_runs_from_the_start_and_polls_wait_to_be_turned_on(made: Project) -> None:
    sensors = {one.name: one.default_status for one in made.definitions.sensors or ()}
    assert sensors == {
        "automation": dg.DefaultSensorStatus.RUNNING,
        "poll_notes": dg.DefaultSensorStatus.STOPPED,
        "poll_hand_book": dg.DefaultSensorStatus.STOPPED,
    }


def test_what_was_never_fetched_is_new(made: Project) -> None:
    tick = poll(made)
    assert tick.asked == [("first", "fourth")]
    assert json.loads(tick.cursor or "") == dict.fromkeys(SCOPES)
    assert tick.run_keys == [None]  # a key would hold back the next run of the same range, for ever


def test_only_scopes_with_something_new_are_asked_for(made: Project) -> None:
    settled(made)
    assert poll(made).skipped == "nothing is new"
    write_files(made.folder / "second", "2.md")
    write_files(made.folder / "fourth", "2.md")
    tick = poll(made, json.dumps({"first": "an old cursor"}))
    assert tick.asked == [("second", "second"), ("fourth", "fourth")]
    assert set(json.loads(tick.cursor or "")) == {"first", "second", "fourth"}


def test_a_scope_is_asked_for_once_until_the_raw_log_has_moved(made: Project) -> None:
    settled(made)
    write_files(made.folder / "third", "2.md")
    first = poll(made)
    assert first.asked == [("third", "third")]
    # Had its run failed, nothing would have moved: it is left to the schedule.
    assert poll(made, first.cursor).skipped == "nothing is new"
    made.sync("notes", "third")
    write_files(made.folder / "third", "3.md")
    assert poll(made, first.cursor).asked == [("third", "third")]


@pytest.mark.parametrize("status", [dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTED])
def test_it_waits_while_a_sync_is_under_way(made: Project, status: dg.DagsterRunStatus) -> None:
    job = made.definitions.resolve_job_def("sync_notes")
    made.instance.create_run_for_job(job, status=status)
    assert poll(made) == Tick([], [], "a sync of this source is under way", None)


def test_a_scope_that_cannot_be_asked_is_said_and_the_others_go_on(made: Project) -> None:
    settled(made)
    (made.folder / "first").rename(made.folder / "elsewhere")
    assert poll(made).skipped == (
        f"first: there is no folder '{made.folder}/first': mount it, create it or correct the scope"
    )
    write_files(made.folder / "second", "2.md")
    assert poll(made).asked == [("second", "second")]
