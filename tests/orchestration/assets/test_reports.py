"""orchestration.assets.reports: what is written between two batches, and what waits."""

from __future__ import annotations

import dagster as dg
import pytest

from orchestration.assets.reports import MOMENT, Reports, moment
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
