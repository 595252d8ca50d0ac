"""The tables and views of the warehouse, as they ought to be, with a description of each."""

import hashlib

import duckdb

from ingestion import schema
from ingestion.errors import ConfigurationError
from resources import searchindex
from resources.sql import statement

FORMAT_VERSION = 2
"""Raise it when a table changes its form: the warehouse is then made anew from the raw log."""
_DEFINITIONS = ("views", "search/tokenizer", "search/search", "search/threads")


def ensure(connection: duckdb.DuckDBPyConnection) -> None:
    """Create what is missing, and renew views, macros and descriptions where ours have changed.

    All in one transaction: a process that dies here leaves nothing half made.

    Raises:
        ConfigurationError: the tables have the form of another version of Tributary.
    """
    exists = connection.execute(
        "SELECT count(*) FROM duckdb_tables() WHERE database_name = current_database() AND table_name = 'warehouse'"
    ).fetchone() == (1,)
    if exists:
        (version,) = connection.execute("SELECT format_version FROM warehouse").fetchone() or (None,)
        if version != FORMAT_VERSION:
            raise ConfigurationError(
                f"the warehouse has format {version}, this is format {FORMAT_VERSION}: run `python -m assets replay`"
            )
        if connection.execute("SELECT definition_hash FROM warehouse").fetchone() == (_definition_hash(),):
            return
    connection.begin()
    for name, (_, columns) in schema.TABLES.items():
        connection.register(f"columns_{name}", schema.arrow(columns).empty_table())
    connection.execute(statement("schema"))
    if not exists:
        searchindex.create(connection)
    for name in _DEFINITIONS:
        connection.execute(statement(name))
    _comment(connection)
    connection.execute(
        "UPDATE warehouse SET format_version = $1, definition_hash = $2", [FORMAT_VERSION, _definition_hash()]
    )
    connection.commit()


def quoted(text: str) -> str:
    """Quote a text of ours for statements that take no parameters."""
    return "'" + text.replace("'", "''") + "'"


def _definition_hash() -> str:
    """Name what `ensure` would make: views and macros, and the descriptions of everything."""
    parts = (*map(statement, ("schema", *_DEFINITIONS)), repr(schema.TABLES), repr(schema.VIEW_COLUMNS))
    return hashlib.sha256("".join(parts).encode()).hexdigest()


def _comment(connection: duckdb.DuckDBPyConnection) -> None:
    """Describe every table, and every column of every table and view, where a SQL client shows it."""
    tables = [columns for _, columns in schema.TABLES.values()]
    described = {column.name: column.description for columns in reversed(tables) for column in columns}  # documents win
    described |= schema.VIEW_COLUMNS
    for name, (description, _) in schema.TABLES.items():
        connection.execute(f"COMMENT ON TABLE {name} IS {quoted(description)}")
    columns = connection.execute(
        "SELECT table_name, column_name FROM duckdb_columns() "
        "WHERE database_name = current_database() AND schema_name = 'main' AND NOT internal"
    ).fetchall()
    for table, column in columns:
        own = {c.name: c.description for c in schema.TABLES.get(table, ("", ()))[1]}
        text = own.get(column) or described.get(f"{table}.{column}") or described[column]
        connection.execute(f"COMMENT ON COLUMN {table}.{column} IS {quoted(text)}")
