"""Reads a folder of Markdown, reStructuredText, HTML and text files: notes, a handbook, a vault, a docs tree.

What changed is told by each file's ctime, which no copy or archive can set back; that of a folder that was itself moved
or re-permitted counts for all that is in it. Young files are read again by the next sync, for an edit may share their
clock tick. So no edit is missed, except: one made between two syncs while the clock was set back by less than the time
between them; and files that came in a moved folder over files of the same names, if an entry was then added to that
folder before the next sync. New, moved and deleted files are in any case seen by the census that each sync takes.
"""

import json
import os
import posixpath
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote_from_bytes

from pydantic import Field

from ingestion.errors import ConfigurationError, RecordError, TransientError
from ingestion.filedocument import file_document
from ingestion.markup import HTML, MARKDOWN, RST, TEXT
from ingestion.model import Account, Document, Page, Record
from ingestion.paths import glob_pattern, original_path, storable_path
from resources.connector import Connector
from resources.folder import GONE, NEVER_NS, UNREADABLE, Folder, open_root, read_file

_MEDIA_TYPES = {".md": MARKDOWN, ".markdown": MARKDOWN, ".html": HTML, ".htm": HTML, ".rst": RST}
_PAGE_RECORDS = 500
_PAGE_BYTES = 2_000_000
_YOUNG_NS = 1_000_000_000
"""Kernels stamp files by a clock that ticks every few milliseconds: younger files may change without a trace."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_Position = tuple[int, str]
"""When a file was last changed, in nanoseconds, and its path: the order of pages, and the cursor."""


class FilesConnector(Connector):
    """A scope is a folder, absolute or relative to the working directory; symbolic links in it are not followed."""

    include: list[str] = Field(
        default=["*.md", "*.markdown", "*.txt", "*.text", "*.html", "*.htm", "*.rst"],
        description="Globs of the files to read, upper and lower case alike; with a slash they match the path within "
        "the scope (`docs/**/*.md`), else the name alone. Extensions that are not known are read as text.",
    )
    ignore: list[str] = Field(
        default=[".*", "node_modules", "__pycache__"],
        description="Globs of files and folders to leave out, matched like `include`; ignored folders are not entered.",
    )
    max_bytes: int = Field(default=5_000_000, gt=0, description="Larger files are rejected, with their size.")

    census_every_sync: ClassVar[bool] = True
    """A census costs no more than `pages` does, and it alone sees deletions and moved folders."""

    def check(self, scope: str | None = None) -> Account:
        """Prove that the globs are globs and that the scope is a folder which can be listed."""
        glob_pattern(self.include)
        glob_pattern(self.ignore)
        if scope is not None:
            folder = self._folder(scope)
            try:
                os.scandir(folder.root).close()
            except PermissionError as error:
                raise folder.unlisted_error([""]) from error
        return Account(f"uid {os.getuid()}", is_authenticated=True, detail="sees the files that this user may read")

    def pages(self, scope: str, cursor: str | None) -> Iterator[Page]:
        """Yield the files that changed since the cursor, by change and path."""
        folder = self._folder(scope)
        settled = _settled()
        after = _position(cursor, settled)
        unlisted: list[str] = []
        pending = sorted(found for found in folder.walk(unlisted) if found > after)
        records: list[Record] = []
        size = 0
        for left_count, position in enumerate(pending, 1 - len(pending)):
            record = self._read(folder.root, position[1])
            if record is not None:
                records.append(record)
                size += len(record.payload)
            if records and (len(records) == _PAGE_RECORDS or size >= _PAGE_BYTES or left_count == 0):
                yield Page(tuple(records), json.dumps(min(position, settled)))
                records, size = [], 0
        if unlisted:
            raise folder.unlisted_error(unlisted)

    def census(self, scope: str) -> Iterator[str]:
        """Yield the id of every file that `pages` would read; raise at the end if any folder could not be listed."""
        folder = self._folder(scope)
        unlisted: list[str] = []
        for _, path in folder.walk(unlisted):
            yield storable_path(path)
        if unlisted:
            raise folder.unlisted_error(unlisted)

    def get(self, scope: str, source_id: str) -> Record | None:
        """Read one file; None if it is gone, is no longer included, or is not in the scope."""
        folder, path = self._folder(scope), original_path(source_id)
        return self._read(folder.root, path) if path is not None and folder.has(path) else None

    def changed(self, scope: str, cursor: str | None) -> bool:
        """Tell whether any file is newer than the cursor; a deletion alone is seen by the next sync."""
        after = _position(cursor, _settled())
        return any(found > after for found in self._folder(scope).walk([]))

    @staticmethod
    def documents(scope: str, record: Record) -> Iterable[Document]:  # noqa: ARG004  # the contract's parameter
        """Map a file to its one document; a file that could not be read becomes a reject."""
        if "error" in record.attributes:
            raise RecordError(record.attributes["error"])
        return (file_document(record),)

    def _folder(self, scope: str) -> Folder:
        return Folder(open_root(scope), self.include, self.ignore)

    def _read(self, root: str, path: str) -> Record | None:
        """Read a file; one that cannot be read has an attribute `error` instead of bytes, None stands for one gone."""
        full = f"{root}/{path}"
        problem = ""
        try:
            status, payload = read_file(full, self.max_bytes)
            if status.st_size > self.max_bytes:
                problem = f"has {status.st_size} bytes, max_bytes is {self.max_bytes}"
        except OSError as error:
            if error.errno in GONE:
                return None
            if error.errno not in UNREADABLE:
                raise TransientError(f"{full}: {error.strerror}") from error
            problem = f"cannot be read: {error.strerror}"
            status, payload = _status(full), b""
        attributes = {"url": "file://" + quote_from_bytes(os.fsencode(full))} | ({"error": problem} if problem else {})
        media_type = _MEDIA_TYPES.get(posixpath.splitext(path)[1].lower(), TEXT)
        return Record(storable_path(path), "file", payload, media_type, _instant(status.st_mtime_ns), attributes)


def _settled() -> _Position:
    """Give the position that no cursor may pass: what is younger is read again."""
    return time.time_ns() - _YOUNG_NS, ""


def _position(cursor: str | None, settled: _Position) -> _Position:
    """Read a cursor. One that is not ours, or is ahead of the clock (which was set back), starts from the beginning."""
    try:
        changed_ns, path = json.loads(cursor or "")
        position = int(changed_ns), str(path)
    except (ValueError, TypeError):
        return NEVER_NS, ""
    return position if position <= settled else (NEVER_NS, "")


def _status(path: str) -> os.stat_result:
    try:
        return Path(path).lstat()
    except OSError as error:  # the folder may be listed but not entered: whether the file is there, nobody can say
        raise ConfigurationError(f"{path}: {error.strerror}; let uid {os.getuid()} enter the folder") from error


def _instant(nanoseconds: int) -> datetime | None:
    try:
        return _EPOCH + timedelta(microseconds=nanoseconds // 1000)
    except OverflowError:
        return None
