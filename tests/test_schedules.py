"""Runs over ranges of partitions, and the schedules that ask for them."""

from itertools import pairwise

import dagster as dg
import pytest
from dagster import validate_run_config
from hypothesis import given
from hypothesis import strategies as st

from assets.definitions import build
from assets.schedules import RANGE_END, RANGE_START, RUN_SCOPES, ranges
from tests.graph_support import configured

SOURCES = """
notes: {connector: files, scopes: [zebra, apple], sync: "*/15 * * * *", census: "0 3 * * *"}
hand-book: {connector: files, scopes: [book]}
"""


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> dg.Definitions:
    return build(configured(SOURCES, tmp_path_factory.mktemp("schedules")))


def covered(all_scopes: list[str], tags: dict[str, str]) -> list[str]:
    """Give the partitions of a run, as Dagster reads its tags."""
    partitions = dg.StaticPartitionsDefinition(all_scopes)
    return list(partitions.get_partition_keys_in_range(dg.PartitionKeyRange(tags[RANGE_START], tags[RANGE_END])))


@given(st.data(), st.integers(1, 40))
def test_ranges_cover_what_is_wanted_once_in_order_and_nothing_else(data: st.DataObject, count: int) -> None:
    scopes = [f"scope {number}" for number in range(count)]
    wanted = data.draw(st.lists(st.sampled_from(scopes), unique=True))
    runs = [covered(scopes, tags) for tags in ranges(scopes, wanted)]
    assert [scope for run in runs for scope in run] == [scope for scope in scopes if scope in wanted]
    borders = [(scopes.index(one[-1]), scopes.index(two[0])) for one, two in pairwise(runs)]
    assert all(end + 1 < start for end, start in borders)  # no two runs where one does


@given(st.integers(1, 3 * RUN_SCOPES), st.sets(st.integers(0, 3 * RUN_SCOPES), max_size=3))
def test_no_run_has_more_partitions_than_the_limit(count: int, left_out: set[int]) -> None:
    scopes = [str(number) for number in range(count)]
    wanted = [scope for scope in scopes if int(scope) not in left_out]
    runs = [covered(scopes, tags) for tags in ranges(scopes, wanted)]
    assert [scope for run in runs for scope in run] == wanted
    assert all(len(run) <= RUN_SCOPES for run in runs)
    assert len(runs) <= len(wanted) // RUN_SCOPES + len(left_out) + 1


def test_each_cron_of_the_file_is_a_running_schedule_in_utc(graph: dg.Definitions) -> None:
    found = {one.name: one for one in graph.schedules or () if isinstance(one, dg.ScheduleDefinition)}
    crons = {name: (one.cron_schedule, one.job_name) for name, one in found.items()}
    assert crons == {
        "sync_notes": ("*/15 * * * *", "sync_notes"),
        "census_notes": ("0 3 * * *", "census_notes"),
        "prune": ("17 4 * * *", "prune"),
    }
    assert {one.execution_timezone for one in found.values()} == {"UTC"}
    assert {one.default_status for one in found.values()} == {dg.DefaultScheduleStatus.RUNNING}


def requests(graph: dg.Definitions, name: str) -> list[dg.RunRequest]:
    (schedule,) = (one for one in graph.schedules or () if one.name == name)
    assert isinstance(schedule, dg.ScheduleDefinition)
    return list(schedule.evaluate_tick(dg.build_schedule_context()).run_requests or ())


@pytest.mark.parametrize("name", ["sync_notes", "census_notes"])
def test_a_tick_asks_for_all_scopes_in_one_run_that_no_key_holds_back(graph: dg.Definitions, name: str) -> None:
    found = [(one.run_key, one.tags[RANGE_START], one.tags[RANGE_END]) for one in requests(graph, name)]
    assert found == [(None, "zebra", "apple")]


@pytest.mark.parametrize(("name", "is_census"), [("sync_notes", False), ("census_notes", True)])
def test_a_census_is_taken_by_its_schedule_and_no_other(graph: dg.Definitions, name: str, *, is_census: bool) -> None:
    """The tick says it: a job's own configuration does not reach a run over a range of partitions."""
    (request,) = requests(graph, name)
    assert request.run_config["ops"]["raw__notes"]["config"]["census"] is is_census
    assert validate_run_config(graph.resolve_job_def(name), request.run_config)


@pytest.mark.parametrize(("name", "is_census"), [("sync_hand_book", False), ("census_hand_book", True)])
def test_a_job_started_by_hand_for_one_scope_knows_it_too(graph: dg.Definitions, name: str, *, is_census: bool) -> None:
    config = graph.resolve_job_def(name).get_run_config_for_partition_key("book")
    assert config["ops"]["raw__hand_book"]["config"]["census"] is is_census
