"""Runs of the Dagster jobs in this process, on the persistent instance: what the command line does, the UI shows."""

import os
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg

from assets.raw import SyncConfig, asset_key
from assets.schedules import ranges
from ingestion.config import Config
from resources.lock import exclusive, is_free

_PROCESS_TAG = "tributary/process"
_OPENING_TIMEOUT = 60.0
_IN_PROGRESS = [
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


_TELLING = {
    dg.DagsterEventType.ASSET_MATERIALIZATION,
    dg.DagsterEventType.ASSET_CHECK_EVALUATION,
    dg.DagsterEventType.STEP_FAILURE,
    dg.DagsterEventType.RUN_FAILURE,
}


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs jobs of one graph, and marks them as this process's, so that a later one can tell that it died."""

    definitions: dg.Definitions
    instance: dg.DagsterInstance
    process: str

    def sync(self, config: Config, source: str, scopes: Sequence[str], options: SyncConfig) -> Iterator["RunResult"]:
        """Fetch scopes of a source: one run per contiguous range of partitions."""
        settings = config.sources[source]
        job = f"{'census' if options.census else 'sync'}_{settings.slug}"
        ops = {asset_key(source).to_python_identifier(): {"config": options.model_dump(exclude_none=True)}}
        for tags in ranges(settings.scopes, scopes):
            yield self.run(job, tags, {"ops": ops})

    def run(
        self, job: str, tags: Mapping[str, str] | None = None, run_config: Mapping[str, Any] | None = None
    ) -> "RunResult":
        """Run one job to its end, whatever that is."""
        result = self.definitions.resolve_job_def(job).execute_in_process(
            instance=self.instance,
            tags={_PROCESS_TAG: self.process, **(tags or {})},
            run_config={**_QUIET, **(run_config or {})},
            raise_on_error=False,
        )
        ended = RunResult(self.instance, result.run_id)
        if ended.is_interrupted:  # Dagster takes Ctrl-C for a failure of the step: the operator means all that follows
            raise KeyboardInterrupt
        return ended


@dataclass(frozen=True, slots=True)
class RunResult:
    """What the event log says of a run that has ended."""

    instance: dg.DagsterInstance
    run_id: str
    _events: list[dg.DagsterEvent] = field(default_factory=list)

    def metadata(self, asset: dg.AssetKey) -> dict[str | None, dict[str, Any]]:
        """Give the metadata of an asset's materializations, by partition (None where it has none)."""
        events = (event for event in self.events() if event.is_step_materialization)
        found = (event.step_materialization_data.materialization for event in events)
        return {one.partition: _plain(one.metadata) for one in found if one.asset_key == asset}

    def failures(self) -> list[tuple[str, dict[str, Any]]]:
        """Give the text and the metadata of each failed step; without either, the run's own failure."""
        failed = []
        for event in self.events():
            if event.is_step_failure:
                user = event.step_failure_data.user_failure_data
                failed.append((_failure_text(event), _plain(user.metadata) if user else {}))
            elif event.is_failure and not failed:
                failed.append((event.message or "the run failed", {}))
        return failed

    @property
    def is_interrupted(self) -> bool:
        """Tell whether Ctrl-C ended the run."""
        errors = (event.step_failure_data.error for event in self.events() if event.is_step_failure)
        return any(error is not None and error.cls_name == "DagsterExecutionInterruptedError" for error in errors)

    def failed_checks(self) -> list[str]:
        """Give a line for each asset check that did not pass."""
        evaluations = (
            e.asset_check_evaluation_data for e in self.events() if e.event_type_value == "ASSET_CHECK_EVALUATION"
        )
        return [f"{one.check_name}: {one.description or 'failed'}" for one in evaluations if not one.passed]

    def events(self) -> list[dg.DagsterEvent]:
        """Give the run's events that say how it went, in order."""
        if not self._events:
            entries = self.instance.all_logs(self.run_id, of_type=_TELLING)
            self._events.extend(entry.dagster_event for entry in entries if entry.dagster_event)
        return self._events


@contextmanager
def runner(definitions: dg.Definitions, data: str) -> Iterator[Runner]:
    """Open the persistent instance (DAGSTER_HOME, by default this folder) and close the runs of processes that died."""
    os.environ.setdefault("DAGSTER_HOME", str(Path.cwd()))
    process = uuid.uuid4().hex
    lock = _process_lock(data, process)
    with ExitStack() as stack:
        # One at a time: Dagster's first opening makes tables, which two processes at once cannot, and a lock file of
        # ours that is not yet held would look like one of the dead.
        with exclusive(Path(data, "locks", "dagster.lock"), "opening the Dagster instance", timeout=_OPENING_TIMEOUT):
            instance = stack.enter_context(dg.DagsterInstance.get())
            stack.enter_context(exclusive(lock, "running jobs", timeout=0))
            close_dead_runs(instance, data)
        try:
            yield Runner(definitions, instance, process)
        finally:
            lock.unlink()


def close_dead_runs(instance: dg.DagsterInstance, data: str) -> None:
    """Fail the runs whose process was killed, and free their pool slots: the next run would wait for them for ever.

    Dagster's daemon watches the runs that it launched; a run in the process of a command is nobody's but ours.
    """
    for run in instance.get_runs(dg.RunsFilter(statuses=_IN_PROGRESS)):
        process = run.tags.get(_PROCESS_TAG)
        if process is not None and is_free(_process_lock(data, process)):
            instance.report_run_failed(run, "the process that ran this job died")
            instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
    for lock in Path(data, "locks").glob(_process_lock(data, "*").name):  # also of those that died before a run
        if is_free(lock):
            lock.unlink()


def _process_lock(data: str, process: str) -> Path:
    return Path(data, "locks", f"process-{process}.lock")


def _failure_text(event: dg.DagsterEvent) -> str:
    """Say why a step failed: what was raised in it, not Dagster's own error around that."""
    data = event.step_failure_data
    if data.user_failure_data and data.user_failure_data.description:
        return data.user_failure_data.description
    if data.error and data.error.cls_name == "DagsterAssetCheckFailedError":
        return "a check that guards the snapshot did not pass: nothing was published"
    raised = data.error and (data.error.cause or data.error)
    return re.sub(r"^ingestion\.errors\.\w+: ", "", raised.message.strip()) if raised else "failed"


def _plain(metadata: Mapping[str, dg.MetadataValue[Any]]) -> dict[str, Any]:
    return {name: value.value for name, value in metadata.items()}
