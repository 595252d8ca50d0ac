"""The raw log: everything that was ever fetched, in order, and the truth of every cursor.

`<root>/<source>/<scope>/<sequence>.<kind>.parquet`. One writer per source; readers need no lock, since a batch appears
whole and never changes. Sequences have no gaps, so that the next batch is found by looking for its name.
"""

import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from dagster import ConfigurableResource
from pyarrow import fs
from pydantic import Field

from ingestion.model import Batch, BatchKind
from resources import batches
from resources.lock import exclusive

_KINDS: tuple[BatchKind, ...] = ("records", "census")
_LONGEST_NAME = 100


class RawLog(ConfigurableResource):  # type: ignore[type-arg]  # dagster: as for Connector
    """Where fetched records are kept."""

    root: str = Field(description="Folder or URI (s3://bucket/prefix) of the log.")
    locks: str = Field(description="Local folder for the lock files.")

    def lock(self, source: str, *, timeout: float) -> AbstractContextManager[None]:
        """Be the one writer of a source, as every fetch is; raise LockedError after `timeout` seconds."""
        return exclusive(Path(self.locks, f"raw-{source}.lock"), f"fetching {source}", timeout=timeout)

    def scope(self, source: str, scope: str) -> "ScopeLog":
        """Give the log of one scope, whether it exists yet or not."""
        filesystem, root = self._filesystem()
        return ScopeLog(source, scope, filesystem, f"{root}/{source}/{folder_name(scope)}")

    def scopes(self) -> list["ScopeLog"]:
        """Give the log of every scope that has a batch, whether it is still configured or not."""
        filesystem, root = self._filesystem()
        found = []
        for source in _folders(filesystem, root):
            for folder in _folders(filesystem, source):
                log = ScopeLog("", "", filesystem, folder)
                first = log.batch(1)
                if first is not None:
                    found.append(ScopeLog(first.source, first.scope, filesystem, folder))
        return found

    def _filesystem(self) -> tuple[fs.FileSystem, str]:
        if "://" in self.root:
            return fs.FileSystem.from_uri(self.root)
        return fs.LocalFileSystem(), str(Path(self.root).absolute())


def folder_name(scope: str) -> str:
    """Give the folder of a scope: percent-encoded; with a hash where that is too long, hidden, or of mixed case."""
    encoded = quote(scope, safe="")
    if len(encoded) <= _LONGEST_NAME and scope == scope.lower() and not scope.startswith("."):
        return encoded
    # The comma is always encoded in a scope's name, so that no other scope has this folder.
    return f"{encoded.lstrip('.')[:60]},{hashlib.sha256(scope.encode()).hexdigest()[:16]}"


def _folders(filesystem: fs.FileSystem, path: str) -> list[str]:
    found = filesystem.get_file_info(fs.FileSelector(path, allow_not_found=True))
    return sorted(info.path for info in found if info.type == fs.FileType.Directory)


@dataclass(frozen=True, slots=True)
class ScopeLog:
    """The batches of one scope, in order."""

    source: str
    scope: str
    filesystem: fs.FileSystem
    folder: str

    def batch(self, sequence: int) -> Batch | None:
        """Read the footer of one batch, None where it is not there yet."""
        path = self._find(sequence)
        return None if path is None else batches.footer(self.filesystem, path)

    def has(self, sequence: int) -> bool:
        """Tell whether a batch is there."""
        return self._find(sequence) is not None

    def last(self, known: int = 0) -> Batch | None:
        """Read the footer of the newest batch; `known` is a sequence that existed once, to look from."""
        # A log that was emptied lacks it: then from the beginning, since no batch may ever be written over.
        path, sequence = None, known if known and self.has(known) else 1
        while (found := self._find(sequence)) is not None:
            path, sequence = found, sequence + 1
        return None if path is None else batches.footer(self.filesystem, path)

    def after(self, sequence: int) -> Iterator[Batch]:
        """Yield the footers of the batches that follow `sequence`."""
        while (batch := self.batch(sequence + 1)) is not None:
            yield batch
            sequence += 1

    def read(self, batch: Batch, columns: list[str] | None = None) -> pa.Table:
        """Read the rows of a batch: `schema.RAW` or `schema.CENSUS`."""
        return batches.read(self.filesystem, batch.path, columns)

    def write(self, batch: Batch, rows: list[dict[str, Any]]) -> None:
        """Make a batch durable; it is there whole when this returns, and not at all when it raises."""
        batches.write_durably(self.filesystem, batch.path, batches.encode(batch, rows))

    def path(self, sequence: int, kind: BatchKind) -> str:
        """Give the address of a batch."""
        return f"{self.folder}/{sequence:010d}.{kind}.parquet"

    def _find(self, sequence: int) -> str | None:
        infos = self.filesystem.get_file_info([self.path(sequence, kind) for kind in _KINDS])
        return next((info.path for info in infos if info.type == fs.FileType.File), None)
