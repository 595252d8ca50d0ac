"""Jobs and their schedules: sync and census per source, the load, and the pruning of old runs."""

from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg

from assets.raw import SyncConfig, asset_key
from ingestion.config import SourceConfig

RANGE_START = "dagster/asset_partition_range_start"
RANGE_END = "dagster/asset_partition_range_end"
RUN_SCOPES = 500
"""Partitions of one run: fewer make runs that cost more than their work, more make events that the UI labours over."""


def ranges(all_scopes: Sequence[str], wanted: Sequence[str]) -> list[dict[str, str]]:
    """Give the tags of the runs that fetch `wanted`: a run takes a contiguous range of partitions, in their order."""
    chosen = set(wanted)
    found: list[list[str]] = []
    is_open = False
    for scope in all_scopes:
        if scope not in chosen:
            is_open = False
            continue
        if not is_open or len(found[-1]) >= RUN_SCOPES:
            found.append([])
            is_open = True
        found[-1].append(scope)
    return [{RANGE_START: scopes[0], RANGE_END: scopes[-1]} for scopes in found]


def sync_job(source: SourceConfig, *, census: bool) -> Any:  # noqa: ANN401 -- dagster does not export the type
    """Make the job that fetches a source; `documents` follows by its automation condition."""
    verb, what = ("census", "and enumerate what exists") if census else ("sync", "what changed")
    return dg.define_asset_job(
        f"{verb}_{source.slug}",
        selection=[asset_key(source.name)],
        config=_config(source, census=census),
        description=f"Fetch {what} of {source.name}.",
    )


def _config(source: SourceConfig, *, census: bool) -> dg.RunConfig:
    return dg.RunConfig(ops={asset_key(source.name).to_python_identifier(): SyncConfig(census=census)})


def schedule(source: SourceConfig, cron: str, *, census: bool) -> dg.ScheduleDefinition:
    """Make the schedule of a source's sync or census; crons are read in UTC."""
    job = f"{'census' if census else 'sync'}_{source.slug}"

    @dg.schedule(
        name=job,
        job_name=job,
        cron_schedule=cron,
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=f"{'Take the census' if census else 'Fetch what changed'} of {source.name}; the times are UTC.",
    )
    def tick(_: dg.ScheduleEvaluationContext) -> Iterator[dg.RunRequest]:
        # The configuration goes with each request: Dagster gives a run over a range of partitions none of its job's.
        for tags in ranges(source.scopes, source.scopes):
            yield dg.RunRequest(tags=tags, run_config=_config(source, census=census))

    return tick
