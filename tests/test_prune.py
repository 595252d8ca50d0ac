"""Old runs are forgotten; what the partitions' state rests on is not."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
import sqlalchemy

from assets.freshness import last_fetches
from assets.prune import prune
from assets.raw import asset_key
from assets.runs import RunResult
from tests.graph_support import Project, project, write_files


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    monkeypatch.chdir(tmp_path)
    for scope in ("first", "second"):
        write_files(tmp_path / scope, "1.md")
    with project(tmp_path, "notes: {connector: files, scopes: [first, second, missing]}") as one:
        yield one


def age(made: Project, days: int, *runs: RunResult) -> None:
    """Set back the clock of the runs, in the database where Dagster keeps it."""
    at = datetime.now(UTC).replace(tzinfo=None) - timedelta(days=days)
    database = made.folder / "dagster/history/runs.db"
    engine = sqlalchemy.create_engine(f"sqlite:///{database}")
    with engine.begin() as connection:
        for run in runs:
            changed = connection.execute(
                sqlalchemy.text("UPDATE runs SET update_timestamp = :at WHERE run_id = :run"),
                {"at": at.isoformat(" "), "run": run.run_id},
            )
            assert changed.rowcount == 1
    engine.dispose()


def pruned(made: Project, **config: int) -> set[str]:
    """Run the job; give the ids of the runs that are left."""
    ops = {"ops": {"prune_runs": {"config": config}}}
    result = made.runner.run("prune", run_config=ops)
    assert result.failures() == []
    return {run.run_id for run in made.instance.get_runs()} - {result.run_id}


def test_the_newest_success_of_each_partition_outlives_any_age(made: Project) -> None:
    only_second = made.sync("notes", "second")
    old = [made.sync("notes", "first") for _ in range(2)]
    newest = made.sync("notes", "first")
    failed = made.sync("notes", "missing")
    age(made, 100, only_second, *old, newest, failed)
    before = last_fetches(made.instance, made.config.sources["notes"])
    assert pruned(made) == {only_second.run_id, newest.run_id}
    assert last_fetches(made.instance, made.config.sources["notes"]) == before
    assert made.statuses()["first"] == "MATERIALIZED"


def test_the_newest_load_is_kept_too(made: Project) -> None:
    made.sync("notes", "first")
    loads = [made.load(), made.load()]
    age(made, 100, *loads)
    left = pruned(made)
    assert loads[0].run_id not in left
    assert loads[1].run_id in left
    assert made.instance.get_latest_materialization_event(dg.AssetKey("documents")) is not None


def test_young_runs_and_runs_under_way_are_kept(made: Project) -> None:
    runs = [made.sync("notes", "first") for _ in range(4)]
    under_way = made.instance.create_run_for_job(prune, status=dg.DagsterRunStatus.STARTED)
    age(made, 10, runs[0])
    age(made, 40, runs[1], RunResult(made.instance, under_way.run_id))
    assert pruned(made) == {runs[0].run_id, runs[2].run_id, runs[3].run_id, under_way.run_id}
    assert pruned(made, keep_days=5) & {run.run_id for run in runs} == {runs[2].run_id, runs[3].run_id}


def test_a_run_that_is_forgotten_leaves_no_file(made: Project) -> None:
    runs = [made.sync("notes", "first") for _ in range(2)]
    age(made, 40, runs[0])
    pruned(made)
    left = [path.relative_to(made.folder) for path in (made.folder / "dagster").rglob(f"*{runs[0].run_id}*")]
    assert left == []
    assert made.instance.get_latest_materialization_event(asset_key("notes")) is not None
