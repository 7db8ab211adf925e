"""orchestration.assets.reports: what is written between two batches, and what waits."""

from __future__ import annotations

import time
from collections.abc import Sequence

import dagster as dg
import pytest

from orchestration.assets.reports import MOMENT, Reports, ages_of, moment
from tests.support.doubles import Clock


def test_many_reports_do_not_keep_the_next_batch_waiting() -> None:
    """A second's worth is written between two batches, the longest waiting first; the rest later, each table once."""
    clock, written = Clock(), list[dg.AssetMaterialization]()

    def write(event: dg.AssetMaterialization) -> None:
        written.append(event)
        clock.turn(0.4)

    reports = Reports(write, seconds=60, clock=clock)
    for table in "abcdef":
        reports.add(dg.AssetKey(table), {"rows": 1})
    reports.write_due()
    reports.add(dg.AssetKey("e"), {"rows": 2})
    assert [one.asset_key.to_user_string() for one in written] == ["a", "b", "c"]
    reports.write_due()
    reports.add(dg.AssetKey("a"), {"rows": 1})
    reports.write_due()
    assert [one.asset_key.to_user_string() for one in written] == list("abcdef")
    assert [one.metadata["rows"].value for one in written] == [1, 1, 1, 1, 3, 1]
    reports.write_all()
    assert [one.asset_key.to_user_string() for one in written] == list("abcdefa")


def test_a_run_that_goes_on_begins_with_no_other_materialization() -> None:
    """Where the last one is less than a minute old, as the run before wrote it at its end; it is asked once."""
    clock, written, asked = Clock(), list[str](), list[list[str]]()

    def ages(keys: Sequence[dg.AssetKey]) -> dict[dg.AssetKey, float]:
        asked.append([key.to_user_string() for key in keys])
        return {dg.AssetKey("a"): 5.0, dg.AssetKey("b"): 61.0}

    reports = Reports(lambda event: written.append(event.asset_key.to_user_string()), 900, clock, ages)
    for table in "abc":
        reports.add(dg.AssetKey(table), {"rows": 1})
    reports.write_due()
    assert written == ["b", "c"]
    clock.turn(800)
    reports.add(dg.AssetKey("a"), {"rows": 1})
    assert not reports.behind
    clock.turn(96)
    reports.write_due()
    assert written == ["b", "c", "a"]
    assert asked == [["a", "b", "c"]]


def test_what_would_come_shortly_before_the_end_comes_at_the_end() -> None:
    """A table's first one is written at once all the same."""
    clock, written = Clock(), list[str]()
    reports = Reports(lambda event: written.append(event.asset_key.to_user_string()), 900, clock, until=clock() + 1300)
    reports.add(dg.AssetKey("a"), {"rows": 1})
    reports.write_due()
    clock.turn(901)
    for table in "ab":
        reports.add(dg.AssetKey(table), {"rows": 1})
    reports.write_due()
    assert written == ["a", "b"]
    assert not reports.behind
    reports.write_all()
    assert written == ["a", "b", "a"]


def test_dagster_says_how_old_materializations_are() -> None:
    """Of those that have one."""
    with dg.DagsterInstance.ephemeral() as instance:
        assert ages_of(None) is None
        instance.report_runless_asset_event(dg.AssetMaterialization("a"))
        ages = ages_of(instance, lambda: time.time() + 100)
        assert ages is not None
        found = ages([dg.AssetKey("a"), dg.AssetKey("b")])
        assert found == {dg.AssetKey("a"): pytest.approx(100, abs=30)}


def test_a_materialization_is_tagged_with_its_last_place() -> None:
    """Several batches are as of the last one's end; without a place there is no tag."""
    clock, written = Clock(), list[dg.AssetMaterialization]()
    reports = Reports(written.append, seconds=60, clock=clock)
    reports.add(dg.AssetKey("a"), {"rows": 1, "place": "0.100"})
    reports.add(dg.AssetKey("a"), {"rows": 1, "place": "0.200"})
    reports.add(dg.AssetKey("b"), {"rows": 1})
    reports.write_all()
    assert [dict(one.tags or {}) for one in written] == [{"cdc/place": "0.200", "dagster/data_version": "0.200"}, {}]


def test_reports_after_a_quick_batch_take_a_part_of_its_time() -> None:
    """What is left is written later."""
    clock, written = Clock(), list[str]()

    def write(event: dg.AssetMaterialization) -> None:
        written.append(event.asset_key.to_user_string())
        clock.turn(0.15)

    reports = Reports(write, seconds=60, clock=clock)
    for table in "abcdef":
        reports.add(dg.AssetKey(table), {"rows": 1})
    reports.write_due(moment(0.5))
    assert written == ["a", "b"]
    reports.write_due(moment(4.0))
    assert written == ["a", "b", "c", "d", "e"]
    assert moment(60.0) == MOMENT


def test_of_several_batches_the_one_whose_row_was_oldest_shows_where_time_went() -> None:
    """Stages of different batches are not mixed, and a long ack does not make a row older."""
    written = list[dg.AssetMaterialization]()
    reports = Reports(written.append, seconds=60, clock=Clock())
    key, oldest = dg.AssetKey("a"), {"network": 1.0, "write": 9.0, "ack": 0.5}
    for seconds in ({"network": 2.0, "write": 3.0, "ack": 60.0}, oldest, {"network": 4.0, "write": 4.0, "ack": 0.0}):
        reports.add(key, {"rows": 1, "sluice/seconds": seconds})
    reports.add(key, {"rows": 0})  # only statements
    reports.write_all()
    assert written[0].metadata["sluice/seconds"].value == oldest
    assert written[0].metadata["batches"].value == 4


def test_a_report_that_dagster_did_not_take_is_written_later() -> None:
    """Its rows are in the next one."""
    clock, written, failures = Clock(), list[int](), iter([OSError("the database is locked")])

    def write(event: dg.AssetMaterialization) -> None:
        for failure in failures:
            raise failure
        written.append(int(str(event.metadata["rows"].value)))

    reports = Reports(write, seconds=60, clock=clock)
    reports.add(dg.AssetKey("a"), {"rows": 1})
    with pytest.raises(OSError, match="locked"):
        reports.write_due()
    assert reports.behind
    reports.add(dg.AssetKey("a"), {"rows": 2})
    reports.write_all()
    assert (written, reports.behind) == ([3], False)
