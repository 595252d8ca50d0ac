"""What the graph says of itself: metadata of runs, and the tables that people read."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from ingestion import schema
from resources.fetch import Fetched
from resources.wave import Loaded


@dataclass(frozen=True, slots=True)
class ScopeCounts:
    """What a load did to the documents of one scope."""

    source: str
    scope: str
    created: int = 0
    updated: int = 0
    unchanged: int = 0
    """Live documents of the scope that the load left as they were."""
    tombstoned: int = 0
    rejected: int = 0
    batches: int = 0
    cursor: str | None = None
    """Where the newest of these batches ends, None without any."""
    caught_up: bool | None = None
    """Whether the newest of these batches was the last that was to be had, None without any."""


def fetched_metadata(fetched: Fetched) -> Mapping[str, Any]:
    """Give a partition's numbers, flat, so that Dagster plots them."""
    census = fetched.census
    metadata = {
        "records": fetched.records_count,
        "batches": fetched.batches_count,
        "cursor": fetched.cursor or "",
        "caught_up": fetched.is_caught_up,
        "resumes_at": fetched.resumes_at and fetched.resumes_at.isoformat(),
        "requests": fetched.requests_count,
        "account": fetched.account and f"{fetched.account.name}: {fetched.account.detail}".rstrip(": "),
        "records_per_request": round(fetched.records_count / fetched.requests_count, 1)
        if fetched.requests_count
        else None,
        "seconds": round(fetched.seconds, 3),
        "upstream": census and census.live_count,
        "missing": census and census.missing_count,
        "gone": census and census.gone_count,
        "held": (census.reason if census.is_held else "") if census else None,
    }
    return {name: value for name, value in metadata.items() if value is not None}


def by_scope(loaded: Iterable[Loaded], live: Mapping[tuple[str, str], int]) -> list[ScopeCounts]:
    """Add up what batches did, for every scope that has live documents or had a batch; `live` counts after the load."""
    groups: dict[tuple[str, str], list[Loaded]] = {key: [] for key in sorted(live)}
    for one in loaded:
        groups.setdefault((one.batch.source, one.batch.scope), []).append(one)
    return [_counts(*key, group, live.get(key, 0)) for key, group in groups.items()]


def _counts(source: str, scope: str, loaded: Sequence[Loaded], live: int) -> ScopeCounts:
    created = sum(one.created_count for one in loaded)
    updated = sum(one.updated_count for one in loaded)
    newest = loaded[-1].batch if loaded else None
    return ScopeCounts(
        source=source,
        scope=scope,
        created=created,
        updated=updated,
        unchanged=max(0, live - created - updated),
        tombstoned=sum(one.tombstoned_count for one in loaded),
        rejected=sum(one.rejected_count for one in loaded),
        batches=len(loaded),
        cursor=newest.cursor if newest else None,
        caught_up=newest.is_caught_up if newest else None,
    )


def markdown(counts: Iterable[ScopeCounts]) -> str:
    """Give the table of a load, for the Dagster UI."""
    head = (
        "| source | scope | created | updated | unchanged | tombstoned | rejected |\n|---|---|---:|---:|---:|---:|---:|"
    )
    rows = [
        (c.source, c.scope.replace("|", "&#124;"), c.created, c.updated, c.unchanged, c.tombstoned, c.rejected)
        for c in counts
    ]
    return "\n".join((head, *(f"| {' | '.join(map(str, row))} |" for row in rows)))


def column_schema() -> dg.TableSchema:
    """Give the documents' columns, with their descriptions."""
    return dg.TableSchema(
        [dg.TableColumn(column.name, str(column.type), column.description) for column in schema.DOCUMENT]
    )
