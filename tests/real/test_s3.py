"""The raw log in an object store: against moto's S3 server, which scripts/test_real.sh installs beside the project."""

import random
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from resources.fetch import Fetched
from tests.real.support import ROOT, Project, Store, assert_complete, assert_replays, change

pytestmark = pytest.mark.real

MOTO = ROOT / ".venv" / "moto" / "bin" / "moto_server"


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Give the URI of a prefix in a bucket of a server of our own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    secrets = {"AWS_ACCESS_KEY_ID": "made-up", "AWS_SECRET_ACCESS_KEY": "made-up", "AWS_EC2_METADATA_DISABLED": "true"}
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    with (tmp_path / "moto.log").open("wb") as log:
        server = subprocess.Popen([MOTO, "-H", "127.0.0.1", "-p", str(port)], stdout=log, stderr=log)
        try:
            _wait_for(f"http://127.0.0.1:{port}/", server)
            assert httpx.put(f"http://127.0.0.1:{port}/bucket").is_success
            yield f"s3://bucket/raw?scheme=http&endpoint_override=127.0.0.1:{port}&region=us-east-1"
        finally:
            server.terminate()
            server.wait()


def _wait_for(url: str, server: "subprocess.Popen[bytes]") -> None:
    while server.poll() is None:
        try:
            httpx.get(url)
        except httpx.TransportError:
            time.sleep(0.1)
        else:
            return
    pytest.fail("the server did not start")


def test_a_log_in_a_bucket_syncs_replays_and_resumes(bucket: str, tmp_path: Path) -> None:
    store = Store(tmp_path / "tree", tmp_path / "data", raw=bucket)
    store.tree.mkdir()
    chance = random.Random(20_260)  # noqa: S311 -- a test that can be repeated
    for _ in range(3):
        change(store.tree, chance, 200)
        store.sync()
    assert_complete(store, tmp_path)
    # Another machine, which has nothing but the bucket: it goes on where this one stopped.
    time.sleep(1.1)  # files that are younger than a second are read again
    store.fetch()
    other = Store(store.tree, tmp_path / "other", raw=bucket)
    assert said(other.fetch()) == (0, 0)
    (store.tree / "news.txt").write_text("news")
    assert said(other.fetch()) == (1, 2)  # the record, and the census that counts it
    other.load()
    other.publish()
    assert_replays(other, tmp_path / "others")
    store.sync()
    assert_complete(store, tmp_path / "again")


def said(fetched: Fetched) -> tuple[int, int]:
    return fetched.records_count, fetched.batches_count


def test_the_command_line_takes_a_bucket(bucket: str, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    change(tree, random.Random(20_260), 200)  # noqa: S311 -- as above
    project = Project.make(tmp_path / "project", tree, f"raw: '{bucket}'")
    synced = project.sync()
    assert (synced.returncode, synced.stderr) == (0, "")
    replayed = project.run("replay", "--json")
    assert (replayed.returncode, replayed.counts()) == (0, synced.counts())
    assert not (project.folder / "data" / "raw").exists()
