"""The code location: one function from sources.yaml to the Dagster graph."""

from typing import Any

import dagster as dg

from assets.checks import checks
from assets.documents import KEY, documents_asset
from assets.prune import prune, prune_schedule
from assets.published import published
from assets.raw import raw_asset, resource_key
from assets.schedules import schedule, sync_job
from assets.sensors import automation_sensor, poll_sensor
from ingestion.config import Config
from resources.connector import SupportsChanged
from resources.sources import build_connectors, load_config, raw_log, warehouse

LOAD_JOB = "load"


def build(config: Config) -> dg.Definitions:
    """Make the graph of a configuration; needs no secret and no network."""
    connectors = build_connectors(config)
    sources = list(config.sources.values())
    resources: dict[str, Any] = {resource_key(source): connectors[source.name] for source in sources}
    jobs = [sync_job(source, census=census) for source in sources for census in (False, True)]
    load_job = dg.define_asset_job(
        LOAD_JOB, selection=[KEY, published.key], description="Load every pending batch, check, and publish."
    )
    schedules = [
        schedule(source, cron, census=census)
        for source in sources
        for cron, census in ((source.sync, False), (source.census, True))
        if cron is not None
    ]
    polls = [poll_sensor(source) for source in sources if isinstance(connectors[source.name], SupportsChanged)]
    return dg.Definitions(
        assets=[*(raw_asset(source, config.memory_limit) for source in sources), documents_asset(sources), published],
        asset_checks=[checks(sources)],
        jobs=[*jobs, load_job, prune],
        schedules=[*schedules, prune_schedule],
        sensors=[automation_sensor(), *polls],
        resources={**resources, "raw_log": raw_log(config), "warehouse": warehouse(config)},
        executor=dg.in_process_executor,
    )


@dg.definitions
def defs() -> dg.Definitions:
    """Load the configured graph; mistakes of sources.yaml are raised, a line each."""
    return build(load_config())
