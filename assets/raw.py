"""Assets `raw/<source>`: the raw log of each source, partitioned by scope."""

import logging
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

import dagster as dg
from pydantic import Field

from assets.report import fetched_metadata
from ingestion.config import SourceConfig
from ingestion.errors import TributaryError
from ingestion.redact import redact
from resources.connector import Connector
from resources.fetch import Fetched, FetchOptions, ScopeFetch
from resources.known import Known, known
from resources.rawlog import RawLog, ScopeLog
from resources.sources import secrets
from resources.warehouse import Warehouse

THREADS = 4
"""Scopes of one source that are fetched at once: most of a fetch is waiting."""
LOCK_TIMEOUT = 600.0
"""Seconds to wait for another process that fetches the same source."""

progress = logging.getLogger("tributary.progress")


class SyncConfig(dg.Config):
    """What one run of a source's sync is asked to do."""

    census: bool = Field(default=False, description="Enumerate what exists upstream, and tombstone what is gone.")
    max_pages: int | None = Field(
        default=None, ge=1, description="Stop each scope after so many pages; the next run continues."
    )
    approve_deletions: bool = Field(default=False, description="Let pass the missing ids that the brake holds back.")


@dataclass(frozen=True, slots=True)
class _Outcome:
    """How the scopes of a run ended."""

    fetched: Mapping[str, Fetched]
    errors: Mapping[str, str]


def asset_key(source: str) -> dg.AssetKey:
    """Give the key of a source's raw asset."""
    return dg.AssetKey(["raw", source])


def resource_key(source: SourceConfig) -> str:
    """Give the key of a source's connector among the Dagster resources."""
    return f"source_{source.slug}"


def raw_asset(source: SourceConfig, memory_limit: str) -> dg.AssetsDefinition:
    """Make the asset of one source: each run fetches its partitions, and fails for those alone that failed."""
    with warnings.catch_warnings():
        # Beta in Dagster 1.13, and what makes a hundred scopes one run: 15 ms of CPU each instead of a second.
        warnings.simplefilter("ignore", dg.BetaWarning)
        decorate = dg.asset(
            key=asset_key(source.name),
            partitions_def=dg.StaticPartitionsDefinition(list(source.scopes)),
            backfill_policy=dg.BackfillPolicy.single_run(),
            pool=f"raw_{source.slug}",
            required_resource_keys={resource_key(source), "raw_log", "warehouse"},
            group_name="raw",
            kinds={source.connector, "parquet"},
            description=f"What was fetched of {source.name}, as it was sent; one partition per scope.",
        )

    def raw(context: dg.AssetExecutionContext, config: SyncConfig) -> dg.MaterializeResult[Any]:
        outcome = _fetch_all(context, source, config, memory_limit)
        if outcome.errors:
            _fail(context, source, outcome)
        for scope, fetched in outcome.fetched.items():
            context.add_asset_metadata(fetched_metadata(fetched), partition_key=scope)
        return dg.MaterializeResult()

    return decorate(raw)


def _fetch_all(
    context: dg.AssetExecutionContext, source: SourceConfig, config: SyncConfig, memory_limit: str
) -> _Outcome:
    raw_log: RawLog = context.resources.raw_log
    warehouse: Warehouse = context.resources.warehouse
    connector: Connector = getattr(context.resources, resource_key(source))
    options = FetchOptions(
        take_census=config.census,
        max_pages=config.max_pages,
        approve_deletions=config.approve_deletions,
        brake_ids=source.brake.ids,
        brake_share=source.brake.share,
    )
    hidden = secrets(source)
    fetched: dict[str, Fetched] = {}
    errors: dict[str, str] = {}
    scopes = list(context.partition_keys)
    try:
        with raw_log.lock(source.name, timeout=LOCK_TIMEOUT), known(warehouse.snapshot, memory_limit) as held:
            in_turn = sorted(scopes, key=lambda scope: _claim(raw_log.scope(source.name, scope), held))
            for scope, future in _submit(connector, source, raw_log, held, options, in_turn):
                try:
                    fetched[scope] = future.result()
                    progress.info("%s: %s", source.name, scope, extra={"scope": scope, "fetched": fetched[scope]})
                except Exception as error:  # noqa: BLE001 -- law 6: whatever ends one scope, the others go on
                    errors[scope] = redact(explain(error), hidden)
                    progress.info("%s: %s", source.name, scope, extra={"scope": scope, "error": errors[scope]})
    except TributaryError as error:  # the lock, or the snapshot: no scope was fetched
        errors = {scope: redact(explain(error), hidden) for scope in scopes}
    return _Outcome(fetched, errors)


def _claim(log: ScopeLog, held: Known) -> tuple[bool, int]:
    """Say who comes first where a quota is too small for all: scopes that were caught up, then those that had least."""
    newest = log.last(held.sequence(log))
    return newest is None or not newest.is_caught_up, newest.sequence if newest else 0


def _submit(  # noqa: PLR0913, PLR0917 -- the parts of one fetch
    connector: Connector, source: SourceConfig, raw_log: RawLog, held: Known, options: FetchOptions, scopes: list[str]
) -> Iterator[tuple[str, Future[Fetched]]]:
    """Fetch scopes in a few threads; yield each as it ends. What has not begun when this is left is not begun."""
    pool = ThreadPoolExecutor(THREADS, thread_name_prefix=source.slug)
    try:
        futures = {
            pool.submit(
                ScopeFetch(connector, source.connector, raw_log.scope(source.name, scope), held, options).run
            ): scope
            for scope in scopes
        }
        for future in as_completed(futures):
            yield futures[future], future
    finally:
        pool.shutdown(cancel_futures=True)


def explain(error: Exception) -> str:
    """Say what went wrong: our own errors speak to the operator, others need their type to be understood."""
    return str(error) if isinstance(error, TributaryError) else f"{type(error).__name__}: {error}"


def _fail(context: dg.AssetExecutionContext, source: SourceConfig, outcome: _Outcome) -> None:
    """Record the scopes that are good, and fail for the others alone.

    Dagster shows a partition as failed that a failed step was to make and did not report. Metadata added with
    `add_asset_metadata` is lost when a step fails, hence the events.
    """
    for scope, fetched in outcome.fetched.items():
        context.log_event(
            dg.AssetMaterialization(asset_key(source.name), partition=scope, metadata=fetched_metadata(fetched))
        )
    for scope, error in outcome.errors.items():  # why it is red, on the partition's own page
        context.log_event(dg.AssetObservation(asset_key(source.name), partition=scope, metadata={"error": error}))
    lines = [f"{scope}: {error}" for scope, error in outcome.errors.items()]
    total = len(outcome.errors) + len(outcome.fetched)
    raise dg.Failure(
        description=f"{len(lines)} of {total} scopes of {source.name} failed\n" + "\n".join(lines),
        metadata={"errors": dg.MetadataValue.json(dict(outcome.errors))},
        allow_retries=False,
    )
