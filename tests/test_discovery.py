"""Discovery, proved on real packages that are written for the test; and what every discovered connector must show."""

import re
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from ingestion.errors import ConnectorError
from resources.connector import Connector
from resources.discovery import connectors, connectors_in

ROOT = Path(__file__).parent.parent

IMPORTS = "from resources.connector import Connector\n"
GOOD = """
class {name}(Connector):
    def check(self, scope=None): ...
    def pages(self, scope, cursor): ...
    @staticmethod
    def documents(scope, record): ...
"""

MakePackage = Callable[..., ModuleType]


@pytest.fixture
def make_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakePackage]:
    """Write a package of the given modules and import it; forget it afterwards."""

    def make(**modules: str) -> ModuleType:
        folder = tmp_path / "made_connectors"
        folder.mkdir()
        (folder / "__init__.py").touch()
        for name, text in modules.items():
            (folder / f"{name}.py").write_text(text, encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path)
        return import_module("made_connectors")

    yield make
    for name in [name for name in sys.modules if name.partition(".")[0] == "made_connectors"]:
        del sys.modules[name]


def test_every_module_is_a_kind(make_package: MakePackage) -> None:
    package = make_package(wiki=IMPORTS + GOOD.format(name="Wiki"), mail=IMPORTS + GOOD.format(name="Anything"))
    found = connectors_in(package)
    assert {kind: cls.__name__ for kind, cls in found.items()} == {"mail": "Anything", "wiki": "Wiki"}
    assert all(issubclass(cls, Connector) for cls in found.values())


def test_an_empty_package_has_no_kinds(make_package: MakePackage) -> None:
    assert connectors_in(make_package()) == {}


def test_an_imported_connector_is_not_the_modules_own(make_package: MakePackage) -> None:
    imported = "from made_connectors.wiki import Wiki\n" + IMPORTS + GOOD.format(name="Mail")
    found = connectors_in(make_package(wiki=IMPORTS + GOOD.format(name="Wiki"), mail=imported))
    assert found["mail"].__name__ == "Mail"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("import a_library_that_is_not_installed", ModuleNotFoundError),
        ("from resources.connector import NoSuchName", ImportError),
        ("def (", SyntaxError),
        ("1 / 0", ZeroDivisionError),
    ],
)
def test_a_broken_module_fails_and_names_its_file(make_package: MakePackage, text: str, cause: type[Exception]) -> None:
    package = make_package(broken=text, wiki=IMPORTS + GOOD.format(name="Wiki"))
    with pytest.raises(ConnectorError, match=r"made_connectors/broken\.py: .* cannot be imported") as caught:
        connectors_in(package)
    assert isinstance(caught.value.__cause__, cause)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (IMPORTS, r"defines 0 connectors \(none\)"),
        (IMPORTS + GOOD.format(name="One") + GOOD.format(name="Two"), r"defines 2 connectors \(One, Two\)"),
        (IMPORTS + "class Half(Connector):\n    def check(self, scope=None): ...", "Half leaves out documents, pages"),
    ],
    ids=["none", "two", "half"],
)
def test_a_module_without_exactly_one_whole_connector_fails(make_package: MakePackage, text: str, problem: str) -> None:
    with pytest.raises(ConnectorError, match=rf"made_connectors/odd\.py: {problem}"):
        connectors_in(make_package(odd=text))


def test_the_projects_connectors_are_found_once() -> None:
    assert set(connectors()) == {path.stem for path in (ROOT / "resources/connectors").glob("[!_]*.py")}
    assert connectors() is connectors()


@pytest.mark.parametrize("kind", connectors())
def test_every_setting_is_described(kind: str) -> None:
    bare = [name for name, field in connectors()[kind].model_fields.items() if not field.description]
    assert not bare, f"describe these settings of {kind}: Field(description=...)"


def test_every_kind_has_its_row_in_the_docs() -> None:
    text = (ROOT / "docs/connectors.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\|\s*\[?`([\w-]+)`", text, re.MULTILINE)
    assert sorted(rows) == sorted(connectors()), (
        "docs/connectors.md needs one row per kind, which begins with | `kind` |"
    )
