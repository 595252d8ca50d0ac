"""Asset checks of `documents`: what must hold after every load, and what an operator should look at."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import dagster as dg
import duckdb

from assets import documents
from assets.freshness import stale_scopes
from ingestion.config import SourceConfig
from resources.rawlog import RawLog
from resources.sql import statement
from resources.warehouse import Warehouse

REJECT_SHARE = 0.05
"""More rejects than this share of a scope's records is worth a look."""
_LISTED = 20

_SPECS = (
    dg.AssetCheckSpec(
        "unique_keys",
        asset=documents.KEY,
        blocking=True,
        description="One current form per document, one row per record.",
    ),
    dg.AssetCheckSpec(
        "search_index",
        asset=documents.KEY,
        blocking=True,
        description="The search index adds up to the documents.",
    ),
    dg.AssetCheckSpec("batches_loaded", asset=documents.KEY, description="Every batch of the raw log is loaded."),
    dg.AssetCheckSpec("census_brake", asset=documents.KEY, description="No census is held back, waiting for approval."),
    dg.AssetCheckSpec(
        "reject_share", asset=documents.KEY, description=f"At most {REJECT_SHARE:.0%} of a scope is refused."
    ),
    dg.AssetCheckSpec("stale_scopes", asset=documents.KEY, description="Every scheduled scope was fetched lately."),
)


def checks(sources: list[SourceConfig]) -> dg.AssetChecksDefinition:
    """Make the checks; they run in one step, which opens the warehouse once."""

    @dg.multi_asset_check(
        specs=_SPECS,
        name="documents_checks",
        pool=documents.WRITER_POOL,
        required_resource_keys={"raw_log", "warehouse"},
    )
    def documents_checks(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        warehouse: Warehouse = context.resources.warehouse
        with warehouse.locked("checking"), warehouse.connect() as connection:
            yield _none("unique_keys", _rows(connection, "check_unique_keys"), "{0} {1} has {2} rows")
            yield _none(
                "search_index",
                _rows(connection, "check_search_index"),
                "the index has {2} {0}, not {1}; replay makes it anew",
            )
            yield _none(
                "batches_loaded", _pending(connection, context.resources.raw_log), "{0} {1} has {2} batches pending"
            )
            yield _none(
                "census_brake",
                _rows(connection, "check_census_brake"),
                "{0} {1}: {3}; look, then sync with --census --approve-deletions",
            )
            yield _none(
                "reject_share",
                _rows(connection, "check_reject_share", REJECT_SHARE),
                "{0} {1}: {2} of {3} records are refused; see the table rejects",
                severity=dg.AssetCheckSeverity.WARN,
            )
        yield _none(
            "stale_scopes",
            stale_scopes(context.instance, sources, datetime.now(UTC)),
            "{0} {1}: {2}",
            severity=dg.AssetCheckSeverity.WARN,
        )

    return documents_checks


def _rows(connection: duckdb.DuckDBPyConnection, name: str, *parameters: object) -> list[tuple[Any, ...]]:
    return connection.execute(statement(name), parameters).fetchall()


def _pending(connection: duckdb.DuckDBPyConnection, raw_log: RawLog) -> list[tuple[str, str, int]]:
    """Count the batches that came since the load; a sync that runs beside it may just have brought one."""
    loaded = {(source, scope): sequence for source, scope, sequence in _rows(connection, "check_loaded")}
    pending = []
    for log in raw_log.scopes():
        count = sum(1 for _ in log.after(loaded.get((log.source, log.scope), 0)))
        if count:
            pending.append((log.source, log.scope, count))
    return pending


def _none(
    name: str,
    found: Sequence[tuple[Any, ...]],
    line: str,
    *,
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.ERROR,
) -> dg.AssetCheckResult:
    """Pass where nothing was found; otherwise say what, a line each."""
    lines = [line.format(*row) for row in found[:_LISTED]]
    return dg.AssetCheckResult(
        check_name=name,
        asset_key=documents.KEY,
        passed=not found,
        severity=severity,
        description="\n".join(lines) or None,
        metadata={"found": len(found)},
    )
