"""From sources.yaml to connectors: the file, the environment, the settings, and secrets that are never in the file."""

import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from pydantic import Field

from ingestion.config import Config, parse_config
from ingestion.errors import ConfigurationError
from ingestion.model import Account, Document, Page, Record
from resources.connector import Connector
from resources.connectors.files import FilesConnector
from resources.sources import (
    _literal_secrets,
    build_connectors,
    load_config,
    raw_log,
    require_environment,
    resolved_connector,
    secrets,
    warehouse,
)
from tests.graph_support import ROOT, configured, environment, home

TOKEN = "s3cr3t-token-value"
VAULT = '''
"""A connector with a secret, which its upstream repeats in an error."""

from collections.abc import Iterable, Iterator

from pydantic import Field

from ingestion.errors import ConfigurationError
from ingestion.model import Account, Document, Page, Record
from resources.connector import Connector


class VaultConnector(Connector):
    """Reads a vault."""

    token: str = Field(repr=False, description="The key of the vault.")

    def check(self, scope: str | None = None) -> Account:
        if scope == "closed":
            raise ConfigurationError(f"the vault refuses {self.token}")
        return Account("keeper", is_authenticated=True)

    def pages(self, scope: str, cursor: str | None) -> Iterator[Page]:
        if scope == "broken":
            raise ValueError(f"https://vault/?key={self.token}")
        if cursor is None:
            yield Page((Record("1", "note", b"one"),), "1")

    @staticmethod
    def documents(scope: str, record: Record) -> Iterable[Document]:
        yield Document(record.source_id, "note", "One", record.payload.decode(), "https://vault/1")
'''


class Vault(Connector):
    """As VAULT, for what can be asked without a whole project."""

    token: str = Field(repr=False)
    size: int = 1

    def check(self, scope: str | None = None) -> Account:
        raise NotImplementedError

    def pages(self, scope: str, cursor: str | None) -> Iterator[Page]:
        raise NotImplementedError

    @staticmethod
    def documents(scope: str, record: Record) -> Iterable[Document]:
        raise NotImplementedError


def vaults(text: str) -> Config:
    return parse_config(f"sources:\n  mine: {text}\n", file="sources.yaml", kinds={"vault": ["token", "size"]})


def test_the_file_is_sources_yaml_of_the_working_directory_or_what_the_variable_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    home(tmp_path, "notes: {connector: files, scopes: [a]}")
    assert list(load_config().sources) == ["notes"]
    (tmp_path / "other.yaml").write_text("sources: {others: {connector: files, scopes: [a]}}", encoding="utf-8")
    monkeypatch.setenv("TRIBUTARY_CONFIG", "other.yaml")
    assert list(load_config().sources) == ["others"]


@pytest.mark.parametrize("content", [None, b"sources: \xff"])
def test_a_file_that_cannot_be_read_is_one_line_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    monkeypatch.chdir(tmp_path)
    if content is not None:
        Path("sources.yaml").write_bytes(content)
    with pytest.raises(ConfigurationError) as caught:
        load_config()
    (problem,) = caught.value.problems
    assert problem.startswith("sources.yaml: cannot be read (")
    assert "TRIBUTARY_CONFIG" in problem


def test_settings_arrive_in_the_connector(tmp_path: Path) -> None:
    config = configured('notes: {connector: files, scopes: [a], include: ["*.md"], max_bytes: 7}', tmp_path)
    connector = resolved_connector(config, "notes")
    assert isinstance(connector, FilesConnector)
    assert (connector.include, connector.max_bytes) == (["*.md"], 7)


def test_settings_of_the_wrong_form_are_all_named_with_their_lines(tmp_path: Path) -> None:
    text = """
        notes:
          connector: files
          scopes: [a]
          max_bytes: none
        others:
          connector: files
          scopes: [a]
          include: everything
    """
    with pytest.raises(ConfigurationError) as caught:
        build_connectors(configured(text, tmp_path))
    first, second = caught.value.problems
    assert first.startswith("sources.yaml:6: max_bytes: ")
    assert second.startswith("sources.yaml:10: include: ")
    assert "everything" not in second  # a value may be a secret in the wrong place


def test_each_variable_that_is_not_set_is_a_line_and_empty_counts_as_not_set() -> None:
    config = vaults("{connector: vault, scopes: [a], token: {env: VAULT_TOKEN}, size: {env: VAULT_SIZE}}")
    with pytest.raises(ConfigurationError) as caught:
        require_environment(config, ["mine"], {"VAULT_TOKEN": ""})
    assert caught.value.problems == (
        "sources.yaml:2: environment variable VAULT_TOKEN is not set",
        "sources.yaml:2: environment variable VAULT_SIZE is not set",
    )
    require_environment(config, ["mine"], {"VAULT_TOKEN": "t", "VAULT_SIZE": "1"})
    require_environment(config, [], {})


def test_secrets_are_what_the_references_stand_for() -> None:
    source = vaults("{connector: vault, scopes: [a], token: {env: VAULT_TOKEN}, size: 3}").sources["mine"]
    assert secrets(source, {"VAULT_TOKEN": TOKEN}) == [TOKEN]
    assert secrets(source, {}) == []


def test_a_secret_in_the_file_is_refused_and_not_repeated() -> None:
    config = vaults(f"{{connector: vault, scopes: [a], token: {TOKEN}, size: 3}}")
    (problem,) = _literal_secrets(config, config.sources["mine"], Vault)
    assert problem.startswith("sources.yaml:2: token is a secret: write {env: NAME}")
    assert TOKEN not in problem


def test_data_lies_where_the_file_says(tmp_path: Path) -> None:
    config = configured("notes: {connector: files, scopes: [a]}", tmp_path)
    assert raw_log(config).root == f"{tmp_path}/data/raw"
    assert raw_log(config.model_copy(update={"raw": "s3://bucket/raw"})).root == "s3://bucket/raw"
    limited = config.model_copy(update={"memory_limit": "300MB"})
    assert (warehouse(limited).data, warehouse(limited).memory_limit) == (f"{tmp_path}/data", "300MB")


def run(folder: Path, *command: str, **values: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a copy of the project."""
    env = environment(PYTHONPATH=str(folder), **values)
    return subprocess.run([sys.executable, *command], cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_one_new_file_is_a_new_connector_and_its_secret_is_written_nowhere(tmp_path: Path) -> None:
    """Law 8, through the whole of the command line, with an upstream that shows the secret in its errors."""
    for package in ("ingestion", "resources", "assets"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "resources/connectors/vault.py").write_text(VAULT, encoding="utf-8")
    home(tmp_path, "mine: {connector: vault, scopes: [open, closed, broken], token: {env: VAULT_TOKEN}}")

    loads = "from assets.definitions import defs; print(*(one.name for one in defs().sensors))"
    assert run(tmp_path, "-c", loads).stdout.split() == ["automation"]  # no secret needed, and nothing to poll
    synced = run(tmp_path, "-m", "assets", "sync", VAULT_TOKEN=TOKEN)
    assert synced.returncode == 1
    assert "mine: open: 1 records, caught up" in synced.stderr
    assert "mine: closed: failed: the vault refuses ***" in synced.stderr
    assert "mine: broken: failed: ValueError: https://vault/?key=***" in synced.stderr
    replayed = run(tmp_path, "-m", "assets", "replay")  # without the secret
    assert replayed.returncode == 0
    assert TOKEN not in synced.stdout + synced.stderr
    files = [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
    assert len(files) > 10
    assert [path for path in files if TOKEN.encode() in path.read_bytes()] == []
