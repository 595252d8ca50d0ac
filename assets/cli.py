"""The command line: `python -m assets sync | status | search | replay | check`.

Exit codes: 0 everything asked for was done, 1 some scope failed or nothing could be published, 2 bad configuration.
"""

import json
import logging
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Any, Literal

import typer
from dotenv import load_dotenv
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from assets import tables
from assets.definitions import build
from assets.raw import SyncConfig, explain, progress
from assets.runs import runner
from assets.status import scope_statuses
from assets.syncing import SyncReport, load_only
from assets.syncing import sync as run_sync
from ingestion.config import Config
from ingestion.errors import ConfigurationError, TributaryError
from ingestion.redact import redact
from resources.sources import load_config, require_environment, resolved_connector, secrets, warehouse

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)
_WIDTH = max(shutil.get_terminal_size().columns, 120)
"""In 80 columns, which a pipe counts as, rich would leave no room for the names of source and scope."""
_out = Console(width=_WIDTH, soft_wrap=True)
_err = Console(stderr=True, soft_wrap=True)

_Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]
_Several = Annotated[list[str] | None, typer.Option(help="Only these; may be given several times.")]
_Chosen = Annotated[
    list[str] | None,
    typer.Argument(metavar="[SOURCE[:SCOPE]]...", help="Only these; without any, all of sources.yaml."),
]


@app.callback()
def _read_environment() -> None:
    """Read .env, as `dagster dev` does; what the environment has already stays."""
    load_dotenv(".env")


@app.command()
def sync(
    chosen: _Chosen = None,
    *,
    census: Annotated[bool, typer.Option(help="Also enumerate what exists, and tombstone what is gone.")] = False,
    max_pages: Annotated[int | None, typer.Option(min=1, help="Stop each scope after so many pages.")] = None,
    approve_deletions: Annotated[bool, typer.Option(help="Let pass the missing ids that the brake holds.")] = False,
    as_json: _Json = False,
) -> None:
    """Fetch what changed, load it, and publish the snapshot."""
    with _exit_codes():
        config = load_config()
        wanted = _wanted(config, chosen or [])
        require_environment(config, wanted)
        options = SyncConfig(census=census, max_pages=max_pages, approve_deletions=approve_deletions)
        total = sum(map(len, wanted.values()))
        with runner(build(config), config.data) as running, _progress(total, is_quiet=as_json):
            report = run_sync(running, config, wanted, options)
        _print(report, as_json=as_json)


@app.command()
def replay(*, as_json: _Json = False) -> None:
    """Drop the warehouse and make it anew from the raw log; needs no network and no credentials."""
    with _exit_codes():
        config = load_config()
        with runner(build(config), config.data) as running:
            warehouse(config).drop()
            report = load_only(running)
        _print(report, as_json=as_json)


@app.command()
def status(*, as_json: _Json = False) -> None:
    """Show what is published of every scope, and how its last fetch ended."""
    with _exit_codes():
        config = load_config()
        snapshot = warehouse(config).snapshot
        with runner(build(config), config.data) as running:
            statuses = list(scope_statuses(config, running.instance, snapshot))
        if as_json:
            typer.echo(
                json.dumps({"scopes": [asdict(one) for one in statuses], "snapshot": str(snapshot)}, default=str)
            )
        else:
            _out.print(tables.statuses(statuses))


@app.command()
def search(  # noqa: PLR0913 -- each is an option of the command line
    query: Annotated[str, typer.Argument(help='Words, "a phrase", a prefix*, -excluded; any text is legal.')],
    *,
    top_k: Annotated[int, typer.Option(min=1, help="How many.")] = 10,
    source: _Several = None,
    scope: _Several = None,
    doc_type: _Several = None,
    author: _Several = None,
    assignee: _Several = None,
    tag: Annotated[list[str] | None, typer.Option(help="A tag or its beginning, such as status:open.")] = None,
    since: Annotated[
        str | None, typer.Option(help="Changed at this instant or later (UTC unless it names a zone).")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Changed at this instant or before.")] = None,
    status: Annotated[Literal["live", "tombstoned", "any"], typer.Option(help="Which documents.")] = "live",
    title_only: Annotated[bool, typer.Option("--title-only", help="Look at titles alone.")] = False,
    match_all: Annotated[bool, typer.Option("--all", help="Every word has to be there, not one of them.")] = False,
    as_json: _Json = False,
) -> None:
    """Search the published snapshot."""
    given: dict[str, Any] = {
        "source": source, "scope": scope, "doc_type": doc_type, "author": author, "assignee": assignee,
        "tag_prefix": tag, "since": since, "until": until,
    }  # fmt: skip
    filters = {name: value for name, value in given.items() if value}
    with _exit_codes():
        found = warehouse(load_config()).search(
            query, top_k, status=status, title_only=title_only, match_all=match_all, **filters
        )
        if as_json:
            typer.echo(json.dumps({"hits": [asdict(hit) for hit in found]}, default=str))
        else:
            _out.print(tables.hits(found) if found else "nothing found")


@app.command()
def check(source: Annotated[str | None, typer.Argument(help="Only this source.")] = None) -> None:
    """Prove the credentials and the reachability of every scope, and say who we are there."""
    with _exit_codes():
        config = load_config()
        failed = False
        for name, scopes in _wanted(config, [source] if source else []).items():
            connector = resolved_connector(config, name)
            for scope in scopes:
                try:
                    account = connector.check(scope)
                    told = escape(f"{name}: {scope}: {account.name}  {account.detail}".rstrip())
                    _out.print(f"[green]ok[/]      {told}")
                except TributaryError as error:
                    failed = True
                    text = redact(explain(error), secrets(config.sources[name]))
                    _out.print(f"[red]failed[/]  {escape(f'{name}: {scope}: {text}')}")
        if failed:
            raise typer.Exit(1)


def _wanted(config: Config, chosen: Sequence[str]) -> dict[str, list[str]]:
    """Give the scopes to take of each source, in the file's order.

    Raises:
        ConfigurationError: a name that is not in the file.
    """
    wanted: dict[str, set[str]] = {}
    for one in chosen:
        name, has_scope, scope = one.partition(":")
        if name not in config.sources:
            raise ConfigurationError(
                f"{config.at('sources')}: there is no source {name!r}; there is {', '.join(config.sources)}"
            )
        scopes = config.sources[name].scopes
        if has_scope and scope not in scopes:
            message = (
                f"{config.at('sources', name, 'scopes')}: {name} has no scope {scope!r}; it has {', '.join(scopes)}"
            )
            raise ConfigurationError(message)
        wanted.setdefault(name, set()).update([scope] if has_scope else scopes)
    if not chosen:
        return {name: list(source.scopes) for name, source in config.sources.items()}
    return {
        name: [scope for scope in source.scopes if scope in wanted[name]]
        for name, source in config.sources.items()
        if name in wanted
    }


def _print(report: SyncReport, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(asdict(report), default=str))
    else:
        _out.print(tables.report(report))
        for line in tables.remarks(report):
            _out.print(line)
    if not report.ok:
        raise typer.Exit(1)


@contextmanager
def _exit_codes() -> Iterator[None]:
    """Turn the tree of errors into the exit codes of the command line."""
    try:
        yield
    except ConfigurationError as error:
        for problem in error.problems:
            _err.print(problem, style="red", markup=False, highlight=False)
        raise typer.Exit(2) from None
    except TributaryError as error:
        _err.print(str(error), style="red", markup=False, highlight=False)
        raise typer.Exit(1) from None


@contextmanager
def _progress(total: int, *, is_quiet: bool) -> Iterator[None]:
    """Show a bar, and a line per scope as it ends, on the error stream."""
    if is_quiet:
        yield
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=_err, transient=True) as bar:
        task = bar.add_task("scopes", total=total)

        class Lines(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                is_scope = record.name == progress.name
                line = tables.progress_line(record) if is_scope else record.getMessage()
                bar.console.print(line, markup=False, highlight=False)
                bar.advance(task, 1 if is_scope else 0)

        handler = Lines()
        shown = (progress, logging.getLogger("tributary.http"))
        for logger in shown:
            logger.addHandler(handler)
            logger.setLevel(logging.INFO)
            logger.propagate = False
        try:
            yield
        finally:
            for logger in shown:
                logger.removeHandler(handler)
                logger.setLevel(logging.NOTSET)
                logger.propagate = True
