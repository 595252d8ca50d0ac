"""Arrow tables that SQL reads for as long as a block lasts."""

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb
import pyarrow as pa


class _Holder:
    """Gives DuckDB a table, which can be taken away again.

    See https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html.
    """

    def __init__(self, table: pa.Table) -> None:
        self.table: pa.Table | None = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        if self.table is None:
            raise ValueError("this table was lent for a block that has ended")
        return self.table.__arrow_c_stream__(requested_schema)  # type: ignore[no-untyped-call]


@contextmanager
def lent(connection: duckdb.DuckDBPyConnection, **tables: pa.Table) -> Iterator[None]:
    """Let a connection read tables by their names, within the block.

    DuckDB keeps what is registered in a transaction until it ends, whether it is unregistered before or not (1.5.5):
    the documents of all its waves. What it keeps here is an empty holder.
    """
    holders = {name: _Holder(table) for name, table in tables.items()}
    for name, holder in holders.items():
        connection.register(name, holder)
    try:
        yield
    finally:
        for name, holder in holders.items():
            connection.unregister(name)
            holder.table = None
