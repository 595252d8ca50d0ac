"""A project in a folder of its own: real folders of files, the real graph, a real Dagster instance."""

import atexit
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg
import httpx

from assets.definitions import build
from assets.raw import SyncConfig, asset_key
from assets.runs import Runner, RunResult
from assets.schedules import RANGE_END, RANGE_START
from ingestion.config import Config, parse_config
from resources.discovery import connectors

ROOT = Path(__file__).parent.parent
POOLS = {"concurrency": {"pools": {"default_limit": 1, "granularity": "op"}}}


def write_files(folder: Path, *names: str, text: str = "text") -> None:
    """Write one small document per name; the texts differ."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text(f"# {name}\n\n{text} of {name}\n", encoding="utf-8")


def configured(sources: str, folder: Path) -> Config:
    """Read the `sources` part of a sources.yaml whose data is in `folder`."""
    text = f"data: {folder}/data\nsources:\n{textwrap.indent(textwrap.dedent(sources).strip(), '  ')}\n"
    kinds = {kind: list(cls.model_fields) for kind, cls in connectors().items()}
    return parse_config(text, file="sources.yaml", kinds=kinds)


@dataclass(frozen=True)
class Project:
    """A configuration, its graph and the instance that remembers the runs."""

    folder: Path
    config: Config
    definitions: dg.Definitions
    instance: dg.DagsterInstance

    @property
    def runner(self) -> Runner:
        return Runner(self.definitions, self.instance, "test")

    def sync(self, source: str = "notes", *scopes: str, options: SyncConfig | None = None) -> RunResult:
        """Fetch scopes that stand beside each other (by default all) in one run."""
        wanted = scopes or self.config.sources[source].scopes
        (result,) = self.runner.sync(self.config, source, wanted, options or SyncConfig())
        return result

    def load(self) -> RunResult:
        return self.runner.run("load")

    def statuses(self, source: str = "notes") -> dict[str, str | None]:
        """Give the colour of each partition, as the UI shows it."""
        scopes = self.config.sources[source].scopes
        partitions = dg.StaticPartitionsDefinition(list(scopes))
        found = self.instance.get_status_by_partition(asset_key(source), scopes, partitions) or {}
        return {scope: status and status.value for scope in scopes for status in [found.get(scope)]}


@cache
def _blank_instance() -> str:
    """Make an empty instance once: its tables take a second, its copy nothing."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    with dg.instance_for_test(overrides=POOLS, temp_dir=folder.name):
        return folder.name


@contextmanager
def project(folder: Path, sources: str) -> Iterator[Project]:
    """Make the graph of some sources, with an instance whose pools work as those of dagster.yaml."""
    config = configured(sources, folder)
    instance_folder = shutil.copytree(_blank_instance(), folder / "dagster")
    with dg.instance_for_test(overrides=POOLS, temp_dir=str(instance_folder)) as instance:
        yield Project(folder, config, build(config), instance)


def home(folder: Path, sources: str) -> Path:
    """Make a folder in which the command line runs: sources.yaml, and the project's own dagster.yaml."""
    folder.mkdir(parents=True, exist_ok=True)
    text = f"data: data\nsources:\n{textwrap.indent(textwrap.dedent(sources).strip(), '  ')}\n"
    (folder / "sources.yaml").write_text(text, encoding="utf-8")
    shutil.copy(ROOT / "dagster.yaml", folder)
    for part in ("history", "schedules"):
        shutil.copytree(Path(_blank_instance(), part), folder / "data/dagster" / part, dirs_exist_ok=True)
    return folder


def environment(**values: str) -> dict[str, str]:
    """Give the environment of a command that runs in another folder."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **values}


def start(folder: Path, arguments: Sequence[str], **values: str) -> subprocess.Popen[str]:
    """Start the command line in a folder, as an operator does."""
    return subprocess.Popen(
        [sys.executable, "-m", "assets", *arguments],
        cwd=folder,
        env=environment(**values),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_take_interrupts,  # noqa: PLW1509 -- no threads here
    )


def _take_interrupts() -> None:
    """Be interruptible: whoever starts the tests in the background has SIGINT ignored, and a child inherits that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@dataclass(frozen=True)
class Server:
    """A running `dagster dev`, asked as its own web page asks it."""

    url: str
    client: httpx.Client

    def ask(self, query: str, **variables: object) -> dict[str, Any]:
        """Send a GraphQL query; give the one thing that it asks for."""
        response = self.client.post(f"{self.url}/graphql", json={"query": query, "variables": variables})
        answer = response.raise_for_status().json()
        assert "errors" not in answer, answer["errors"]
        (found,) = answer["data"].values()
        assert isinstance(found, dict)
        return found

    def launch(self, job: str, start: str, end: str) -> str:
        """Launch a job over a range of scopes; give the id of its run."""
        where = {"repositoryLocationName": "assets.definitions", "repositoryName": "__repository__", "jobName": job}
        tags = [{"key": RANGE_START, "value": start}, {"key": RANGE_END, "value": end}]
        answer = self.ask(LAUNCH, params={"selector": where, "executionMetadata": {"tags": tags}})
        return str(answer["run"]["runId"])

    def finished(self, run_id: str) -> str:
        """Wait for the end of a run; give its status."""
        for _ in range(1_200):
            status = self.ask(STATUS, run=run_id)["status"]
            if status in {"SUCCESS", "FAILURE", "CANCELED"}:
                return str(status)
            time.sleep(0.1)
        raise AssertionError(f"run {run_id} is still {status}")

    def partitions(self, source: str) -> dict[str, int]:
        """Count the partitions of a source's raw asset by their colour."""
        stats: dict[str, int] = self.ask(PARTITIONS, key={"path": ["raw", source]})["partitionStats"]
        return stats


LAUNCH = """
mutation ($params: ExecutionParams!) {
  launchRun(executionParams: $params) {
    ... on LaunchRunSuccess { run { runId } }
    ... on Error { message }
  }
}"""
STATUS = "query ($run: ID!) { runOrError(runId: $run) { ... on Run { status } } }"
PARTITIONS = """
query ($key: AssetKeyInput!) {
  assetNodeOrError(assetKey: $key) {
    ... on AssetNode { partitionStats { numMaterialized numFailed numPartitions numMaterializing } }
  }
}"""


@contextmanager
def served(folder: Path) -> Iterator[Server]:
    """Run the web page and the daemon of a project (`home`) on a free port, and stop them as Ctrl-C does."""
    shutil.copy(ROOT / "workspace.yaml", folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).with_name("dagster")), "dev", "--host", "127.0.0.1", "--port", str(port)]
    log = folder / "dagster.log"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command,
            cwd=folder,
            env=environment(DAGSTER_HOME=str(folder), PYTHONWARNINGS="ignore"),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_take_interrupts,  # noqa: PLW1509 -- no threads here
        ) as process,
        httpx.Client(timeout=60) as client,
    ):
        server = Server(f"http://127.0.0.1:{port}", client)
        try:
            _await_server(server, process, log)
            yield server
        finally:
            os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                raise


def _await_server(server: Server, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(1_200):
        assert process.poll() is None, log.read_text(encoding="utf-8", errors="replace")
        with suppress(httpx.TransportError):
            server.client.get(f"{server.url}/server_info").raise_for_status()
            return
        time.sleep(0.1)
    raise AssertionError(log.read_text(encoding="utf-8", errors="replace"))
