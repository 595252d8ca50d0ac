"""Asset `documents`: every raw batch that is pending, normalized, validated and loaded, whatever fetched it."""

from dataclasses import asdict
from typing import Any

import dagster as dg
import duckdb

from assets.raw import asset_key
from assets.report import ScopeCounts, by_scope, column_schema, markdown
from ingestion.config import SourceConfig
from resources.discovery import connectors
from resources.load import load_all
from resources.rawlog import RawLog
from resources.sql import statement
from resources.warehouse import Warehouse

KEY = dg.AssetKey("documents")
WRITER_POOL = "warehouse"


def documents_asset(sources: list[SourceConfig]) -> dg.AssetsDefinition:
    """Make the asset; it depends on every source, and loads when any of them brought something.

    Plain `eager()` waits until every partition of every source has been fetched once: one dead scope would keep the
    warehouse shut, hence without `any_deps_missing`.
    """

    @dg.asset(
        key=KEY,
        deps=[asset_key(source.name) for source in sources],
        pool=WRITER_POOL,
        required_resource_keys={"raw_log", "warehouse"},
        group_name="warehouse",
        kinds={"duckdb"},
        automation_condition=dg.AutomationCondition.eager().without(~dg.AutomationCondition.any_deps_missing()),
        description="One row per document, current and former forms, tombstones included.",
        metadata={"dagster/column_schema": column_schema()},
    )
    def documents(context: dg.AssetExecutionContext) -> dg.MaterializeResult[Any]:
        raw_log: RawLog = context.resources.raw_log
        warehouse: Warehouse = context.resources.warehouse
        with warehouse.locked("loading documents"):
            loaded = load_all(warehouse, raw_log, connectors())
            with warehouse.connect() as connection:
                counts = by_scope(loaded, _live_counts(connection))
        touched = {(one.batch.source, one.batch.scope) for one in loaded}
        configured = {(source.name, scope) for source in sources for scope in source.scopes}
        for count in counts:
            if (count.source, count.scope) in touched & configured:
                context.log_event(_observation(count))
        return dg.MaterializeResult(metadata=_metadata(counts, len(loaded)))

    return documents


def _live_counts(connection: duckdb.DuckDBPyConnection) -> dict[tuple[str, str], int]:
    rows = connection.execute(statement("live_counts")).fetchall()
    return {(source, scope): count for source, scope, count in rows}


def _observation(count: ScopeCounts) -> dg.AssetObservation:
    """Tell the scope's own partition what became of its records: only the load knows."""
    numbers = {
        "created": count.created,
        "updated": count.updated,
        "unchanged": count.unchanged,
        "tombstoned": count.tombstoned,
        "rejected": count.rejected,
    }
    return dg.AssetObservation(asset_key(count.source), partition=count.scope, metadata=numbers)


def _metadata(counts: list[ScopeCounts], batches: int) -> dict[str, Any]:
    return {
        "created": sum(count.created for count in counts),
        "updated": sum(count.updated for count in counts),
        "unchanged": sum(count.unchanged for count in counts),
        "tombstoned": sum(count.tombstoned for count in counts),
        "rejected": sum(count.rejected for count in counts),
        "batches": batches,
        "dagster/row_count": sum(count.created + count.updated + count.unchanged for count in counts),
        "scopes": dg.MetadataValue.md(markdown(counts)),
        "counts": dg.MetadataValue.json([asdict(count) for count in counts]),
    }
