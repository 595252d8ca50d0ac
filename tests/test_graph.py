"""The graph: its shape, and how a run over many scopes ends for each of them."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import duckdb
import pytest

from assets.definitions import build
from assets.freshness import stale_scopes
from assets.raw import asset_key
from assets.runs import RunResult
from ingestion import schema
from tests.graph_support import Project, configured, project, write_files

SOURCES = """
notes: {connector: files, scopes: [zebra, apple, "mail:box", missing], sync: "*/15 * * * *", census: "0 3 * * *"}
hand-book: {connector: files, scopes: [book]}
"""
NOTES = ["zebra", "apple", "mail:box", "missing"]
DOCUMENTS, PUBLISHED = dg.AssetKey("documents"), dg.AssetKey("published")


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """All folders are there but `missing`."""
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path / "zebra", "1.md", "2.md", "3.md")
    write_files(tmp_path / "apple", "1.md")
    write_files(tmp_path / "mail:box", "1.md")
    write_files(tmp_path / "book", "1.md")
    with project(tmp_path, SOURCES) as one:
        yield one


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> dg.Definitions:
    return build(configured(SOURCES, tmp_path_factory.mktemp("graph")))


def test_assets_are_the_sources_then_the_warehouse_then_the_snapshot(graph: dg.Definitions) -> None:
    nodes = graph.resolve_asset_graph()
    raw = {dg.AssetKey(["raw", "notes"]), dg.AssetKey(["raw", "hand-book"])}
    assert {node.key: (node.group_name, node.parent_keys) for node in nodes.asset_nodes} == {
        **{key: ("raw", set()) for key in raw},
        DOCUMENTS: ("warehouse", raw),
        PUBLISHED: ("published", {DOCUMENTS}),
    }


def test_partitions_are_the_scopes_in_the_order_of_the_file(graph: dg.Definitions) -> None:
    partitions = graph.resolve_asset_graph().get(asset_key("notes")).partitions_def
    assert partitions is not None
    assert partitions.get_partition_keys() == NOTES


def test_each_source_has_a_pool_and_the_warehouse_one_for_all_that_write(graph: dg.Definitions) -> None:
    nodes = graph.resolve_asset_graph()
    pools = {node.key.to_user_string(): node.pools for node in nodes.asset_nodes}
    assert pools == {
        "raw/notes": {"raw_notes"},
        "raw/hand-book": {"raw_hand_book"},
        "documents": {"warehouse"},
        "published": {"warehouse"},
    }


def test_jobs_are_one_sync_and_one_census_per_source_the_load_and_the_pruning(graph: dg.Definitions) -> None:
    names = {job.name for job in graph.resolve_all_job_defs() if not job.name.startswith("__")}
    assert names == {"sync_notes", "census_notes", "sync_hand_book", "census_hand_book", "load", "prune"}


def test_documents_describe_each_of_their_columns(graph: dg.Definitions) -> None:
    table = graph.resolve_asset_graph().get(DOCUMENTS).metadata["dagster/column_schema"]
    assert [column.name for column in table.columns] == [column.name for column in schema.DOCUMENT]
    assert all(column.description and column.type for column in table.columns)


def test_every_asset_job_schedule_and_sensor_says_what_it_is(graph: dg.Definitions) -> None:
    described = {node.key.to_user_string(): node.description for node in graph.resolve_asset_graph().asset_nodes}
    described |= {job.name: job.description for job in graph.resolve_all_job_defs() if job.name[0] != "_"}
    described |= {schedule.name: schedule.description for schedule in graph.schedules or ()}
    described |= {sensor.name: sensor.description for sensor in graph.sensors or ()}
    assert [name for name, text in described.items() if not text] == []


def published_titles(made: Project) -> set[str]:
    with duckdb.connect(str(made.folder / "data/published/current.duckdb"), read_only=True) as connection:
        return {title for (title,) in connection.execute("SELECT title FROM documents").fetchall()}


def test_one_scope_that_is_missing_fails_alone_and_recovers(made: Project) -> None:
    first = made.sync()
    assert made.statuses() == {
        "zebra": "MATERIALIZED",
        "apple": "MATERIALIZED",
        "mail:box": "MATERIALIZED",
        "missing": "FAILED",
    }
    ((text, metadata),) = first.failures()
    assert text.splitlines() == [
        "1 of 4 scopes of notes failed",
        f"missing: there is no folder '{made.folder}/missing': mount it, create it or correct the scope",
    ]
    assert list(metadata["errors"]) == ["missing"]
    assert "Traceback" not in str(metadata)

    write_files(made.folder / "missing", "1.md", "2.md")
    again = made.sync("notes", "missing")
    assert again.failures() == []
    assert set(made.statuses().values()) == {"MATERIALIZED"}
    assert again.metadata(asset_key("notes"))["missing"]["records"] == 2  # a good run's numbers are there too


def test_a_failed_run_keeps_the_numbers_of_the_scopes_that_are_good(made: Project) -> None:
    numbers = made.sync().metadata(asset_key("notes"))
    assert set(numbers) == {"zebra", "apple", "mail:box"}
    zebra = numbers["zebra"]
    assert (zebra["records"], zebra["batches"], zebra["caught_up"], zebra["upstream"]) == (3, 2, True, 3)
    assert (zebra["missing"], zebra["gone"], zebra["held"], zebra["requests"]) == (0, 0, "", 0)
    assert zebra["cursor"]
    assert zebra["seconds"] >= 0


def test_a_scope_whose_last_fetch_failed_turns_red_and_stays_in_the_warehouse(made: Project) -> None:
    made.sync("hand-book")
    made.load()
    (made.folder / "book").rename(made.folder / "elsewhere")
    made.sync("hand-book")
    assert made.statuses("hand-book") == {"book": "FAILED"}
    made.load()
    assert published_titles(made) == {"1.md"}


def test_documents_say_what_they_loaded(made: Project) -> None:
    made.sync()
    made.sync("hand-book")
    load = made.load()
    entries = load.instance.all_logs(load.run_id, of_type=dg.DagsterEventType.ASSET_OBSERVATION)
    events = [entry.dagster_event for entry in entries if entry.dagster_event]
    observed = [event.asset_observation_data.asset_observation for event in events]
    created = {one.partition: one.metadata["created"].value for one in observed}
    assert created == {"zebra": 3, "apple": 1, "mail:box": 1, "book": 1}  # on the partition of each scope
    numbers = load.metadata(DOCUMENTS)[None]
    assert (numbers["created"], numbers["rejected"], numbers["dagster/row_count"]) == (6, 0, 6)
    assert "| notes | zebra | 3 | 0 | 0 | 0 | 0 |" in numbers["scopes"].splitlines()
    snapshot = load.metadata(PUBLISHED)[None]
    assert snapshot["is_new"]
    assert snapshot["bytes"] > 0
    assert made.load().metadata(PUBLISHED)[None] == {**snapshot, "is_new": False}


def test_documents_are_wanted_although_a_scope_failed_and_a_source_was_never_fetched(made: Project) -> None:
    assets = dg.AssetSelection.all()
    before = dg.evaluate_automation_conditions(made.definitions, made.instance, assets)
    assert before.total_requested == 0
    made.sync()
    assert made.statuses()["missing"] == "FAILED"
    after = dg.evaluate_automation_conditions(made.definitions, made.instance, assets, cursor=before.cursor)
    assert after.get_num_requested(DOCUMENTS) == 1
    assert after.get_num_requested(PUBLISHED) == 0  # it waits for the checks of what is loaded
    made.load()
    done = dg.evaluate_automation_conditions(made.definitions, made.instance, assets, cursor=after.cursor)
    assert done.total_requested == 0


def checks(result: RunResult) -> dict[str, str | None]:
    """Give the checks that did not pass, with what they say."""
    data = [
        e.asset_check_evaluation_data
        for e in result.events()
        if e.event_type == dg.DagsterEventType.ASSET_CHECK_EVALUATION
    ]
    assert {one.check_name for one in data} == {
        "unique_keys",
        "search_index",
        "batches_loaded",
        "census_brake",
        "reject_share",
        "stale_scopes",
    }
    return {one.check_name: one.description for one in data if not one.passed}


def run_checks(made: Project) -> RunResult:
    """Run the checks alone, as the UI's button does."""
    every = made.definitions.resolve_implicit_global_asset_job_def()
    keys = {key for key in made.definitions.resolve_asset_graph().asset_check_keys if key.asset_key == DOCUMENTS}
    job = every.get_subset(asset_selection=set(), asset_check_selection=keys)
    return RunResult(made.instance, job.execute_in_process(instance=made.instance).run_id)


def test_all_checks_pass_on_healthy_data(made: Project) -> None:
    write_files(made.folder / "missing", "1.md")
    made.sync()
    made.sync("hand-book")
    assert checks(made.load()) == {}


def test_a_share_of_rejects_is_a_warning_that_names_the_scope(tmp_path: Path) -> None:
    write_files(tmp_path / "book", "1.md", "2.md", "3.md")
    write_files(tmp_path / "book", "large.md", text="x" * 1_000)
    with project(tmp_path, f"books: {{connector: files, scopes: [{tmp_path}/book], max_bytes: 500}}") as made:
        made.sync("books")
        load = made.load()
        assert checks(load) == {
            "reject_share": f"books {tmp_path}/book: 1 of 4 records are refused; see the table rejects"
        }
        assert load.metadata(PUBLISHED) != {}


def test_scopes_that_missed_their_schedule_are_named(made: Project) -> None:
    made.sync()
    made.sync("hand-book")
    assert checks(made.load()) == {"stale_scopes": "notes missing: never fetched"}
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    stale = stale_scopes(made.instance, list(made.config.sources.values()), tomorrow)
    assert [(source, scope) for source, scope, _ in stale] == [("notes", scope) for scope in NOTES]
    assert stale[0][2].startswith("last fetched 2")
    soon = datetime.now(UTC) + timedelta(minutes=14)
    stale = stale_scopes(made.instance, list(made.config.sources.values()), soon)
    assert stale == [("notes", "missing", "never fetched")]


def test_batches_that_came_since_the_load_are_counted(made: Project) -> None:
    write_files(made.folder / "missing", "1.md")
    made.sync()
    made.load()
    write_files(made.folder / "zebra", "new.md")
    made.sync("notes", "zebra")
    assert checks(run_checks(made)) == {"batches_loaded": "notes zebra has 2 batches pending"}
    assert checks(made.load()) == {}
