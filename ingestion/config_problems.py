"""What is wrong with the data of a sources.yaml, in words for the operator.

No text here repeats the value of a setting: a token may have been pasted where `{env: NAME}` belongs.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from typing import NamedTuple

from pydantic_core import ErrorDetails

from ingestion.yaml_positions import KeyPath

SOURCE_KEYS = ("connector", "scopes", "sync", "census", "brake")
"""What a source has beside the settings of its connector."""

_CONFIG_KEYS = ("data", "raw", "memory_limit", "sources")
_BRAKE_KEYS = ("ids", "share")
_SOURCE_EXAMPLE = "{connector: files, scopes: [examples/notes]}"
_EXPECTED = {
    "data": "the name of a folder",
    "raw": "a path, or a URI such as s3://bucket/prefix",
    "memory_limit": "a size such as 256MB",
    "sources": f"a mapping with at least one source, as in sources: {{notes: {_SOURCE_EXAMPLE}}}",
    "connector": "the kind of a connector",
    "scopes": "a list of at least one scope, as in scopes: [examples/notes]",
    "sync": 'a cron such as "*/15 * * * *"',
    "census": 'a cron such as "0 3 * * *"',
    "brake": "a mapping such as {ids: 20, share: 0.1}",
    "ids": "a whole number, 0 or more",
    "share": "a number from 0 to 1",
}
_READ_AS = {bool: "true or false, as on, yes and no are too", int: "a number", float: "a number"}


class Problem(NamedTuple):
    """One mistake, at a key path."""

    path: KeyPath
    what: str
    meant: KeyPath | None = None
    """The known key that was probably meant: that this one is missing needs no second line."""
    is_missing: bool = False


_SHOWN = 60
"""Characters of a name that a message repeats."""
_SOURCE_PATH = ("sources", "<name>")


def quoted(text: str) -> str:
    """Show a name: short, printable and on one line."""
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}..."


def source_problems(sources: Mapping[str, object], kinds: Mapping[str, Collection[str]]) -> Iterator[Problem]:
    """Find what only the whole of the sources, or the discovered connectors, can tell."""
    slugs: dict[str, str] = {}
    for name, source in sources.items():
        path: KeyPath = ("sources", name)
        if not re.fullmatch(r"[a-z][a-z0-9_-]{0,59}", name):
            rule = "use a small letter, then small letters, digits, '-' or '_', at most 60"
            yield Problem(path, f"bad source name {quoted(name)}, {rule}")
        other = slugs.setdefault(name.replace("-", "_"), name)
        if other != name:
            same = f"source {quoted(name)} is the same name as {quoted(other)}, as '-' and '_' count as equal"
            yield Problem(path, f"{same}: rename one")
        if isinstance(source, dict):
            yield from _key_problems(path, source, kinds)
            yield from _scope_problems((*path, "scopes"), source.get("scopes"))


def _key_problems(
    path: KeyPath, source: Mapping[str, object], kinds: Mapping[str, Collection[str]]
) -> Iterator[Problem]:
    kind = source.get("connector")
    if isinstance(kind, str) and kind not in kinds:
        yield Problem((*path, "connector"), f"unknown connector {quoted(kind)}, {_nearest(kind, kinds)}")
    settings = kinds.get(kind) if isinstance(kind, str) else None
    known = {*SOURCE_KEYS, *(settings if settings is not None else (key for keys in kinds.values() for key in keys))}
    for key, value in source.items():
        if key not in known and settings is not None:
            has = f"connector {kind} has the settings: {', '.join(sorted(settings)) or 'none'}"
            yield _unknown((*path, key), known, has)
        elif key not in known and get_close_matches(key[:60], SOURCE_KEYS):  # else perhaps the unknown connector's
            yield _unknown((*path, key), SOURCE_KEYS)
        if key not in SOURCE_KEYS:
            yield from _env_problems((*path, key), value)


def _unknown(path: KeyPath, valid: Collection[str], more: str = "") -> Problem:
    key = str(path[-1])
    close = get_close_matches(key[:60], valid, n=1)
    advice = f"{_nearest(key, valid)} ({more})" if more and close else more or _nearest(key, valid)
    return Problem(path, f"unknown key {quoted(key)}, {advice}", meant=(*path[:-1], *close))


def _nearest(word: str, valid: Collection[str]) -> str:
    close = get_close_matches(word[:60], valid, n=1)
    return f"did you mean {close[0]}?" if close else f"use one of: {', '.join(sorted(valid)) or 'none there'}"


def _env_problems(path: KeyPath, value: object) -> Iterator[Problem]:
    if not isinstance(value, dict) or "env" not in value:
        if _has_env(value):
            yield Problem(path, "{env: NAME} inside a list or mapping, it can only be the whole value of a setting")
    elif len(value) > 1:
        yield Problem(path, "keys beside env, write only {env: NAME}")
    elif not isinstance(name := value["env"], str) or not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
        rule = "write the name of an environment variable (letters, digits and '_'), not its value"
        yield Problem(path, f"bad name in {{env: NAME}}, {rule}")


def _has_env(value: object) -> bool:
    inner = [*value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []
    return any((isinstance(item, dict) and [*item] == ["env"]) or _has_env(item) for item in inner)


def _scope_problems(path: KeyPath, scopes: object) -> Iterator[Problem]:
    seen: set[str] = set()
    for number, scope in enumerate(scopes if isinstance(scopes, list) else []):
        if isinstance(scope, str):
            if scope in seen:
                yield Problem((*path, number), f"duplicate scope {quoted(scope)}, remove one")
            seen.add(scope)


def model_problem(error: ErrorDetails) -> Problem:
    """Say one of pydantic's errors in our words."""
    path = error["loc"]
    key = str(path[-1])
    if error["type"] == "value_error":
        return Problem(path, str(error["ctx"]["error"]))
    if error["type"] == "extra_forbidden":
        return _unknown(path, _BRAKE_KEYS if "brake" in path[2:] else _CONFIG_KEYS)
    if error["type"] == "missing":
        where = f"source {quoted(str(path[1]))}" if len(path) > len(_SOURCE_PATH) else "the file"
        return Problem(path, f"{where} has no {key}, add {_EXPECTED[key]}", is_missing=True)
    if error["input"] is None:
        return Problem(path, f"{'a scope' if isinstance(path[-1], int) else quoted(key)} has no value, write one")
    if isinstance(path[-1], int):
        rule, value = "a scope must be text", error["input"]
    elif len(path) == len(_SOURCE_PATH) and path[0] == "sources":
        rule, value = f"a source must be a mapping, as in {_SOURCE_EXAMPLE}", None
    else:
        rule, value = f"{key} must be {_EXPECTED[key]}", error["input"] if error["type"] == "string_type" else None
    read_as = _READ_AS.get(type(value)) if error["type"] == "string_type" else None
    remedy = f"; YAML reads this as {read_as}, put it in quotes" if read_as else ", correct it"
    return Problem(path, rule + remedy)
