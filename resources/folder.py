"""A folder of the file system: walked without following links, read without blocking, and never silently short."""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ingestion.errors import ConfigurationError, ScopeNotFoundError, TransientError
from ingestion.paths import glob_pattern

NEVER_NS = -(2**63)
"""Before every instant that a file can have."""
GONE = frozenset((errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.ENAMETOOLONG, errno.EISDIR))
"""What says that there is no such regular file."""
UNREADABLE = frozenset((errno.EACCES, errno.EPERM, errno.EIO))
"""What says that this one file cannot be read, while others can."""
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Folder:
    """The files of a folder that some globs choose. Links, devices and pipes are never among them."""

    root: str
    include: Sequence[str]
    ignore: Sequence[str]

    def walk(self, unlisted: list[str]) -> Iterator[tuple[int, str]]:
        """Find every file, in no order, as (instant of its last change in nanoseconds, path).

        That instant is the ctime, or the ctime of a folder around it that was itself moved or re-permitted later: such
        a folder's ctime differs from its mtime. Folders that may not be listed are added to `unlisted`.
        """
        include, ignore = glob_pattern(self.include), glob_pattern(self.ignore)
        identity = _identity(self.root)
        folders = [("", _moved_ns(identity))]
        while folders:
            folder, moved_ns = folders.pop()
            try:
                entries = _entries(f"{self.root}/{folder}")
            except PermissionError:
                unlisted.append(folder)
                continue
            for name, status in entries:
                path = folder + name
                if ignore.fullmatch(path):
                    continue
                if stat.S_ISDIR(status.st_mode):
                    folders.append((f"{path}/", max(moved_ns, _moved_ns(status))))
                elif stat.S_ISREG(status.st_mode) and include.fullmatch(path):
                    yield max(moved_ns, status.st_ctime_ns), path
        if not os.path.samestat(_identity(self.root), identity):  # unmounted or swapped, while files seemed to vanish
            raise TransientError(f"{self.root} was replaced while it was read")

    def has(self, path: str) -> bool:
        """Tell whether `walk` would find this path, if a file is there."""
        parts, ignore = path.split("/"), glob_pattern(self.ignore)
        if any(ignore.fullmatch("/".join(parts[:depth])) for depth in range(1, len(parts) + 1)):
            return False
        folder = "/".join([os.path.realpath(self.root).rstrip("/"), *parts[:-1]])
        return glob_pattern(self.include).fullmatch(path) is not None and os.path.realpath(folder) == folder

    def unlisted_error(self, unlisted: Sequence[str]) -> ConfigurationError:
        """Say which folders could not be listed, and what to do."""
        names = ", ".join(repr(f"{self.root}/{name}") for name in sorted(unlisted)[:5])
        return ConfigurationError(
            f"{len(unlisted)} folder(s) may not be listed: {names}. Let uid {os.getuid()} read and enter them "
            "(chmod u+rx), or add them to `ignore`."
        )


def open_root(scope: str) -> str:
    """Give the absolute path of a scope's folder; raises where there is none."""
    root = os.path.normpath(Path.cwd() / scope)
    try:
        status = Path(root).stat()
    except PermissionError as error:
        raise ConfigurationError(f"{root}: uid {os.getuid()} may not enter a folder above it") from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        if isinstance(error, OSError) and error.errno not in GONE:
            raise TransientError(f"{root}: {error.strerror}") from error
        raise ScopeNotFoundError(f"there is no folder {root!r}: mount it, create it or correct the scope") from error
    if not stat.S_ISDIR(status.st_mode):
        raise ScopeNotFoundError(f"{root} is not a folder: give the folder that holds it, and its name in `include`")
    return root


def read_file(path: str, max_bytes: int) -> tuple[os.stat_result, bytes]:
    """Read a regular file, or nothing of it when it is larger; raises OSError (EISDIR for what is no regular file)."""
    descriptor = os.open(path, _FLAGS)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EISDIR, "not a regular file")
        if status.st_size > max_bytes:
            return status, b""
        with open(descriptor, "rb", closefd=False) as file:
            return status, file.read(status.st_size)  # what is appended meanwhile has a newer ctime: it comes again
    finally:
        os.close(descriptor)


def _identity(root: str) -> os.stat_result:
    try:
        return Path(root).stat()
    except OSError as error:
        raise TransientError(f"{root} went away while it was read") from error


def _moved_ns(folder: os.stat_result) -> int:
    """Tell when a folder was itself moved or re-permitted, if that came after the last change of its entries."""
    return folder.st_ctime_ns if folder.st_ctime_ns != folder.st_mtime_ns else NEVER_NS


def _entries(folder: str) -> list[tuple[str, os.stat_result]]:
    """List a folder, without what vanishes meanwhile."""
    entries: list[tuple[str, os.stat_result]] = []
    try:
        with os.scandir(folder) as found:
            for entry in found:
                with suppress(FileNotFoundError):
                    entries.append((entry.name, entry.stat(follow_symlinks=False)))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except PermissionError:
        raise
    except OSError as error:
        raise TransientError(f"{folder}: {error.strerror}") from error
    return entries
