"""From sources.yaml to connectors that can be called: the file, the environment, the settings of each kind."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from dagster import EnvVar
from pydantic import ValidationError

from ingestion.config import Config, EnvRef, SourceConfig, parse_config
from ingestion.errors import ConfigurationError
from resources.connector import Connector
from resources.discovery import connectors
from resources.rawlog import RawLog
from resources.warehouse import Warehouse

CONFIG_VARIABLE = "TRIBUTARY_CONFIG"


def load_config() -> Config:
    """Read the configuration file: sources.yaml, or what TRIBUTARY_CONFIG names.

    Raises:
        ConfigurationError: the file is not there, cannot be read, or has mistakes; one line each.
    """
    file = os.environ.get(CONFIG_VARIABLE, "sources.yaml")
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"{file}: cannot be read ({error}); set {CONFIG_VARIABLE} or run from the project's root"
        ) from None
    return parse_config(text, file=file, kinds={kind: list(cls.model_fields) for kind, cls in connectors().items()})


def build_connectors(config: Config) -> dict[str, Connector]:
    """Give a connector for each source, secrets still as references; they are read when a run needs them.

    Raises:
        ConfigurationError: a setting has the wrong form, or a secret stands in the file; one line each.
    """
    built: dict[str, Connector] = {}
    problems: list[str] = []
    for name, source in config.sources.items():
        cls = connectors()[source.connector]
        problems += _literal_secrets(config, source, cls)
        values = {
            key: EnvVar(value.name) if isinstance(value, EnvRef) else value for key, value in source.settings.items()
        }
        try:
            built[name] = cls(**values)
        except ValidationError as error:
            for detail in error.errors(include_url=False, include_input=False):
                place = config.at("sources", name, *detail["loc"][:1])
                problems.append(f"{place}: {detail['loc'][0] if detail['loc'] else name}: {detail['msg']}")
    if problems:
        raise ConfigurationError(problems)
    return built


def require_environment(config: Config, sources: Iterable[str], environ: Mapping[str, str] = os.environ) -> None:
    """Make sure that every variable that the sources refer to is set.

    Raises:
        ConfigurationError: one line for each that is not.
    """
    missing = [
        f"{config.at('sources', name, key)}: environment variable {value.name} is not set"
        for name in sources
        for key, value in config.sources[name].settings.items()
        if isinstance(value, EnvRef) and not environ.get(value.name)
    ]
    if missing:
        raise ConfigurationError(missing)


def resolved_connector(config: Config, name: str) -> Connector:
    """Give a source's connector with its secrets read from the environment, for use outside a Dagster run.

    Raises:
        ConfigurationError: a variable is not set.
    """
    require_environment(config, [name])
    return build_connectors(config)[name].process_config_and_initialize()  # type: ignore[no-any-return]


def secrets(source: SourceConfig, environ: Mapping[str, str] = os.environ) -> list[str]:
    """Give the values of a source's secrets, for masking them in whatever is written."""
    references = (value for value in source.settings.values() if isinstance(value, EnvRef))
    return [value for reference in references if (value := environ.get(reference.name))]


def raw_log(config: Config) -> RawLog:
    """Give the raw log of a configuration."""
    return RawLog(root=config.raw or str(Path(config.data, "raw")), locks=str(Path(config.data, "locks")))


def warehouse(config: Config) -> Warehouse:
    """Give the warehouse of a configuration."""
    return Warehouse(data=config.data, memory_limit=config.memory_limit)


def _literal_secrets(config: Config, source: SourceConfig, cls: type[Connector]) -> list[str]:
    """Refuse a secret that is written into the file; its value is not repeated."""
    return [
        f"{config.at('sources', source.name, key)}: {key} is a secret: write {{env: NAME}}, and NAME in the environment"
        for key, value in source.settings.items()
        if key in cls.model_fields and not cls.model_fields[key].repr and not isinstance(value, EnvRef)
    ]
