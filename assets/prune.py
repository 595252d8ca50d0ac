"""Job `prune`: forget old runs. Dagster's retention covers ticks only; without this its history grows for ever."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
from dagster._core.storage.event_log import SqliteEventLogStorage
from pydantic import Field

_FINISHED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
_PAGE = 100


class PruneConfig(dg.Config):
    """What to keep."""

    keep_days: int = Field(default=30, ge=1, description="Runs younger than so many days are kept.")


@dg.op
def prune_runs(context: dg.OpExecutionContext, config: PruneConfig) -> None:
    """Delete finished runs older than the limit, but not those that made the latest state of a partition."""
    instance = context.instance
    kept = _latest_runs(instance)
    before = datetime.now(UTC) - timedelta(days=config.keep_days)
    filters = dg.RunsFilter(statuses=_FINISHED, updated_before=before)
    old = [record.dagster_run.run_id for record in instance.get_run_records(filters)]
    deleted = [run_id for run_id in old if run_id not in kept]
    for run_id in deleted:
        _forget(instance, run_id)
    context.log.info(
        "deleted %d runs older than %d days, kept %d that are the latest",
        len(deleted),
        config.keep_days,
        len(old) - len(deleted),
    )


def _forget(instance: dg.DagsterInstance, run_id: str) -> None:
    """Delete a run and the files that Dagster leaves behind: what it printed, and on SQLite a database of events."""
    instance.delete_run(run_id)
    instance.compute_log_manager.delete_logs(prefix=[run_id])
    if isinstance(instance.event_log_storage, SqliteEventLogStorage):
        Path(instance.event_log_storage.path_for_shard(run_id)).unlink(missing_ok=True)


def _latest_runs(instance: dg.DagsterInstance) -> set[str]:
    """Give the runs that made the newest materialization of each partition of each asset."""
    kept: set[str] = set()
    for key in instance.all_asset_keys():
        newest = instance.event_log_storage.get_latest_storage_id_by_partition(
            key, dg.DagsterEventType.ASSET_MATERIALIZATION
        )
        ids = list(newest.values())
        for start in range(0, len(ids), _PAGE):
            wanted = ids[start : start + _PAGE]
            filters = dg.AssetRecordsFilter(key, storage_ids=wanted)
            kept |= {record.run_id for record in instance.fetch_materializations(filters, limit=_PAGE).records}
        latest = instance.get_latest_materialization_event(key)
        if latest is not None:
            kept.add(latest.run_id)
    return kept


@dg.job(description="Forget runs older than 30 days, but keep the latest success of every partition.")
def prune() -> None:
    """Run `prune_runs`."""
    prune_runs()


prune_schedule = dg.ScheduleDefinition(
    name="prune",
    job=prune,
    cron_schedule="17 4 * * *",
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Forget old runs, daily.",
)
