"""search() and its index, beside DuckDB's own full-text extension, SQLite's FTS5 and tantivy in the same run.

`python -m bench.search [--documents N ...] [--queries Q] [--repeat R] [--stock-at M]` makes N documents
(`bench.corpus`) and puts them into a warehouse in waves, as a load does; then it merges the index, then it changes 1,
100 and 10,000 of them. Q queries of each kind are asked R times, after once for warming up, with two threads and in a
connection to the file that stays open: before the merge, as a first load leaves the index, and after it. The others
(`bench.search_peers`) do the same with the same documents and queries, DuckDB's extension only up to M documents; of
rare words everybody has to find the same documents.

CPU seconds are those of the process, all its threads included. What our index costs a first load is the difference to
the same load without it, commits and checkpoints included; what it costs when documents change is `index_wave` alone,
with all that the load did then in parentheses. The others cannot always tell the two apart.
"""

import argparse
import math
import sqlite3
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench import corpus, search_peers
from bench.measure import measured
from bench.search_peers import CHANGES, THREADS, Costs, Query, Report, Row, Searcher, measure
from bench.sync import environment
from resources.lent import lent
from resources.load import WAVE_RECORDS
from resources.searchindex import index_wave, merge, merge_if_due
from resources.sql import statement
from resources.warehouse import Warehouse

_TRANSACTION_WAVES = 4
"""As many as resources/load.py takes of documents of this size."""
_MOST_MS = {"rare": 20, "two common": 90, "medium, a source": 40, "medium, a tag": 40, "medium, 3 months": 40}
_MOST_CHANGED_MS = 300
_MOST_TIMES_SQLITE = 3
_OURS = "tributary"
_NUMBER = """
    CREATE OR REPLACE TEMP TABLE numbered AS
    SELECT
        i.doc_id, v.docid AS old_docid, sha256(i.content) AS text_hash,
        ((SELECT next_docid FROM fts.state) + row_number() OVER (ORDER BY i.number) - 1)::INTEGER AS docid
    FROM incoming AS i
    LEFT JOIN (
        SELECT doc_id, docid FROM document_versions
        WHERE valid_to IS NULL AND doc_id IN (SELECT doc_id FROM incoming)
    ) AS v ON v.doc_id = i.doc_id
"""
_STORE = """
    UPDATE document_versions AS v SET valid_to = now()
    FROM numbered AS n WHERE n.old_docid IS NOT NULL AND v.valid_to IS NULL AND v.doc_id = n.doc_id;

    INSERT INTO document_versions BY NAME
    SELECT
        i.doc_id, i.source, 'bench' AS scope, i.number::VARCHAR AS source_id, i.number::VARCHAR AS record_id,
        'issue' AS doc_type, i.title, i.content, i.author, [] AS assignees, [i.author] AS participants,
        [i.author] AS participants_raw, i.tags, i.url, i.updated_at AS created_at, i.updated_at, '{}' AS metadata,
        [] AS attachments, [] AS links, [0] AS chunk_starts, n.text_hash AS content_hash, n.text_hash,
        now() AS valid_from, CASE WHEN i.is_deleted THEN now() END AS deleted_at,
        CASE WHEN i.is_deleted THEN 'census' END AS deletion_reason, 'bench' AS batch_id, n.docid
    FROM incoming AS i JOIN numbered AS n ON n.doc_id = i.doc_id;

    CREATE OR REPLACE TEMP TABLE texts AS
    SELECT n.docid, i.title, i.content, n.text_hash FROM incoming AS i JOIN numbered AS n ON n.doc_id = i.doc_id;

    CREATE OR REPLACE TEMP TABLE replaced AS
    SELECT old_docid AS docid FROM numbered WHERE old_docid IS NOT NULL;
"""


def main() -> None:
    """Print the tables of each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--queries", type=int, default=8, choices=range(1, 11), help="different ones of each kind")
    parser.add_argument("--repeat", type=int, default=5, help="how often each of them is asked")
    parser.add_argument("--stock-at", type=int, default=100_000, help="documents that DuckDB's extension gets at most")
    arguments = parser.parse_args()
    print(
        f"Python {sys.version.split()[0]}, DuckDB {duckdb.__version__}, SQLite {sqlite3.sqlite_version}, "
        + ", ".join(search_peers.REQUIREMENTS)
    )
    for count in arguments.documents:
        names = [name for name in search_peers.ENGINES if name != "stock" or count <= arguments.stock_at]
        with tempfile.TemporaryDirectory(prefix="tributary-bench-") as folder:
            corpus.write(Path(folder), count, arguments.queries)
            reports = {_OURS: measure(Tributary(Path(folder)), Path(folder), arguments.repeat)}
            reports |= {name: other(name, Path(folder), arguments.repeat) for name in names}
        compare(reports)
        print(f"\n## {count:,} documents\n")
        print_costs(reports, count)
        print_answers(reports)
        print_bars(reports)


def other(name: str, folder: Path, repeat: int) -> Report:
    """Measure an engine of `bench.search_peers` in a process of its own."""
    python = environment(*search_peers.REQUIREMENTS) if name == "tantivy" else Path(sys.executable)
    command = [str(python), "-m", "bench.search_peers", name, str(folder), str(repeat)]
    return Report.parse(dict(measured(command, folder).report))


def compare(reports: Mapping[str, Report]) -> None:
    """Compare what was found.

    Raises:
        RuntimeError: an engine finds other documents, or a rare word is in none: the figures would say nothing.
    """
    for name, report in reports.items():
        if report.found != reports[_OURS].found or not all(report.found):
            counts = [[len(ids) for ids in found] for found in (report.found, reports[_OURS].found)]
            raise RuntimeError(f"of rare words, {name} finds so many documents: {counts[0]}; we find {counts[1]}")


class Tributary:
    """Our own index, filled as the pipeline fills it."""

    merges_later = True

    def __init__(self, folder: Path) -> None:
        self._warehouse = Warehouse(data=str(folder / "tributary"))
        self._bare = Warehouse(data=str(folder / "bare"))

    def load(self, documents: Path) -> Costs:
        """Load the documents twice, once without the index."""
        costs = Costs()
        costs["documents"] = sum(self._fill(self._bare, documents).values())
        self._bare.path.unlink()
        costs["index"] = sum(self._fill(self._warehouse, documents).values()) - costs["documents"]
        return costs

    def merge(self) -> Costs:
        """Merge the index, due or not."""
        costs = Costs()
        with self._warehouse.connect() as connection, costs.of("index"):
            merge(connection)
        return costs

    def change(self, changes: Path, batch: int) -> Costs:
        """Give documents another form.

        Raises:
            RuntimeError: the index is not the one of these documents.
        """
        costs = Costs()
        rows = pq.read_table(changes, filters=pc.field("batch") == batch)
        waves = [rows.slice(first, WAVE_RECORDS) for first in range(0, rows.num_rows, WAVE_RECORDS)]
        with self._warehouse.connect() as connection:
            _load(connection, waves, costs, is_indexed=True)
            with costs.of("merge"):
                merge_if_due(connection)
            if wrong := connection.execute(statement("check_search_index")).fetchall():
                raise RuntimeError(f"the index does not fit: {wrong}")
        return costs

    def size(self) -> int:
        """Give the size of the file."""
        return self._warehouse.path.stat().st_size

    @contextmanager
    def searcher(self) -> Iterator[Searcher]:
        """Open the file as analysts open a snapshot."""
        path = str(self._warehouse.path)
        with duckdb.connect(path, read_only=True, config={"threads": THREADS}) as connection:
            connection.execute("SET timezone = 'UTC'")
            yield Searcher(lambda query, top: _answer(connection, query, top))

    def _fill(self, warehouse: Warehouse, documents: Path) -> Costs:
        costs = Costs()
        with warehouse.connect() as connection, pq.ParquetFile(documents) as file:
            waves: list[pa.Table] = []
            for rows in file.iter_batches(WAVE_RECORDS):
                waves.append(pa.Table.from_batches([rows]))
                if len(waves) == _TRANSACTION_WAVES:
                    _load(connection, waves, costs, is_indexed=warehouse is self._warehouse)
                    waves.clear()
            if waves:
                _load(connection, waves, costs, is_indexed=warehouse is self._warehouse)
            with costs.of("merge"):
                merge_if_due(connection)
        return costs


def _load(connection: duckdb.DuckDBPyConnection, waves: Sequence[pa.Table], costs: Costs, *, is_indexed: bool) -> None:
    """Load waves in one transaction."""
    connection.begin()
    for incoming in waves:
        with lent(connection, incoming=incoming), costs.of("documents"):
            connection.execute(_NUMBER)
            connection.execute(_STORE)
        if is_indexed:
            with costs.of("index"):
                index_wave(connection)
    with costs.of("commit"):
        connection.commit()
        connection.execute("CHECKPOINT")


def _answer(connection: duckdb.DuckDBPyConnection, query: Query, top: int) -> Sequence[Row]:
    """Ask as resources/searching.py does: only with the parameters that are given."""
    names = ("source", "tag_prefix", "since", "until", "match_all", "title_only")
    given = {name: value for name in names if (value := getattr(query, name))}
    if not query.collapse:
        given["collapse"] = False
    named = "".join(f", {name} := ${name}" for name in given)
    sql = f"FROM search($query, top_k := $top_k{named})"
    return connection.execute(sql, {"query": query.text, "top_k": top, **given}).fetchall()


def print_costs(reports: Mapping[str, Report], count: int) -> None:
    """Print what the index costs."""
    counts = [f"{changed:,} changed, CPU ms" for changed in sorted(set(CHANGES))]
    columns = ["engine", "documents, CPU s", "index, CPU s", "us a document", "merge, CPU s", *counts, "MB"]
    _print_head(columns)
    for name, report in reports.items():
        documents, index = report.load.get("documents"), report.load["index"]
        cells = [
            f"{documents:.2f}" if documents is not None else "-",
            f"{index:.2f}",
            f"{index / count * 1e6:.0f}",
            f"{report.merge['index']:.2f}" if report.merge else "-",
            *(_changed(report.changes[str(changed)]) for changed in sorted(set(CHANGES))),
            f"{report.megabytes:,.0f}",
        ]
        print(f"| {name} | {' | '.join(cells)} |")


def _changed(costs: Mapping[str, float]) -> str:
    if not costs:
        return "-"
    rest = f" ({sum(costs.values()) * 1e3:,.0f})" if len(costs) > 1 else ""
    return f"{costs['index'] * 1e3:,.1f}{rest}"


def print_answers(reports: Mapping[str, Report]) -> None:
    """Print what queries take: in the median and, after the stroke, in 95 of 100 times at most."""
    answers = {name: report.merged for name, report in reports.items()}
    if before := reports[_OURS].unmerged:
        answers = {_OURS: answers[_OURS], f"{_OURS}, before the merge": before, **answers}
    matches = next(report.matches for report in reports.values() if report.matches)
    for title, attribute in (("wall ms, p50 / p95", "wall"), ("CPU ms, p50 / p95", "cpu")):
        print()
        _print_head([title, "matches", *answers])
        for kind in reports[_OURS].merged.wall:
            cells = [_spread(getattr(some, attribute).get(kind)) for some in answers.values()]
            found = f"{matches[kind]:,.0f}" if kind in matches else "-"
            print(f"| {kind} | {found} | {' | '.join(cells)} |")


def _print_head(columns: Sequence[str]) -> None:
    print(f"| {' | '.join(columns)} |\n|---|{'---:|' * (len(columns) - 1)}")


def _spread(times: Sequence[float] | None) -> str:
    if times is None:
        return "-"
    ordered = sorted(times)
    return f"{median(ordered):.1f} / {ordered[math.ceil(0.95 * len(ordered)) - 1]:.1f}"


def print_bars(reports: Mapping[str, Report]) -> None:
    """Print what must hold of a million documents, beside what is."""
    ours = {kind: median(times) for kind, times in reports[_OURS].merged.wall.items()}
    theirs = {kind: median(times) for kind, times in reports["sqlite"].merged.wall.items()}
    print()
    _print_head(["bar", "is", "met"])
    for kind, most in _MOST_MS.items():
        _print_bar(f"{kind}: p50 of at most {most} wall ms", ours[kind], most)
    _print_bar(
        "index of 100 changed: at most 300 CPU ms", reports[_OURS].changes["100"]["index"] * 1e3, _MOST_CHANGED_MS
    )
    for kind, time in theirs.items():
        _print_bar(f"{kind}: p50 of at most {_MOST_TIMES_SQLITE} x SQLite's", ours[kind] / time, _MOST_TIMES_SQLITE)


def _print_bar(name: str, value: float, most: float) -> None:
    print(f"| {name} | {value:,.1f} | {'yes' if value <= most else '**no**'} |")


if __name__ == "__main__":
    main()
