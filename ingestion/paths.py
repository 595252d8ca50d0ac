"""Paths within a folder: globs that choose them, and ids that can be stored whatever bytes a name has."""

import os
import re
from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import unquote_to_bytes

from ingestion.errors import ConfigurationError

_GLOB_PART = re.compile(r"(\*\*/|\*\*|\*|\?|\[!?[^\]/]+\])")
_ESCAPED_BYTE = re.compile("[\udc80-\udcff]")
_ENCODED = "./"


def glob_pattern(globs: Sequence[str]) -> re.Pattern[str]:
    """Give one pattern that matches a whole path if any of the globs does, upper and lower case alike.

    A glob without a slash matches the name alone; `*` and `?` stop at slashes, `**` does not.
    """
    return _glob_pattern(tuple(globs))


@lru_cache
def _glob_pattern(globs: tuple[str, ...]) -> re.Pattern[str]:
    try:
        return re.compile("|".join(map(_glob_regex, globs)) or r"(?!)", re.IGNORECASE | re.DOTALL)
    except re.error as error:
        raise ConfigurationError(f"not a list of globs: {', '.join(globs)} ({error})") from error


def _glob_regex(glob: str) -> str:
    anchored = glob.rstrip("/")
    parts = "".join(map(_part_regex, _GLOB_PART.split(anchored.lstrip("/"))))
    return parts if "/" in anchored else f"(?:.*/)?{parts}"


def _part_regex(part: str) -> str:
    match part:
        case "**/":
            return "(?:.*/)?"
        case "**":
            return ".*"
        case "*":
            return "[^/]*"
        case "?":
            return "[^/]"
    if _GLOB_PART.fullmatch(part):
        return part.replace("\\", r"\\").replace("[!", "[^", 1)
    return re.escape(part)


def storable_path(path: str) -> str:
    """Give the id of a path as the system names it: the path itself, or `./` and an encoded path.

    Names that are not UTF-8 (the system gives surrogates for them) have those bytes, and `%`, percent-encoded; the
    `./`, which no other id begins with, keeps them apart from files that are really named so.
    """
    try:
        path.encode()
    except UnicodeEncodeError:
        encoded = path.replace("%", "%25")
        return _ENCODED + _ESCAPED_BYTE.sub(lambda byte: f"%{ord(byte[0]) - 0xDC00:02X}", encoded)
    return path


def original_path(source_id: str) -> str | None:
    """Give the path that an id stands for; None where no file within the folder can have this id."""
    path = source_id
    if source_id.startswith(_ENCODED):
        path = os.fsdecode(unquote_to_bytes(source_id.removeprefix(_ENCODED).encode("utf-8", "surrogatepass")))
    is_within = "\0" not in path and not {"", ".", ".."} & set(path.split("/"))
    return path if is_within and storable_path(path) == source_id else None


def readable_path(source_id: str) -> str:
    """Give an id as people read it: the path, without the mark of encoded ones."""
    return source_id.removeprefix(_ENCODED)
