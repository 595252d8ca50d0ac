"""Which connectors there are: each module of `resources/connectors/` is one, named by its file, without a registry."""

import inspect
import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType, ModuleType

from ingestion.errors import ConnectorError
from resources.connector import Connector


@cache
def connectors() -> Mapping[str, type[Connector]]:
    """Give the class of every connector kind, by kind; found once per process.

    Raises:
        ConnectorError: a module is no connector; the text names its file.
    """
    return connectors_in(import_module("resources.connectors"))


def connectors_in(package: ModuleType) -> Mapping[str, type[Connector]]:
    """Give the connectors of any package, by kind: the name of the module that holds it, and it alone.

    A module that cannot be imported fails the whole: a connector that silently is not there would be a source that
    silently is not read.

    Raises:
        ConnectorError: a module is no connector; the text names its file.
    """
    found = {name: _connector(f"{package.__name__}.{name}") for _, name, _ in pkgutil.iter_modules(package.__path__)}
    return MappingProxyType(found)


def _connector(module_name: str) -> type[Connector]:
    try:
        module = import_module(module_name)
    except Exception as error:
        raise ConnectorError(
            f"{_file(module_name)}: the connector cannot be imported ({type(error).__name__}: {error})"
        ) from error
    classes = [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, Connector) and value.__module__ == module_name
    ]
    if len(classes) != 1:
        names = ", ".join(cls.__name__ for cls in classes) or "none"
        raise ConnectorError(
            f"{_file(module_name)}: defines {len(classes)} connectors ({names}), must define exactly one"
        )
    (cls,) = classes
    missing = sorted(cls.__abstractmethods__)
    if missing:
        raise ConnectorError(f"{_file(module_name)}: {cls.__name__} leaves out {', '.join(missing)}")
    return cls


def _file(module_name: str) -> str:
    """Name the module as a file below the project's root."""
    return f"{module_name.replace('.', '/')}.py"
