"""orchestration.assets.reports: what is written between two batches, and what waits."""

from __future__ import annotations

import dagster as dg

from orchestration.assets.reports import Reports
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
