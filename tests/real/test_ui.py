"""Dagster's web page as an operator sees it, in a real browser: what is there, what failed and why, and the way back.

The screenshots are for looking at: TRIBUTARY_SCREENSHOTS names the folder that keeps them.
"""

import base64
import itertools
import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import ClientConnection, connect

from tests.graph_support import Server, home, served, write_files

pytestmark = pytest.mark.real
SCREENSHOTS = os.environ.get("TRIBUTARY_SCREENSHOTS")
SOURCES = """
notes: {connector: files, scopes: [team/roadmap, team/minutes, customers], sync: "0 4 * * *"}
handbook: {connector: files, scopes: [handbook], sync: "0 4 * * *"}
"""
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1600,1000",
    "--remote-debugging-port=0",
)
LOADED = """
query ($key: AssetKeyInput!) {
  assetNodeOrError(assetKey: $key) { ... on AssetNode { assetMaterializations(limit: 1) { runId } } }
}"""
FAILURES = """
query ($run: ID!) {
  logsForRun(runId: $run) {
    ... on EventConnection {
      events { ... on ExecutionStepFailureEvent { failureMetadata { description } } }
    }
  }
}"""


@dataclass
class Browser:
    """One tab of Chromium, driven by its devtools protocol."""

    tab: ClientConnection
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        number = next(self._numbers)
        self.tab.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while (answer := json.loads(self.tab.recv(timeout=60))).get("id") != number:
            pass  # events that nobody asked for
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def text(self) -> str:
        found = self.call("Runtime.evaluate", expression="document.body ? document.body.innerText : ''")
        return str(found["result"]["value"])

    def open(self, url: str, *expected: str) -> str:
        """Open a page and wait until it shows all that is expected."""
        self.call("Page.navigate", url=url)
        for _ in range(300):
            text = self.text()
            if all(one in text for one in expected):
                return text
            time.sleep(0.1)
        raise AssertionError(f"{url} does not show {[one for one in expected if one not in text]}, but:\n{text}")

    def picture(self, path: Path) -> None:
        time.sleep(1)  # until what slides or fades has come to rest
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    command = ["chromium", *FLAGS, f"--user-data-dir={profile}", "about:blank"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            port_file = profile / "DevToolsActivePort"
            for _ in range(600):
                if port_file.exists() and port_file.read_text().count("\n"):
                    break
                time.sleep(0.1)
            port = port_file.read_text().splitlines()[0]
            tabs = httpx.get(f"http://127.0.0.1:{port}/json/list", timeout=60).raise_for_status().json()
            (url,) = (one["webSocketDebuggerUrl"] for one in tabs if one["type"] == "page")
            with connect(url, max_size=None) as tab:
                yield Browser(tab)
        finally:
            process.terminate()


def await_load(server: Server, *, after: str | None = None) -> str:
    """Wait until the automation has published what was loaded; give the run that did."""
    for _ in range(1_800):
        found = server.ask(LOADED, key={"path": ["published"]})["assetMaterializations"]
        if found and found[0]["runId"] != after:
            return str(found[0]["runId"])
        time.sleep(0.1)
    raise AssertionError("the automation has not published")


def failure_texts(server: Server, run: str) -> list[str]:
    events = server.ask(FAILURES, run=run)["events"]
    return [event["failureMetadata"]["description"] for event in events if event.get("failureMetadata")]


def test_an_operator_sees_the_graph_the_failure_and_the_way_back(tmp_path: Path) -> None:
    pictures = Path(SCREENSHOTS or tmp_path / "screenshots")
    pictures.mkdir(parents=True, exist_ok=True)
    for number, scope in enumerate(["team/roadmap", "team/minutes", "customers", "handbook"], start=1):
        write_files(tmp_path / scope, *(f"{page}.md" for page in range(number * 3)))
    (tmp_path / "team/minutes").rename(tmp_path / "elsewhere")
    home(tmp_path, SOURCES)
    profile = tmp_path / "profile"
    profile.mkdir()
    with served(tmp_path) as server, browser(profile) as page:
        failed = server.launch("sync_notes", "team/roadmap", "customers")
        assert server.finished(failed) == "FAILURE"
        assert server.finished(server.launch("sync_handbook", "handbook", "handbook")) == "SUCCESS"
        remedy = f"there is no folder '{tmp_path}/team/minutes': mount it, create it or correct the scope"
        assert failure_texts(server, failed) == [f"1 of 3 scopes of notes failed\nteam/minutes: {remedy}"]
        first = await_load(server)

        page.open(f"{server.url}/asset-groups", "raw", "warehouse", "published")
        page.picture(pictures / "1-lineage.png")
        page.open(f"{server.url}/assets/raw/notes?view=partitions&partition=customers", "customers", "caught_up")
        page.picture(pictures / "2-partition.png")
        page.open(f"{server.url}/assets/raw/notes?view=partitions&partition=team%2Fminutes", "team/minutes", "Failed")
        page.picture(pictures / "3-failed-scope.png")
        page.open(f"{server.url}/runs/{failed}", "1 of 3 scopes of notes failed", "mount it, create it")
        page.picture(pictures / "4-failed-run.png")
        page.open(f"{server.url}/assets/documents?view=checks&checkDetail=stale_scopes", "team/minutes: never fetched")
        page.picture(pictures / "5-checks.png")

        (tmp_path / "elsewhere").rename(tmp_path / "team/minutes")
        assert server.finished(server.launch("sync_notes", "team/minutes", "team/minutes")) == "SUCCESS"
        stats = server.partitions("notes")
        assert (stats["numMaterialized"], stats["numFailed"], stats["numPartitions"]) == (3, 0, 3)
        await_load(server, after=first)
        page.open(f"{server.url}/assets/raw/notes?view=partitions&partition=team%2Fminutes", "team/minutes", "created")
        page.picture(pictures / "6-green-again.png")
        page.open(f"{server.url}/assets/documents", "Upstream assets", "handbook")
        page.picture(pictures / "7-documents.png")
        page.open(f"{server.url}/jobs", "sync_notes", "census_notes", "load", "prune")
        page.picture(pictures / "8-jobs.png")
        page.open(f"{server.url}/automation", "sync_notes", "automation", "poll_notes")
        page.picture(pictures / "9-automation.png")

        (tmp_path / "customers").rename(tmp_path / "elsewhere")
        assert server.finished(server.launch("sync_notes", "customers", "customers")) == "FAILURE"
        assert server.partitions("notes")["numFailed"] == 1
        page.open(f"{server.url}/assets/raw/notes?view=partitions&partition=customers", "there is no folder", "created")
        page.picture(pictures / "10-failed-again.png")
