"""Facts about the project's own files that rot when no one looks."""

import re
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from dagster import DagsterInstance
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pytest_socket import SocketConnectBlockedError

ROOT = Path(__file__).parent.parent
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
LOCKED = dict(re.findall(r"^([\w.-]+)==(\S+)", LOCK, re.MULTILINE))


def make(*arguments: str) -> str:
    command = ["/usr/bin/env", "make", "-C", str(ROOT), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def documented_targets() -> set[str]:
    return set(re.findall(r"^ +make ([a-z-]+) +\S", make("help"), re.MULTILINE))


def declared() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return [Requirement(text) for text in project["project"]["dependencies"] + project["dependency-groups"]["dev"]]


def test_make_help_lists_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert documented_targets() == set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    assert {"sync", "dev", "test", "test-real", "check", "bench", "lock"} <= documented_targets()


def test_make_prints_help_when_nothing_is_asked() -> None:
    assert make() == make("help")


def test_continuous_integration_runs_what_developers_run() -> None:
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    commands = re.findall(r"^(?!#|set |cd |$)(.+)$", script, re.MULTILINE)
    assert commands == ["make check", "make test", "make test-real"]
    assert (ROOT / ".ci/run").stat().st_mode & 0o111


def test_the_lock_is_names_versions_and_hashes() -> None:
    legal = re.compile(
        r"""(?: [\w.-]+==[\w.!+-]+ (?:\ ;\ [^/@]+)? \ \\   # name==version ; marker
            |   \ {4}--hash=sha256:[0-9a-f]{64} (?:\ \\)?
            |   \ *\# [^/@]*                               # comments name packages, never a host or a path
            )""",
        re.VERBOSE,
    )
    assert [line for line in LOCK.splitlines() if not legal.fullmatch(line)] == []


def test_the_lock_covers_every_dependency() -> None:
    stale = [
        str(need) for need in declared() if not need.specifier.contains(LOCKED.get(canonicalize_name(need.name), "0"))
    ]
    assert stale == [], "run `make lock`"


def test_duckdb_and_its_search_extension_are_one_version() -> None:
    assert LOCKED["duckdb"] == LOCKED["duckdb-extension-fts"]


def test_imports_go_downward_only() -> None:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_dagsters_history_outlives_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the paths in dagster.yaml are relative, so all of it is written here
    with DagsterInstance.from_config(str(ROOT)) as instance:
        assert not instance.telemetry_enabled
        assert not instance.nux_enabled
        instance.add_dynamic_partitions("colours", ["blue"])
    with DagsterInstance.from_config(str(ROOT)) as instance:
        assert instance.get_dynamic_partitions("colours") == ["blue"]
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["dagster"]


def test_dagsters_configuration_names_no_machine() -> None:
    for name in ("dagster.yaml", "workspace.yaml"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert yaml.safe_load(text)
        assert not re.search(r":\s+[/~]", text), f"{name} has an absolute path"


def test_tests_reach_no_network() -> None:
    with socket.socket() as outside, pytest.raises(SocketConnectBlockedError):
        outside.connect(("192.0.2.1", 80))
