"""The warehouse: one DuckDB file, one writer at a time, made from the raw log and disposable while that is kept."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Unpack

import duckdb
from dagster import ConfigurableResource
from pydantic import Field

from resources import searching
from resources.lock import exclusive
from resources.searchindex import load_extension
from resources.searching import Filters, Hit, Source
from resources.tables import ensure, quoted

_ROW_GROUP = 4_096


class Warehouse(ConfigurableResource):  # type: ignore[type-arg]  # dagster: as for Connector
    """Where the documents are."""

    data: str = Field(description="Folder that holds warehouse.duckdb, attachments/ and published/.")
    memory_limit: str = Field(
        default="176MB", description="What DuckDB may use, as in 224MB; it spills to disk beyond."
    )
    lock_timeout: float = Field(default=600.0, description="Seconds to wait for another process that writes.")

    @property
    def path(self) -> Path:
        """The DuckDB file. Nobody but the writer opens it: readers have the published snapshot."""
        return Path(self.data, "warehouse.duckdb")

    @property
    def attachments(self) -> Path:
        """The folder of attachments, by sha256."""
        return Path(self.data, "attachments")

    @property
    def published(self) -> Path:
        """The folder of snapshots."""
        return Path(self.data, "published")

    @property
    def snapshot(self) -> Path:
        """What analysts open: a symlink to the newest snapshot, absent before the first."""
        return self.published / "current.duckdb"

    def current(self) -> Path | None:
        """Give the newest snapshot under its own name, None before the first.

        In one process, DuckDB gives a path that is open already the database that it opened then: readers that are to
        see the newest open this name, not the symlink.
        """
        return self.published / self.snapshot.readlink() if self.snapshot.is_symlink() else None

    def search(self, query: str, top_k: int = 10, **filters: Unpack[Filters]) -> list[Hit]:
        """Give the best documents of the newest snapshot for a text; see `resources.searching`."""
        return searching.search(self.snapshot, query, top_k, **filters)

    def count(self, query: str = "", **filters: Unpack[Filters]) -> int:
        """Count the documents of the newest snapshot that a text finds; a blank one finds all."""
        return searching.count(self.snapshot, query, **filters)

    def sources(self) -> list[Source]:
        """Say which scopes the newest snapshot has."""
        return searching.sources(self.snapshot)

    @contextmanager
    def locked(self, purpose: str) -> Iterator[None]:
        """Be the one writer; raise LockedError when another process does not let go in time."""
        with exclusive(Path(self.data, "locks", "warehouse.lock"), purpose, timeout=self.lock_timeout):
            yield

    @contextmanager
    def connect(self, *, is_generous: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
        """Open the file for writing, with its tables and views in place; the caller holds `locked`.

        `is_generous` lets DuckDB take what the machine has instead of `memory_limit`. The connection is closed however
        the block ends: an exception that is being handled elsewhere must not keep it.

        Raises:
            ConfigurationError: the file was written by another version of Tributary; `replay` makes it anew.
        """
        if not self.path.exists():
            self._create()
        with self._opened(self.path, is_generous=is_generous) as connection:
            yield connection

    def _create(self) -> None:
        """Make the file under another name: one that died in the making is made anew, not opened."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_name("new.tmp")
        for leftover in temporary.parent.glob(f"{temporary.name}*"):
            leftover.unlink()
        with self._opened(temporary, is_generous=False) as connection:
            connection.execute("CHECKPOINT")
        temporary.replace(self.path)

    @contextmanager
    def _opened(self, path: Path, *, is_generous: bool) -> Iterator[duckdb.DuckDBPyConnection]:
        connection = duckdb.connect(config=self.settings(is_generous=is_generous))
        try:
            connection.execute("SET timezone = 'UTC'")
            load_extension(connection)
            attach(connection, path, "tributary")
            connection.execute("USE tributary")
            ensure(connection)
            yield connection
        finally:
            connection.close()

    def settings(self, *, is_generous: bool = False) -> dict[str, str | bool | int | float | list[str]]:
        """Give DuckDB's settings: bounded memory, disk beyond it, and checkpoints only when we ask.

        By itself DuckDB checkpoints whenever 16 MB are written, and each time rewrites the row groups that are not
        full. One thread: a load is mostly Python, and each thread has buffers of its own.
        """
        limit = {} if is_generous else {"memory_limit": self.memory_limit}
        return {**limit, "threads": 1, "temp_directory": str(Path(self.data, "tmp")), "checkpoint_threshold": "1TB"}

    def drop(self) -> None:
        """Remove the warehouse, to be made anew from the raw log. The published snapshot stays until the next one."""
        with self.locked("dropping the warehouse"):
            for path in self.path.parent.glob(f"{self.path.name}*"):  # and the logs that DuckDB keeps beside it
                path.unlink()


def attach(connection: duckdb.DuckDBPyConnection, path: Path, name: str) -> None:
    """Attach a database file for writing.

    Small row groups: a checkpoint rewrites what is not full, and has all of one in memory. With 4,096 rows a
    first load of issues takes 8 us a record less than with 8,192; with DuckDB's own 122,880, the file of 20,000 files
    of 17 KB was 618 MB and half of it free.
    """
    connection.execute(f"ATTACH {quoted(str(path))} AS {name} (ROW_GROUP_SIZE {_ROW_GROUP})")


def is_out_of_memory(error: duckdb.Error) -> bool:
    """Tell by the text: in a commit or a checkpoint the same failure comes as other classes of error."""
    return isinstance(error, duckdb.OutOfMemoryException) or any(
        words in str(error) for words in ("could not allocate block", "failed to pin block")
    )
