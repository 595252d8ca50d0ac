"""What is known of every scope: the published counts, and how its last fetch ended."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb

from assets.freshness import last_fetches
from assets.raw import asset_key
from ingestion.config import Config
from resources.sql import statement


@dataclass(frozen=True, slots=True)
class ScopeStatus:
    """One configured scope."""

    source: str
    scope: str
    live: int
    tombstoned: int
    rejected: int
    upstream: int | None
    """Ids that the upstream had at the last census."""
    caught_up: bool
    held: str | None
    """Why the brake is on, where it is."""
    last_fetched_at: datetime | None
    last_batch_at: datetime | None
    is_failed: bool
    """The last fetch failed; the counts are those of the one before."""


def scope_statuses(config: Config, instance: dg.DagsterInstance, snapshot: Path) -> Iterator[ScopeStatus]:
    """Give every configured scope, in the file's order; reads the snapshot, which no writer blocks."""
    published = _published(snapshot)
    for source in config.sources.values():
        fetched = last_fetches(instance, source)
        partitions = dg.StaticPartitionsDefinition(list(source.scopes))
        statuses = instance.get_status_by_partition(asset_key(source.name), source.scopes, partitions) or {}
        for scope in source.scopes:
            live, tombstoned, rejected, upstream, caught_up, held, last_batch_at = published.get(
                (source.name, scope), (0, 0, 0, None, False, None, None)
            )
            status = statuses.get(scope)
            yield ScopeStatus(
                source=source.name,
                scope=scope,
                live=live,
                tombstoned=tombstoned,
                rejected=rejected,
                upstream=upstream,
                caught_up=caught_up,
                held=held,
                last_fetched_at=fetched.get(scope),
                last_batch_at=last_batch_at,
                is_failed=status is not None and status.value == "FAILED",
            )


def _published(snapshot: Path) -> dict[tuple[str, str], tuple[Any, ...]]:
    if not snapshot.exists():
        return {}
    with duckdb.connect(str(snapshot.resolve()), read_only=True) as connection:
        connection.execute("SET timezone = 'UTC'")
        rows = connection.execute(statement("status")).fetchall()
    return {(source, scope): tuple(values) for source, scope, *values in rows}
