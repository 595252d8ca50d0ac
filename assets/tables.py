"""The tables and lines of the command line."""

import logging
from collections.abc import Iterator, Sequence
from datetime import datetime

from rich.markup import escape
from rich.table import Table

from assets.status import ScopeStatus
from assets.syncing import ScopeReport, SyncReport
from resources.fetch import Fetched
from resources.searching import Hit

_LONGEST_CURSOR = 16


def _table() -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("source", "scope"):
        table.add_column(column, overflow="fold")
    return table


def hits(found: Sequence[Hit]) -> Table:
    """Give one row per document that was found."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("document", overflow="fold")
    for hit in found:
        more = f" [dim](and {hit.duplicates_count} with the same text)[/]" if hit.duplicates_count else ""
        gone = " [red](gone upstream)[/]" if hit.is_deleted else ""
        where = f"[dim]{escape(hit.url)}[/]"
        table.add_row(f"{hit.score:.2f}", f"[bold]{escape(hit.title)}[/]{gone}{more}\n{where}\n{escape(hit.snippet)}\n")
    return table


def report(found: SyncReport) -> Table:
    """Give one row per scope of a sync."""
    table = _table()
    for column in ("created", "updated", "unchanged", "tombstoned", "rejected"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("cursor", no_wrap=True)
    table.add_column("caught up", no_wrap=True)
    table.add_column("seconds", justify="right", no_wrap=True)
    for scope in found.scopes:
        counts = (scope.created, scope.updated, scope.unchanged, scope.tombstoned, scope.rejected)
        table.add_row(
            escape(scope.source),
            escape(scope.scope),
            *map(str, counts),
            escape(_short(scope.cursor or "-")),
            _caught_up(scope),
            f"{scope.seconds:.1f}",
        )
    return table


def remarks(found: SyncReport) -> Iterator[str]:
    """Say what failed, what to look at, and where the snapshot is."""
    for scope in found.scopes:
        if scope.error:
            yield f"[red]failed[/] {escape(scope.source)}: {escape(scope.scope)}: {escape(scope.error)}"
    if found.error:
        yield f"[red]failed[/] {escape(found.error)}"
    for warning in found.warnings:
        yield f"[yellow]look at[/] {escape(warning)}"
    if found.snapshot:
        yield f"snapshot: {escape(found.snapshot)}"


def statuses(found: Sequence[ScopeStatus]) -> Table:
    """Give one row per configured scope."""
    table = _table()
    for column in ("live", "upstream", "tombstoned", "rejected"):
        table.add_column(column, justify="right", no_wrap=True)
    for column in ("caught up", "last fetched (UTC)"):
        table.add_column(column, no_wrap=True)
    table.add_column("remark")
    for one in found:
        remark = (
            "[red]last fetch failed[/]" if one.is_failed else f"[red]held: {escape(one.held)}[/]" if one.held else ""
        )
        upstream = "-" if one.upstream is None else str(one.upstream)
        table.add_row(
            escape(one.source),
            escape(one.scope),
            *(str(one.live), upstream, str(one.tombstoned), str(one.rejected)),
            "yes" if one.caught_up else "no",
            _minute(one.last_fetched_at),
            remark,
        )
    return table


def progress_line(record: logging.LogRecord) -> str:
    """Say how the fetch of one scope ended, from the progress log's record."""
    error: str | None = getattr(record, "error", None)
    if error is not None:
        return f"  {record.getMessage()}: failed: {error}"
    fetched: Fetched = record.fetched  # type: ignore[attr-defined]  # set by assets.raw with `extra`
    end = "caught up" if fetched.is_caught_up else "to be continued"
    if fetched.resumes_at:
        end = f"resumes at {fetched.resumes_at:%H:%M} UTC"
    return f"  {record.getMessage()}: {fetched.records_count} records, {end}"


def _caught_up(scope: ScopeReport) -> str:
    if scope.error:
        return "[red]failed[/]"
    if scope.resumes_at:
        return f"resumes at {datetime.fromisoformat(scope.resumes_at):%H:%M} UTC"
    return "yes" if scope.caught_up else "no"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_CURSOR else f"{text[: _LONGEST_CURSOR - 1]}…"


def _minute(at: datetime | None) -> str:
    return "never" if at is None else f"{at:%Y-%m-%d %H:%M}"
