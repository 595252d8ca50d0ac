"""One sync from the command line: fetch, load, publish, and what to say of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from assets.documents import KEY
from assets.raw import SyncConfig, asset_key
from assets.runs import Runner, RunResult
from ingestion.config import Config


@dataclass(frozen=True, slots=True)
class ScopeReport:
    """What one sync did to one scope."""

    source: str
    scope: str
    created: int
    updated: int
    unchanged: int
    tombstoned: int
    rejected: int
    cursor: str | None
    caught_up: bool
    resumes_at: str | None
    requests: int
    seconds: float
    error: str | None


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What one sync did."""

    scopes: Sequence[ScopeReport]
    snapshot: str | None
    ok: bool
    error: str | None
    """Why nothing was loaded or published, where that failed."""
    warnings: Sequence[str]
    """The asset checks that did not pass."""


def sync(runner: Runner, config: Config, wanted: Mapping[str, Sequence[str]], options: SyncConfig) -> SyncReport:
    """Fetch the wanted scopes of each source, then load whatever is pending and publish it."""
    fetched: dict[tuple[str, str], dict[str, Any]] = {}
    for source, scopes in wanted.items():
        fetched |= {(source, scope): {} for scope in scopes}  # the order of the report: the file's
        for result in runner.sync(config, source, scopes, options):
            fetched |= {(source, scope): found for scope, found in _outcomes(result, source, scopes).items()}
    load = runner.run("load")
    return _report(fetched, load)


def load_only(runner: Runner) -> SyncReport:
    """Load whatever is pending and publish it."""
    return _report({}, runner.run("load"))


def _outcomes(result: RunResult, source: str, scopes: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Give, by scope of one run, its metadata or its error."""
    found: dict[str, dict[str, Any]] = {
        scope or "": values for scope, values in result.metadata(asset_key(source)).items()
    }
    for text, metadata in result.failures():
        errors: Mapping[str, str] = metadata.get("errors") or dict.fromkeys(set(scopes) - set(found), text)
        found |= {scope: {"error": error} for scope, error in errors.items()}
    return found


def _report(fetched: Mapping[tuple[str, str], dict[str, Any]], load: RunResult) -> SyncReport:
    failed = load.failures()
    loaded: dict[str, Any] = load.metadata(KEY).get(None, {})
    published: dict[str, Any] = load.metadata(dg.AssetKey("published")).get(None, {})
    counts = {(count["source"], count["scope"]): count for count in loaded.get("counts", [])}
    touched = [key for key, count in counts.items() if count["batches"]]  # also what earlier fetches had left pending
    keys = dict.fromkeys([*fetched, *touched])
    scopes = [_scope_report(key, fetched.get(key, {}), counts.get(key, {})) for key in keys]
    warnings = load.failed_checks()
    error = "; ".join(text for text, _ in failed) or (None if published else "not published: " + "; ".join(warnings))
    return SyncReport(
        scopes=scopes,
        snapshot=published.get("snapshot"),
        ok=error is None and not any(scope.error for scope in scopes),
        error=error,
        warnings=warnings,
    )


def _scope_report(key: tuple[str, str], fetched: Mapping[str, Any], counts: Mapping[str, Any]) -> ScopeReport:
    source, scope = key
    return ScopeReport(
        source=source,
        scope=scope,
        created=counts.get("created", 0),
        updated=counts.get("updated", 0),
        unchanged=counts.get("unchanged", 0),
        tombstoned=counts.get("tombstoned", 0),
        rejected=counts.get("rejected", 0),
        cursor=fetched.get("cursor", counts.get("cursor")),
        caught_up=bool(fetched.get("caught_up", counts.get("caught_up"))) and "error" not in fetched,
        resumes_at=fetched.get("resumes_at"),
        requests=fetched.get("requests", 0),
        seconds=fetched.get("seconds", 0.0),
        error=fetched.get("error"),
    )
