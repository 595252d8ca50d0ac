"""Search from Python: the macro of the snapshot, with typed results."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

import duckdb

from ingestion.errors import ConfigurationError

_ALL = 2**40
"""More than there can be."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One document that was found; docs/how-to/search.md says what they are."""

    doc_id: str
    score: float
    title: str
    snippet: str
    url: str
    source: str
    scope: str
    doc_type: str
    author: str | None
    assignees: list[str]
    tags: list[str]
    updated_at: datetime | None
    is_deleted: bool
    thread_id: str | None
    passage_start: int
    passage_end: int
    duplicates_count: int


@dataclass(frozen=True, slots=True)
class Source:
    """What there is of one scope."""

    source: str
    scope: str
    documents_count: int
    updated_at: datetime | None
    """The newest of its documents."""


class Filters(TypedDict, total=False):
    """What narrows a search; one value or several, of which one has to fit."""

    source: str | Sequence[str]
    scope: str | Sequence[str]
    source_id: str | Sequence[str]
    doc_type: str | Sequence[str]
    author: str | Sequence[str]
    assignee: str | Sequence[str]
    participant: str | Sequence[str]
    channel: str | Sequence[str]
    thread_id: str | Sequence[str]
    tag_prefix: str | Sequence[str]
    since: datetime | str
    until: datetime | str
    status: Literal["live", "tombstoned", "any"]
    title_only: bool
    match_all: bool
    collapse: bool


def search(snapshot: Path, query: str, top_k: int = 10, **filters: Unpack[Filters]) -> list[Hit]:
    """Give the best documents for a text, the best first.

    Raises:
        ConfigurationError: nothing was published yet, or a filter cannot be read.
    """
    return [Hit(*row) for row in _rows(snapshot, "FROM", query, top_k, filters)]


def count(snapshot: Path, query: str = "", **filters: Unpack[Filters]) -> int:
    """Count the documents that a text finds, every one of those with the same text; a blank text finds all.

    Raises:
        ConfigurationError: as for `search`.
    """
    ((found,),) = _rows(snapshot, "SELECT count(*) FROM", query, _ALL, {"collapse": False, **filters})
    return int(found)


def sources(snapshot: Path) -> list[Source]:
    """Say what there is to be searched, a row for each scope of each source.

    Raises:
        ConfigurationError: nothing was published yet.
    """
    with _opened(snapshot) as connection:
        rows = connection.execute(
            "SELECT source, scope, count(*), max(updated_at) FROM documents GROUP BY ALL ORDER BY ALL"
        ).fetchall()
    return [Source(*row) for row in rows]


def _rows(snapshot: Path, select: str, query: str, top_k: int, filters: Filters) -> list[tuple[Any, ...]]:
    # Only what is given: a filter that is NULL as a parameter is looked at for every document, not folded away.
    given = {name: value for name, value in filters.items() if value is not None}
    named = "".join(f", {name} := ${name}" for name in given)
    with _opened(snapshot) as connection:
        try:
            return connection.execute(
                f"{select} search($query, top_k := $top_k{named})",
                {"query": query, "top_k": top_k, **given},
            ).fetchall()
        except (duckdb.InvalidInputException, duckdb.ConversionException) as error:
            raise ConfigurationError(f"the search cannot be done: {error}") from None


@contextmanager
def _opened(snapshot: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    if not snapshot.exists():
        raise ConfigurationError(f"{snapshot} is not there yet: run `python -m assets sync`")
    with duckdb.connect(str(snapshot.resolve()), read_only=True) as connection:
        connection.execute("SET timezone = 'UTC'")
        yield connection
