"""Asset `published`: the snapshot that analysts open."""

from typing import Any

import dagster as dg

from assets import documents
from resources.publish import publish
from resources.warehouse import Warehouse


@dg.asset(
    key="published",
    deps=[documents.KEY],
    pool=documents.WRITER_POOL,
    group_name="published",
    kinds={"duckdb"},
    automation_condition=(dg.AutomationCondition.eager() & dg.AutomationCondition.all_deps_blocking_checks_passed()),
    description="published/current.duckdb: a read-only copy, swapped in whole; unchanged when nothing changed.",
)
def published(context: dg.AssetExecutionContext, warehouse: dg.ResourceParam[Warehouse]) -> dg.MaterializeResult[Any]:
    """Publish what is loaded; the blocking checks of `documents` have passed."""
    with warehouse.locked("publishing"):
        new = publish(warehouse)
        current = new or warehouse.current()
    context.log.info("published %s" if new else "nothing changed since %s", current)
    return dg.MaterializeResult(
        metadata={
            "snapshot": dg.MetadataValue.path(str(current)),
            "is_new": new is not None,
            "bytes": warehouse.snapshot.stat().st_size,
        }
    )
