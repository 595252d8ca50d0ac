"""Which scopes are stale: Dagster's own freshness looks at a whole asset, where one live scope hides a dead one."""

from datetime import UTC, datetime, timedelta

import dagster as dg
from croniter import croniter  # type: ignore[import-untyped]

from assets.raw import asset_key
from ingestion.config import SourceConfig

_MISSED = 3
"""A scope is stale when so many ticks of its cron passed without a good fetch."""


def last_fetches(instance: dg.DagsterInstance, source: SourceConfig) -> dict[str, datetime]:
    """Give, by scope, when its last good fetch was recorded; a scope that never had one is absent."""
    key = asset_key(source.name)
    newest = instance.event_log_storage.get_latest_storage_id_by_partition(
        key, dg.DagsterEventType.ASSET_MATERIALIZATION
    )
    ids = list(newest.values())
    if not ids:
        return {}
    records = instance.fetch_materializations(dg.AssetRecordsFilter(key, storage_ids=ids), limit=len(ids)).records
    return {
        record.partition_key: datetime.fromtimestamp(record.timestamp, UTC)
        for record in records
        if record.partition_key is not None
    }


def stale_scopes(
    instance: dg.DagsterInstance, sources: list[SourceConfig], now: datetime
) -> list[tuple[str, str, str]]:
    """Give source, scope and since when, for each scheduled scope that missed too many of its ticks."""
    stale = []
    for source in sources:
        if source.sync is None:
            continue
        ticks = croniter(source.sync, now)
        oldest = min(ticks.get_prev(datetime) for _ in range(_MISSED)) - timedelta(seconds=1)
        fetched = last_fetches(instance, source)
        for scope in source.scopes:
            at = fetched.get(scope)
            if at is None:
                stale.append((source.name, scope, "never fetched"))
            elif at < oldest:
                stale.append((source.name, scope, f"last fetched {at:%Y-%m-%d %H:%M} UTC"))
    return stale
