"""The whole of Dagster: web server, daemon, queue and runs of their own, asked by GraphQL."""

from pathlib import Path

import pytest

from tests.graph_support import home, served, write_files

pytestmark = pytest.mark.real  # 35 seconds, nearly all of it the start and the stop of five processes


def test_a_range_that_fails_in_one_scope_is_retried_until_all_are_green(tmp_path: Path) -> None:
    scopes = ["first", "second", "third"]
    for scope in scopes:
        write_files(tmp_path / scope, "1.md")
    (tmp_path / "second").rename(tmp_path / "elsewhere")
    home(tmp_path, f"notes: {{connector: files, scopes: {scopes}}}")
    with served(tmp_path) as server:
        assert server.finished(server.launch("sync_notes", "first", "third")) == "FAILURE"
        assert server.partitions("notes") == {
            "numMaterialized": 2,
            "numFailed": 1,
            "numPartitions": 3,
            "numMaterializing": 0,
        }
        (tmp_path / "elsewhere").rename(tmp_path / "second")
        assert server.finished(server.launch("sync_notes", "second", "second")) == "SUCCESS"
        stats = server.partitions("notes")
        assert (stats["numMaterialized"], stats["numFailed"]) == (3, 0)
