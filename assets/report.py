"""What the graph says of itself: metadata of runs, and the tables that people read."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import dagster as dg

from ingestion import schema
from resources.fetch import Fetched
from resources.load import Loaded


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
        "seconds": round(fetched.seconds, 3),
        "upstream": census and census.live_count,
        "missing": census and census.missing_count,
        "gone": census and census.gone_count,
        "held": (census.reason if census.is_held else "") if census else None,
    }
    return {name: value for name, value in metadata.items() if value is not None}


def by_scope(loaded: Iterable[Loaded], live: Mapping[tuple[str, str], int]) -> list[ScopeCounts]:
    """Add up what batches did, for every scope that has live documents or had a batch; `live` counts after the load."""
    sums: dict[tuple[str, str], list[int]] = {key: [0, 0, 0, 0] for key in sorted(live)}
    for one in loaded:
        total = sums.setdefault((one.batch.source, one.batch.scope), [0, 0, 0, 0])
        for place, count in enumerate((one.created_count, one.updated_count, one.tombstoned_count, one.rejected_count)):
            total[place] += count
    return [
        ScopeCounts(
            source, scope, created, updated, max(0, live.get((source, scope), 0) - created - updated), gone, bad
        )
        for (source, scope), (created, updated, gone, bad) in sums.items()
    ]


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
