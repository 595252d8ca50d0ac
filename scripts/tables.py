"""Print docs/reference/tables.md from the comments of a fresh warehouse: `make docs`."""  # noqa: INP001 -- a script

import sys
import tempfile
from collections.abc import Iterator
from textwrap import fill

import duckdb

from resources.warehouse import Warehouse

HEAD = """\
# Tables, views and macros

What stands in `data/published/current.duckdb`. This page is made by `make docs` from the comments of a fresh warehouse,
and a test compares the two: change `ingestion/schema.py` or `resources/sql/views.sql`, not this page. All instants are
`TIMESTAMP WITH TIME ZONE` (written `TIMESTAMPTZ`); `SET timezone = 'UTC'` shows them in UTC.

Query the views. The tables behind them are there for questions that the views do not answer.
"""
MACROS = {
    "changes_between": "What was created, updated and tombstoned between two instants, both included, in order: "
    "`FROM changes_between(now() - INTERVAL 1 DAY, now())`.",
    "documents_as_of": "The documents as we held them at an instant: "
    "`FROM documents_as_of(TIMESTAMPTZ '2026-01-31 12:00:00+00')`.",
    "search": "The documents that a text finds, the best first: `FROM search('battery recall', source := 'notes')`. "
    "docs/how-to/search.md has its filters. Every parameter but the first is given by its name.",
    "search_threads": "The conversations that a text finds, each with its best document and passage: those of the best "
    "50 documents for each row asked for, with how many of these are in it.",
}
"""What the table macros give; the columns are asked of them."""
_RELATIONS = """
    SELECT 'view' AS kind, view_name AS name, comment FROM duckdb_views()
    WHERE database_name = 'tributary' AND schema_name = 'main'
    UNION ALL
    SELECT 'table', table_name, comment FROM duckdb_tables()
    WHERE database_name = 'tributary' AND schema_name = 'main'
    ORDER BY kind DESC, name
"""
_COLUMNS = """
    SELECT column_name, data_type, comment FROM duckdb_columns()
    WHERE database_name = 'tributary' AND schema_name = 'main' AND table_name = $1 ORDER BY column_index
"""
_MACROS = """
    SELECT DISTINCT function_name, parameters FROM duckdb_functions()
    WHERE database_name = 'tributary' AND schema_name = 'main' AND function_type = 'table_macro' ORDER BY ALL
"""
_TYPES = {"TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ"}


def page() -> str:
    """Give the page as it must be."""
    with tempfile.TemporaryDirectory() as folder, Warehouse(data=folder).connect() as connection:
        return "\n".join([HEAD, *_sections(connection)])


def _sections(connection: duckdb.DuckDBPyConnection) -> Iterator[str]:
    relations = connection.execute(_RELATIONS).fetchall()
    for wanted, title in (("view", "Views"), ("macro", "Macros"), ("table", "Tables")):
        yield f"## {title}\n"
        if wanted == "macro":
            for name, parameters in connection.execute(_MACROS).fetchall():
                given = "'words'" if name.startswith("search") else ", ".join(["now()"] * len(parameters))
                described = connection.execute(f"DESCRIBE FROM {name}({given})")
                columns = ", ".join(f"`{row[0]}`" for row in described.fetchall())
                yield f"### `{name}`\n\n{fill(MACROS[name], 120)}\n"
                yield fill(f"Parameters: {', '.join(f'`{one}`' for one in parameters)}.", 120) + "\n"
                yield fill(f"Columns: {columns}.", 120) + "\n"
        for kind, name, comment in relations:
            if kind == wanted:
                yield f"### `{name}`\n\n{comment}\n"
                yield "| Column | Type | Meaning |\n|---|---|---|"
                for column, data_type, meaning in connection.execute(_COLUMNS, [name]).fetchall():
                    yield f"| `{column}` | `{_TYPES.get(data_type, data_type)}` | {meaning} |"
                yield ""


if __name__ == "__main__":
    sys.stdout.write(page())
