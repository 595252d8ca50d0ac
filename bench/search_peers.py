"""Search engines on the corpus of `bench.corpus`: `python -m bench.search_peers ENGINE FOLDER REPEAT` prints JSON.

Each engine is set up as its documentation says, and gives of the ten best documents what search() gives: score, title,
snippet (DuckDB's has none) and the columns that an answer cites. The title weighs three times (DuckDB's knows no
weights). Tombstones, which search() holds and leaves out, are not given to the others at all, and what else can be
chosen is in their favour: SQLite indexes a first load in one go and is optimized, tantivy does not count what it finds.

`bench.search` runs this module, and measures our own engine by it; tantivy is in an environment of its own.
"""

import json
import sqlite3
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import duckdb

REQUIREMENTS = ("tantivy==0.27.0",)
DOCUMENTS_FILE, CHANGES_FILE, QUERIES_FILE = "documents.parquet", "changes.parquet", "queries.json"
CHANGES = (1, 1, 1, 100, 100, 100, 10_000)
"""How many documents change at once, one batch after the other."""
COMPARED = "rare"
"""The kind of queries of which everybody has to find the same documents."""
THREADS = 2
_TOP, _MANY = 10, 1_000
_ROWS = 5_000
_HEAP_BYTES = 256_000_000
_COLUMNS = ("number", "doc_id", "source", "title", "content", "author", "tags", "url", "updated_at")

Row = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked, in no engine's syntax."""

    words: Sequence[str]
    since: str = ""
    until: str = ""
    source: str = ""
    tag_prefix: str = ""
    excluded: str = ""
    is_phrase: bool = False
    is_prefix: bool = False
    match_all: bool = False
    title_only: bool = False
    collapse: bool = True
    """Whether documents of the same text are one; only search() knows that."""
    kind: str = ""
    """The row of the table that it belongs to."""

    @property
    def text(self) -> str:
        """Write it as search() and most others take it."""
        text = " ".join(self.words)
        if self.is_phrase:
            text = f'"{text}"'
        return text + "*" * self.is_prefix + f" -{self.excluded}" * bool(self.excluded)


class Costs(defaultdict[str, float]):
    """CPU seconds of the process, its threads included, by what they were spent on."""

    def __init__(self) -> None:
        super().__init__(float)

    @contextmanager
    def of(self, purpose: str) -> Iterator[None]:
        """Add what the block takes."""
        started = time.process_time()
        yield
        self[purpose] += time.process_time() - started


@dataclass(frozen=True, slots=True)
class Searcher:
    """An engine that is open for queries."""

    answer: Callable[[Query, int], Sequence[Row] | None]
    """Give so many documents, their ids first; None where the engine cannot be asked such a thing."""
    count: Callable[[Query], int] | None = None
    """Count the documents that match."""


class Engine(Protocol):
    """What is measured. Each step gives what it cost: the `index`, the `documents` and what else can be told apart."""

    @property
    def merges_later(self) -> bool:
        """Whether a first load leaves the index in a form that is worth being measured before the merge."""

    def load(self, documents: Path) -> Costs:
        """Store and index the documents."""

    def merge(self) -> Costs:
        """Make the index as good for queries as it can be."""

    def change(self, changes: Path, batch: int) -> Costs:
        """Replace documents by those of this batch."""

    def size(self) -> int:
        """Give the bytes on disk."""

    def searcher(self) -> AbstractContextManager[Searcher]:
        """Open for queries."""


@dataclass
class Answers:
    """What queries took, each time, by their kind; in milliseconds."""

    wall: dict[str, list[float]] = field(default_factory=dict)
    cpu: dict[str, list[float]] = field(default_factory=dict)


@dataclass
class Report:
    """The figures of one engine."""

    load: dict[str, float]
    megabytes: float
    unmerged: Answers | None
    merge: dict[str, float]
    merged: Answers
    changes: dict[str, dict[str, float]]
    """What so many changed documents cost, as the median of as many batches as there are."""
    found: list[list[str]]
    """For each query of the kind that is compared, the documents."""
    matches: dict[str, float]
    """How many documents there are for a query of a kind, as the median; empty where the engine does not tell."""

    @classmethod
    def parse(cls, given: dict[str, Any]) -> "Report":
        """Read what `main` printed."""
        unmerged = given["unmerged"] and Answers(**given["unmerged"])
        return cls(**{**given, "unmerged": unmerged, "merged": Answers(**given["merged"])})


def measure(engine: Engine, folder: Path, repeat: int) -> Report:
    """Load, ask, merge, ask again, change."""
    queries = [Query(**query) for query in json.loads((folder / QUERIES_FILE).read_text())]
    load = engine.load(folder / DOCUMENTS_FILE)
    size = engine.size()
    unmerged = None
    if engine.merges_later:
        with engine.searcher() as searcher:
            unmerged = ask(searcher, queries, repeat)
    merge = engine.merge()
    with engine.searcher() as searcher:
        merged = ask(searcher, queries, repeat)
        compared = [query for query in queries if query.kind == COMPARED]
        found = [searcher.answer(replace(query, collapse=False), _MANY) or [] for query in compared]
        matches = _matches(searcher, queries)
    changes: dict[str, list[Costs]] = defaultdict(list)
    for batch, count in enumerate(CHANGES):
        changes[str(count)].append(engine.change(folder / CHANGES_FILE, batch))
    return Report(
        load=dict(load),
        megabytes=size / 1e6,
        unmerged=unmerged,
        merge=dict(merge),
        merged=merged,
        changes={count: _medians(costs) for count, costs in changes.items()},
        found=[sorted(row[0] for row in rows) for rows in found],
        matches=matches,
    )


def ask(searcher: Searcher, queries: Sequence[Query], repeat: int) -> Answers:
    """Ask each query so many times, after once for warming up."""
    answers = Answers()
    kinds: dict[str, list[Query]] = defaultdict(list)
    for query in queries:
        if searcher.answer(query, _TOP) is not None:
            kinds[query.kind].append(query)
    for kind, asked in kinds.items():
        times = [_timed(searcher, query) for _ in range(repeat) for query in asked]
        answers.wall[kind] = [wall for wall, _ in times]
        answers.cpu[kind] = [cpu for _, cpu in times]
    return answers


def _timed(searcher: Searcher, query: Query) -> tuple[float, float]:
    cpu, wall = time.process_time(), time.perf_counter()
    searcher.answer(query, _TOP)
    return (time.perf_counter() - wall) * 1e3, (time.process_time() - cpu) * 1e3


def _matches(searcher: Searcher, queries: Sequence[Query]) -> dict[str, float]:
    counts: dict[str, list[int]] = defaultdict(list)
    if searcher.count is not None:
        for query in queries:
            if query.words:
                counts[query.kind].append(searcher.count(query))
    return {kind: median(found) for kind, found in counts.items()}


def _medians(costs: Sequence[Costs]) -> dict[str, float]:
    return {purpose: median(cost[purpose] for cost in costs) for purpose in costs[0]}


def rows(path: Path, batch: int | None = None) -> Iterator[Sequence[Row]]:
    """Yield the live documents of a file, in lists; or those of a batch of changes."""
    with duckdb.connect(config={"threads": 1}) as connection:  # no thread that reads ahead while something is measured
        selected = f"SELECT {', '.join(_COLUMNS)} FROM read_parquet($1)"  # noqa: S608 -- literals
        selected = selected.replace("updated_at", "strftime(updated_at::TIMESTAMP, '%Y-%m-%dT%H:%M:%SZ')")
        connection.execute("SET timezone = 'UTC'")
        if batch is None:
            connection.execute(f"{selected} WHERE NOT is_deleted", [str(path)])
        else:
            connection.execute(f"{selected} WHERE batch = $2", [str(path), batch])
        while found := connection.fetchmany(_ROWS):
            yield found


class Stock:
    """DuckDB's own full-text extension, as its documentation shows it; it has to build its index anew for a change."""

    merges_later = False

    def __init__(self, folder: Path) -> None:
        self._path = folder / "stock.duckdb"

    @contextmanager
    def _connection(self) -> Iterator[duckdb.DuckDBPyConnection]:
        from resources.searchindex import load_extension  # noqa: PLC0415 -- not there where tantivy runs

        with duckdb.connect(str(self._path), config={"threads": THREADS}) as connection:
            connection.execute("SET timezone = 'UTC'")
            load_extension(connection)
            yield connection

    def load(self, documents: Path) -> Costs:
        """Copy the documents, and create the index."""
        costs = Costs()
        with self._connection() as connection:
            with costs.of("documents"):
                connection.execute(
                    f"CREATE TABLE docs AS SELECT {', '.join(_COLUMNS)} FROM read_parquet($1) WHERE NOT is_deleted",  # noqa: S608 -- literals
                    [str(documents)],
                )
                connection.execute("CHECKPOINT")
            with costs.of("index"):
                connection.execute(
                    "PRAGMA create_fts_index("
                    "'docs', 'number', 'title', 'content', stemmer = 'porter', stopwords = 'none')"
                )
                connection.execute("CHECKPOINT")
        return costs

    def merge(self) -> Costs:
        """Do nothing: it is merged."""
        return Costs()

    def change(self, _changes: Path, _batch: int) -> Costs:
        """Do nothing: it could only do all again."""
        return Costs()

    def size(self) -> int:
        """Give the size of the file."""
        return self._path.stat().st_size

    @contextmanager
    def searcher(self) -> Iterator[Searcher]:
        """Score every document, as the documentation does it."""
        with self._connection() as connection:
            yield Searcher(lambda query, top: self._answer(connection, query, top))

    @staticmethod
    def _answer(connection: duckdb.DuckDBPyConnection, query: Query, top: int) -> Sequence[Row] | None:
        if query.is_phrase or query.is_prefix or query.excluded or not query.words:
            return None
        conditions = {
            "source = $source": query.source,
            "len(list_filter(tags, lambda tag: starts_with(tag, $tag_prefix))) > 0": query.tag_prefix,
            "updated_at >= $since::TIMESTAMPTZ": query.since,
            "updated_at <= $until::TIMESTAMPTZ": query.until,
        }
        given = {name: value for name in ("source", "tag_prefix", "since", "until") if (value := getattr(query, name))}
        fields = "'title'" if query.title_only else "NULL"
        return connection.execute(
            f"""
            SELECT doc_id, score, title, url, source, author, tags, updated_at
            FROM (
                SELECT *, fts_main_docs.match_bm25(
                    number, $text, fields := {fields}, conjunctive := {int(query.match_all)}
                ) AS score
                FROM docs
            )
            WHERE {" AND ".join(["score IS NOT NULL", *(sql for sql, value in conditions.items() if value)])}
            ORDER BY score DESC LIMIT {top}
            """,  # noqa: S608 -- literals
            {"text": query.text, **given},
        ).fetchall()


class Sqlite:
    """FTS5 over a table of documents ("external content"), kept by the triggers that its documentation gives."""

    merges_later = False

    def __init__(self, folder: Path) -> None:
        self._path = folder / "sqlite.db"

    def load(self, documents: Path) -> Costs:
        """Store the documents, and have the index built."""
        costs = Costs()
        with closing(sqlite3.connect(self._path)) as database:
            database.execute(f"CREATE TABLE docs (number INTEGER PRIMARY KEY, {', '.join(_COLUMNS[1:])})")
            for some in rows(documents):
                with costs.of("documents"):
                    database.executemany(self._statement("INSERT"), map(self._row, some))
            with costs.of("documents"):
                database.commit()
            with costs.of("index"):
                database.executescript(self._INDEX)
        return costs

    def merge(self) -> Costs:
        """Merge all that was written into one tree."""
        costs = Costs()
        with closing(sqlite3.connect(self._path)) as database, costs.of("index"):
            database.execute("INSERT INTO words (words) VALUES ('optimize')")
            database.commit()
        return costs

    def change(self, changes: Path, batch: int) -> Costs:
        """Replace documents; triggers do the rest, and only all of it together can be measured."""
        costs = Costs()
        with closing(sqlite3.connect(self._path)) as database:
            for some in rows(changes, batch):
                with costs.of("index"):
                    database.executemany(
                        "UPDATE docs SET title = ?, content = ? WHERE number = ?",
                        [(title, content, number) for number, _, _, title, content, *_ in some],
                    )
            with costs.of("index"):
                database.commit()
        return costs

    def size(self) -> int:
        """Give the size of the file."""
        return self._path.stat().st_size

    @contextmanager
    def searcher(self) -> Iterator[Searcher]:
        """Open the file."""
        with closing(sqlite3.connect(self._path)) as database:
            yield Searcher(
                lambda query, top: self._answer(database, query, top),
                lambda query: int(self._select(database, query, "count(*)", "")[0][0]),
            )

    def _answer(self, database: sqlite3.Connection, query: Query, top: int) -> Sequence[Row] | None:
        if not query.words:
            return None
        return self._select(database, query, self._SHOWN, f"ORDER BY w.rank LIMIT {top}")

    @staticmethod
    def _select(database: sqlite3.Connection, query: Query, shown: str, order: str) -> list[Row]:
        match = (" AND " if query.match_all else " OR ").join(query.words) + "*" * query.is_prefix
        if query.is_phrase:
            match = query.text
        if query.excluded:
            match = f"{match} NOT {query.excluded}"
        if query.title_only:
            match = f"title : ({match})"
        conditions = {
            "words MATCH ?": match,
            "d.source = ?": query.source,
            "EXISTS (SELECT 1 FROM json_each(d.tags) WHERE value LIKE ? || '%')": query.tag_prefix,
            "d.updated_at >= ?": query.since,
            "d.updated_at <= ?": query.until,
        }
        where = " AND ".join(sql for sql, value in conditions.items() if value)
        sql = f"SELECT {shown} FROM words AS w JOIN docs AS d ON d.number = w.rowid WHERE {where} {order}"  # noqa: S608 -- literals
        return database.execute(sql, [value for value in conditions.values() if value]).fetchall()

    @staticmethod
    def _statement(verb: str) -> str:
        return f"{verb} INTO docs VALUES ({', '.join('?' * len(_COLUMNS))})"

    @staticmethod
    def _row(row: Row) -> list[Any]:
        return [json.dumps(value) if isinstance(value, list) else value for value in row]

    _SHOWN = """
        d.doc_id, w.rank, d.title, snippet(words, 1, '**', '**', '…', 30),
        d.url, d.source, d.author, d.tags, d.updated_at
    """
    _INDEX = """
        CREATE VIRTUAL TABLE words USING fts5(
            title, content, content = 'docs', content_rowid = 'number', tokenize = 'porter unicode61'
        );
        INSERT INTO words (words, rank) VALUES ('rank', 'bm25(3.0, 1.0)');
        INSERT INTO words (words) VALUES ('rebuild');
        CREATE TRIGGER changed AFTER UPDATE ON docs BEGIN
            INSERT INTO words (words, rowid, title, content) VALUES ('delete', old.number, old.title, old.content);
            INSERT INTO words (rowid, title, content) VALUES (new.number, new.title, new.content);
        END;
    """


class Tantivy:
    """Tantivy with its English stemmer; it stores the documents itself."""

    merges_later = False

    def __init__(self, folder: Path) -> None:
        import tantivy  # type: ignore[import-not-found]  # noqa: PLC0415 -- it is in an environment of its own

        self._library = tantivy
        builder = tantivy.SchemaBuilder()
        for name in ("title", "content"):
            builder.add_text_field(name, stored=True, tokenizer_name="en_stem")
        for name in ("doc_id", "source", "author", "tags", "url"):
            builder.add_text_field(name, stored=True, tokenizer_name="raw", index_option="basic")
        builder.add_date_field("updated_at", stored=True, indexed=True, fast=True)
        self._schema = builder.build()
        self._folder = folder / "tantivy"
        self._folder.mkdir()
        self._index = tantivy.Index(self._schema, str(self._folder))

    def load(self, documents: Path) -> Costs:
        """Add the documents, and wait until what it merges in the background is merged."""
        return self._write(rows(documents), is_replacing=False)

    def merge(self) -> Costs:
        """Do nothing: it merges by itself."""
        return Costs()

    def change(self, changes: Path, batch: int) -> Costs:
        """Delete documents and add others."""
        return self._write(rows(changes, batch), is_replacing=True)

    def size(self) -> int:
        """Give the sizes of the files."""
        return sum(path.stat().st_size for path in self._folder.iterdir())

    @contextmanager
    def searcher(self) -> Iterator[Searcher]:
        """Take what is committed."""
        self._index.reload()
        searcher = self._index.searcher()
        yield Searcher(lambda query, top: self._answer(searcher, query, top))

    def _write(self, chunks: Iterator[Sequence[Row]], *, is_replacing: bool) -> Costs:
        costs = Costs()
        with costs.of("index"):
            writer = self._index.writer(_HEAP_BYTES, THREADS)
        for some in chunks:
            with costs.of("index"):
                for row in some:
                    if is_replacing:
                        writer.delete_documents_by_term("doc_id", row[1])
                    values = dict(zip(_COLUMNS[1:], row[1:], strict=True))
                    values["updated_at"] = datetime.fromisoformat(values["updated_at"])
                    writer.add_document(self._library.Document(**values))
        with costs.of("index"):
            writer.commit()
            writer.wait_merging_threads()
        return costs

    def _answer(self, searcher: Any, query: Query, top: int) -> Sequence[Row]:  # noqa: ANN401 -- it has no types here
        if not query.words:
            newest = searcher.search(self._library.Query.all_query(), top, count=False, order_by_field="updated_at")
            return [self._row(score, searcher.doc(address), "") for score, address in newest.hits]
        words = self._words(query)
        found = searcher.search(self._filtered(words, query), top, count=False)
        snippets = self._library.SnippetGenerator.create(searcher, words, self._schema, "content")
        documents = [(score, searcher.doc(address)) for score, address in found.hits]
        return [self._row(score, one, snippets.snippet_from_doc(one).to_html()) for score, one in documents]

    @staticmethod
    def _row(score: float, document: Any, snippet: str) -> Row:  # noqa: ANN401 -- it has no types here
        (doc_id,) = document["doc_id"]
        return (
            doc_id,
            score,
            document["title"],
            snippet,
            *(document[name] for name in ("url", "source", "author", "tags", "updated_at")),
        )

    def _words(self, query: Query) -> Any:  # noqa: ANN401 -- it has no types here
        fields = ["title"] if query.title_only else ["title", "content"]
        if query.is_prefix:
            (prefix,) = query.words
            some = [self._library.Query.regex_query(self._schema, name, f"{prefix}.*") for name in fields]
            return self._library.Query.boolean_query([(self._library.Occur.Should, one) for one in some])
        return self._index.parse_query(
            query.text, fields, field_boosts={"title": 3.0}, conjunction_by_default=query.match_all
        )

    def _filtered(self, words: Any, query: Query) -> Any:  # noqa: ANN401 -- it has no types here
        make, must = self._library.Query, self._library.Occur.Must
        filters = []
        if query.source:
            filters.append(make.term_query(self._schema, "source", query.source))
        if query.tag_prefix:
            filters.append(make.regex_query(self._schema, "tags", f"{query.tag_prefix}.*"))
        if query.since:
            bounds = (datetime.fromisoformat(query.since), datetime.fromisoformat(query.until))
            filters.append(make.range_query(self._schema, "updated_at", self._library.FieldType.Date, *bounds))
        if not filters:
            return words
        return make.boolean_query([(must, words), *((must, make.const_score_query(one, 0.0)) for one in filters)])


ENGINES: dict[str, Callable[[Path], Engine]] = {"stock": Stock, "sqlite": Sqlite, "tantivy": Tantivy}


def main() -> None:
    """Measure one engine."""
    name, folder, repeat = sys.argv[1:]
    report = measure(ENGINES[name](Path(folder)), Path(folder), int(repeat))
    print(json.dumps(asdict(report)))


if __name__ == "__main__":
    main()
