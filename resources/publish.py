"""The published snapshot: a copy that readers open and keep, swapped in whole (law 7)."""

import hashlib
import logging
import os
import subprocess
import sys
from pathlib import Path

import duckdb

from ingestion.errors import TransientError
from resources.batches import sync_path
from resources.tables import quoted
from resources.warehouse import Warehouse, attach, is_out_of_memory

KEPT = 3
"""The current snapshot and two old ones, for readers that have them open on a file system that minds."""
_FREE_SHARE = 0.3

_log = logging.getLogger(__name__)


def publish(warehouse: Warehouse) -> Path | None:
    """Copy the warehouse beside the old snapshots and point `current.duckdb` at the copy; None where nothing changed.

    The caller holds the warehouse's lock. The copy is made by another process: were this one to open and close the
    file, it would drop DuckDB's own POSIX lock on it, and a second writer would get in.
    """
    folder = warehouse.published
    folder.mkdir(parents=True, exist_ok=True)
    with warehouse.connect() as connection:
        connection.execute("CHECKPOINT")
        name = _state(connection)
        is_sparse = _is_sparse(connection)
    current = warehouse.current()
    if current and current.exists() and current.stem.endswith(name):
        return None
    for leftover in (*folder.glob("*.tmp*"), *warehouse.path.parent.glob("compact.tmp*")):
        leftover.unlink()
    if is_sparse:
        _compact(warehouse)
    # The process id: a copy whose parent was killed may still be writing under its own name.
    temporary = folder / f"{os.getpid()}.tmp"
    try:
        _copy(warehouse.path, temporary)
        sync_path(temporary)
    except BaseException:
        temporary.unlink(missing_ok=True)  # half a copy on a full disk would take the room of the next load
        raise
    number = max((_number(path) for path in _snapshots(folder)), default=0) + 1
    snapshot = folder / f"snap-{number:08d}-{name}.duckdb"
    temporary.replace(snapshot)
    _point(warehouse.snapshot, snapshot)
    for old in _snapshots(folder)[:-KEPT]:
        old.unlink()
    return snapshot


def _state(connection: duckdb.DuckDBPyConnection) -> str:
    """Name what the warehouse holds: another value after every load, after a replay, and with other views."""
    row = connection.execute(
        "SELECT created_at::VARCHAR, definition_hash, (SELECT count(*) FROM loaded_batches) FROM warehouse"
    ).fetchone()
    return hashlib.sha256(repr(row).encode()).hexdigest()[:12]


def _is_sparse(connection: duckdb.DuckDBPyConnection) -> bool:
    row = connection.execute(
        "SELECT total_blocks, free_blocks FROM pragma_database_size() WHERE database_name = current_database()"
    ).fetchone()
    total, free = row or (0, 0)
    return bool(total > 100 and free > _FREE_SHARE * total)  # noqa: PLR2004 -- below 25 MB there is nothing to gain


def _copy(source: Path, target: Path) -> None:
    reflink = ["--reflink=auto"] if sys.platform == "linux" else []
    command = ["cp", *reflink, "--", str(source), str(target)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 -- our own paths, the system's cp
    if done.returncode:
        raise TransientError(f"the snapshot cannot be written: {done.stderr.strip()}")


def _compact(warehouse: Warehouse) -> None:
    """Replace the warehouse by a copy without free blocks: ten times dearer than a plain copy, hence only when it pays.

    The copy takes the file's name by one rename while nobody has it open; a log of changes cannot be left beside it,
    since the connection that made the last checkpoint is closed.
    """
    temporary = warehouse.path.with_name("compact.tmp")
    try:
        with duckdb.connect(config=warehouse.settings()) as connection:
            connection.execute(f"ATTACH {quoted(str(warehouse.path))} AS sparse (READ_ONLY)")
            attach(connection, temporary, "compact")
            connection.execute("COPY FROM DATABASE sparse TO compact")
            connection.execute("CHECKPOINT compact")
        sync_path(temporary)
        temporary.replace(warehouse.path)
    except duckdb.Error as error:
        if not is_out_of_memory(error):
            raise
        # Long documents close together: a sparse snapshot is better than none.
        _log.warning("memory_limit %s is too little to compact the warehouse", warehouse.memory_limit)
    finally:
        temporary.unlink(missing_ok=True)
    sync_path(warehouse.path.parent)


def _point(link: Path, target: Path) -> None:
    """Swap the symlink by a rename, so that at every moment it names a whole snapshot."""
    temporary = link.with_name(f"{link.name}.tmp")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target.name)
    temporary.replace(link)
    sync_path(link.parent)


def _snapshots(folder: Path) -> list[Path]:
    return sorted(folder.glob("snap-*.duckdb"), key=_number)


def _number(path: Path) -> int:
    return int(path.name.split("-")[1])
