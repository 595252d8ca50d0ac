"""Old runs are forgotten; what the partitions' state rests on is not."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
import sqlalchemy

from assets.freshness import last_fetches
from assets.prune import prune
from assets.runs import RunResult
from tests.graph_support import Project, project, write_files

ENDED, UNDER_WAY = dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.STARTED


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
    old = made.sync("notes", "first")
    newest = made.sync("notes", "first")
    failed = made.sync("notes", "missing")
    age(made, 100, only_second, old, newest, failed)
    before = last_fetches(made.instance, made.config.sources["notes"])
    assert pruned(made) == {only_second.run_id, newest.run_id}
    assert last_fetches(made.instance, made.config.sources["notes"]) == before
    assert made.statuses()["first"] == "MATERIALIZED"
    assert [*(made.folder / "dagster").rglob(f"*{old.run_id}*")] == []  # no file of it is left either
    assert [*(made.folder / "dagster").rglob(f"*{newest.run_id}*")] != []


def test_the_newest_load_is_kept_too(made: Project) -> None:
    loads = [made.load(), made.load()]
    age(made, 100, *loads)
    left = pruned(made)
    assert loads[0].run_id not in left
    assert loads[1].run_id in left
    assert made.instance.get_latest_materialization_event(dg.AssetKey("documents")) is not None


def test_young_runs_and_runs_under_way_are_kept(made: Project) -> None:
    ids = [made.instance.create_run_for_job(prune, status=status).run_id for status in (*[ENDED] * 3, UNDER_WAY)]
    young, old, ten_days, under_way = (RunResult(made.instance, one) for one in ids)
    age(made, 10, ten_days)
    age(made, 40, old, under_way)
    assert pruned(made) == {young.run_id, ten_days.run_id, under_way.run_id}
    assert pruned(made, keep_days=5) & set(ids) == {young.run_id, under_way.run_id}
