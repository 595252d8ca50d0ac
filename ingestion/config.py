"""The text of sources.yaml -> a typed, frozen Config, or all its mistakes, one line each: `file:line: what, remedy`."""

import re
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Annotated, TypeVar

from croniter import (  # type: ignore[import-untyped]
    CroniterBadDateError,
    CroniterError,
    croniter,
)
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

from ingestion.config_problems import SOURCE_KEYS, Problem, model_problem, quoted, source_problems
from ingestion.errors import ConfigurationError
from ingestion.yaml_positions import REFUSED, Positions, read_yaml

_CRON_FIELDS = (
    ("minute", "0-59"),
    ("hour", "0-23"),
    ("day of the month", "1-31"),
    ("month", "1-12 or jan-dec"),
    ("day of the week", "0-7 or sun-sat"),
)
# What croniter would take beyond this (R, H, numbers of any length) is random or never meant.
_CRON_ITEM = r"(\*|\?|[0-9]{1,2}|[a-z]{3}|l[0-7]?)(-([0-9]{1,2}|[a-z]{3}))?(/[0-9]{1,2})?(#[1-5l])?"
_CRON_FIELD = re.compile(f"{_CRON_ITEM}(,{_CRON_ITEM})*", re.IGNORECASE)


def _clean_text(text: str) -> str:
    if not text:
        raise ValueError("empty text, write a name or remove it")
    if text != text.strip():
        raise ValueError(f"{quoted(text)} begins or ends with a blank, remove the blank")
    if any(unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"} for character in text):
        raise ValueError(f"{quoted(text)} holds a control character or line break, remove it")
    return text


def _scope_text(text: str) -> str:
    if "..." in text:  # Dagster refuses such a partition key, and with it the whole code location
        raise ValueError(f"scope {quoted(text)} holds '...', which Dagster does not allow in a partition: rename it")
    return _clean_text(text)


def _some_scopes(scopes: tuple[str, ...]) -> tuple[str, ...]:
    if not scopes:  # pydantic's min_length would also count the scopes that are refused one by one
        raise ValueError("scopes is empty, name at least one, as in scopes: [examples/notes]")
    return scopes


def _size_text(text: str) -> str:
    if not re.fullmatch(r"[1-9][0-9]{0,8} ?[KMGT]i?B", text, re.IGNORECASE):
        raise ValueError(f"bad memory_limit {quoted(text)}, write a size such as 256MB, 2GB or 4GiB")
    return text


def _cron_text(text: str) -> str:
    fields = text.split()
    if len(fields) != len(_CRON_FIELDS):
        form = 'minute, hour, day of the month, month, day of the week, as in "*/15 * * * *"'
        raise ValueError(f"bad cron {quoted(text)} with {len(fields)} fields, write five: {form}")
    for number, (name, valid) in enumerate(_CRON_FIELDS):
        alone = " ".join("*" if other != number else fields[number] for other in range(len(_CRON_FIELDS)))
        if not _CRON_FIELD.fullmatch(fields[number]) or not croniter.is_valid(alone):
            field = quoted(fields[number])
            raise ValueError(f"bad cron {quoted(text)}: {field} is no {name}, use {valid}, '*' or '*/n'")
    try:
        croniter(" ".join(fields), datetime(2000, 1, 1, tzinfo=UTC)).get_next()
    except CroniterBadDateError:
        raise ValueError(f"bad cron {quoted(text)}: there is no such day, correct day and month") from None
    except CroniterError:
        raise ValueError(f"bad cron {quoted(text)}: its fields do not go together, write it simpler") from None
    return " ".join(fields)


_Value = TypeVar("_Value")
_FrozenMapping = Annotated[Mapping[str, _Value], AfterValidator(MappingProxyType)]
_Text = Annotated[str, AfterValidator(_clean_text)]
_Scope = Annotated[str, AfterValidator(_scope_text)]
_Scopes = Annotated[tuple[_Scope, ...], AfterValidator(_some_scopes)]
_Size = Annotated[str, AfterValidator(_size_text)]
_Cron = Annotated[str, AfterValidator(_cron_text)]


@dataclass(frozen=True, slots=True)
class EnvRef:
    """A setting whose value is in the environment, `{env: NAME}`: only the name is known here."""

    name: str


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Brake(_Model):
    """How many ids one census may find missing and still tombstone them; the more generous of the two is the limit."""

    ids: int = Field(default=20, ge=0, strict=True, description="So many ids may go missing.")
    share: float = Field(default=0.1, ge=0, le=1, strict=True, description="Such a share of all ids may go missing.")


class SourceConfig(_Model):
    """One source of sources.yaml."""

    name: str = Field(description="The source's name, its key under `sources`.")
    connector: str = Field(description="The kind of connector that reads it.")
    scopes: _Scopes = Field(description="What to read of it; each scope is a partition.")
    settings: _FrozenMapping[object] = Field(
        default_factory=dict, repr=False, description="The connector's own keys: plain data, or an EnvRef."
    )
    sync: _Cron | None = Field(default=None, description="Cron of its syncs; None: only when asked.")
    census: _Cron | None = Field(default=None, description="Cron of its censuses; None: only when asked.")
    brake: Brake = Field(default=Brake(), description="The limit on what one census tombstones unasked.")

    @property
    def slug(self) -> str:
        """The name in the letters that Dagster allows for jobs and pools."""
        return self.name.replace("-", "_")


class Config(_Model):
    """All of sources.yaml."""

    data: _Text = Field(default="data", description="The folder of everything that Tributary writes.")
    raw: _Text | None = Field(default=None, description="Path or URI of the raw log; None: `raw` in the data folder.")
    memory_limit: _Size = Field(default="176MB", description="The memory that DuckDB may take.")
    sources: _FrozenMapping[SourceConfig] = Field(min_length=1, description="The sources by name.")

    _positions: Positions = PrivateAttr(default=Positions("sources.yaml"))

    def model_post_init(self, context: object, /) -> None:
        """Keep the positions that `parse_config` found."""
        if isinstance(context, Positions):
            self._positions = context

    def at(self, *path: str | int) -> str:
        """Give `file:line` of a key path as it is in the file, or of the nearest key around it."""
        return self._positions.at(*path)


def parse_config(text: str, *, file: str, kinds: Mapping[str, Collection[str]]) -> Config:
    """Read the text of sources.yaml; `kinds` names the settings that each kind of connector has.

    Raises:
        ConfigurationError: all mistakes, one line each.
    """
    tree = read_yaml(text, file=file)
    problems, config = [*tree.problems], None
    if isinstance(tree.value, dict):
        config, found = _validated(tree.value, tree.positions, kinds)
        meant = {one.meant for one in found}
        told = (one for one in found if not (one.is_missing and one.path in meant))
        problems += [(tree.positions.line(one.path), one.what) for one in told]
    elif tree.value is not REFUSED:
        what = "the file is empty" if tree.value is None else "the file is not a mapping"
        problems.append((1, f"{what}, begin with sources: {{notes: {{connector: files, scopes: [examples/notes]}}}}"))
    if config is None or problems:
        raise ConfigurationError([f"{file}:{line}: {what}" for line, what in sorted(dict.fromkeys(problems))])
    return config


def _validated(
    raw: Mapping[str, object], positions: Positions, kinds: Mapping[str, Collection[str]]
) -> tuple[Config | None, list[Problem]]:
    found: list[Problem] = []
    sources = raw.get("sources")
    if isinstance(sources, dict):
        found += source_problems(sources, kinds)
        sources = {name: _shaped(name, source) for name, source in sources.items()}
        raw = {**raw, "sources": sources}
    try:
        return Config.model_validate(raw, context=positions), found
    except ValidationError as error:
        errors = error.errors(include_url=False)
        return None, found + [model_problem(one) for one in errors if one["input"] is not REFUSED]


def _shaped(name: str, source: object) -> object:
    """Put what is not a key of every source under `settings`."""
    if not isinstance(source, dict):
        return source
    known = {key: value for key, value in source.items() if key in SOURCE_KEYS}
    settings = {key: _setting(value) for key, value in source.items() if key not in SOURCE_KEYS}
    return {**known, "name": name, "settings": settings}


def _setting(value: object) -> object:
    return EnvRef(str(value["env"])) if isinstance(value, dict) and "env" in value else value
