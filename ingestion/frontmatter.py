"""The YAML block that a note may begin with: found, bounded, read, and given as plain values."""

import math
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from typing import NamedTuple

import yaml

from ingestion.text import clean

_MAX_SIZE = 65_536
_MAX_DEPTH = 20
_MAX_INTEGER = 2**63
_BLOCK = re.compile(r"---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
# Ten times faster, where libyaml is there.
_LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class FrontMatter(NamedTuple):
    """A note, parted."""

    fields: Mapping[str, object]
    """What the block says, in JSON's types, dates as `date` or `datetime` at the first level."""
    body: str
    """The text after the block; the whole text where there is no readable block, for nothing may be lost."""
    error: str | None = None
    """Why the block could not be read, in one line."""


def front_matter(text: str) -> FrontMatter:
    """Part a note into its YAML block and its text. A block that is no mapping is text between two rulers."""
    block = _BLOCK.match(text, 0, _MAX_SIZE)
    if block is None:
        return FrontMatter({}, text)
    try:
        # Aliases can blow a small block up to gigabytes; no note needs them.
        if "*" in block[1] and any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(block[1], _LOADER)):
            return FrontMatter({}, text, "aliases are not allowed in front matter")
        loaded = yaml.load(block[1], _LOADER)  # noqa: S506  # it is a safe loader
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: a date such as 2024-13-45
        return FrontMatter({}, text, " ".join(str(error).split())[:200])
    if loaded is None:
        return FrontMatter({}, text[block.end() :])
    if not isinstance(loaded, dict):
        return FrontMatter({}, text)
    fields = {clean(str(key)): value if isinstance(value, date) else plain(value) for key, value in loaded.items()}
    return FrontMatter(fields, text[block.end() :])


def plain(value: object, depth: int = 0) -> object:
    """Give a YAML value in JSON's types, clean: dates as ISO 8601, what JSON lacks as text, 20 levels at most."""
    if depth < _MAX_DEPTH and isinstance(value, dict):
        return {clean(str(key)): plain(member, depth + 1) for key, member in value.items()}
    if depth < _MAX_DEPTH and isinstance(value, list | tuple):
        return [plain(member, depth + 1) for member in value]
    return _scalar(value)


def _scalar(value: object) -> object:
    match value:
        case None | bool():
            return value
        case int():  # Python refuses to write out integers of more than 4,300 digits
            return value if abs(value) < _MAX_INTEGER else hex(value)
        case float() if math.isfinite(value):
            return value
        case date():
            return value.isoformat()
        case set():
            return sorted(clean(str(member)) for member in value)
    return "..." if isinstance(value, dict | list | tuple) else clean(str(value))


def instant(value: object) -> datetime | None:
    """Read a date of any spelling as an instant; without a zone it is UTC. None where it is no date."""
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value.strip())
        elif isinstance(value, date) and not isinstance(value, datetime):
            value = datetime.combine(value, time())
        if not isinstance(value, datetime):
            return None
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def words(value: object, separator: str = ",") -> tuple[str, ...]:
    """Read a list, or one text with separators, as words: without blanks, each once, in order."""
    members = value if isinstance(value, list) else str(value).split(separator) if value is not None else []
    names = (member.get("name") if isinstance(member, dict) else member for member in members)
    return tuple(dict.fromkeys(name for name in (str(name).strip() for name in names if name is not None) if name))
