"""Sensors: the automation of the load, and a poll per source that can be asked cheaply whether anything is new."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime

import dagster as dg

from assets.raw import resource_key
from assets.schedules import ranges
from ingestion.config import SourceConfig
from ingestion.errors import TributaryError
from ingestion.redact import redact
from resources.connector import Connector, SupportsChanged
from resources.rawlog import RawLog
from resources.sources import secrets

_IN_PROGRESS = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
]
_POLL_SECONDS = 60


def automation_sensor() -> dg.AutomationConditionSensorDefinition:
    """Load and publish when something was fetched; running from the start, since without it nothing is loaded."""
    return dg.AutomationConditionSensorDefinition(
        "automation",
        target=dg.AssetSelection.all(),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Load what was fetched, and publish what passed its checks. Turned off, nothing is loaded.",
    )


def poll_sensor(source: SourceConfig) -> dg.SensorDefinition:
    """Ask each scope whether anything is new, and fetch those where there is.

    The sensor's own cursor remembers, per scope, the raw log's cursor for which it last asked for a run: a scope whose
    run failed is left to the schedule, and not asked for again every minute. The truth of a cursor is the raw log.
    """
    job = f"sync_{source.slug}"
    key = resource_key(source)

    @dg.sensor(
        name=f"poll_{source.slug}",
        job_name=job,
        minimum_interval_seconds=_POLL_SECONDS,
        required_resource_keys={key, "raw_log"},
        description=f"Fetch scopes of {source.name} as soon as something is new there; off until you turn it on.",
    )
    def poll(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        if context.instance.get_runs_count(dg.RunsFilter(job_name=job, statuses=_IN_PROGRESS)):
            return dg.SkipReason("a sync of this source is under way")
        asked: Mapping[str, str | None] = json.loads(context.cursor or "{}")
        raw_log: RawLog = context.resources.raw_log
        found, errors = _changed(getattr(context.resources, key), source, raw_log, asked)
        if not found:
            return dg.SkipReason("; ".join(errors) or "nothing is new")
        requests = [dg.RunRequest(tags=tags) for tags in ranges(source.scopes, list(found))]
        return dg.SensorResult(run_requests=requests, cursor=json.dumps({**asked, **found}))

    return poll


def _changed(
    connector: Connector, source: SourceConfig, raw_log: RawLog, asked: Mapping[str, str | None]
) -> tuple[dict[str, str | None], list[str]]:
    """Give the scopes where something is new, with the cursor that is true now, and what could not be asked."""
    found: dict[str, str | None] = {}
    errors: list[str] = []
    if not isinstance(connector, SupportsChanged):
        return found, [f"{source.connector} cannot be polled"]
    for scope in source.scopes:
        newest = raw_log.scope(source.name, scope).last()
        cursor = newest.cursor if newest else None
        if (newest and newest.has_to_wait(datetime.now(UTC))) or (scope in asked and asked[scope] == cursor):
            continue
        try:
            if connector.changed(scope, cursor):
                found[scope] = cursor
        except TributaryError as error:
            errors.append(redact(f"{scope}: {error}", secrets(source)))
    return found, errors
