"""spark_jobs.checks: which numbers pass the gate and which do not."""

from __future__ import annotations

from dataclasses import replace

from cdc_core.position import EntryPosition
from cdc_core.session.claim import Claim
from spark_jobs.checks import TableResult, key_unique, position_monotone, rows_add_up

END = EntryPosition("bin.000001", 900)
FINE = TableResult("s.t", version=END.version(), after=5, upserts=5, net_deletes=2, inserted=3, updated=2, deleted=2)


def claim(start: int, end: int) -> Claim:
    places = EntryPosition("bin.000001", start), EntryPosition("bin.000001", end)
    return Claim("d", 1, 7, *places, (), 2, 3, 4, (), 1, "me", 0.0)


def test_a_key_that_met_two_rows_fails() -> None:
    """More rows touched than keys: the target has a key twice."""
    assert key_unique([FINE]).passed
    verdict = key_unique([FINE, replace(FINE, table="s.u", updated=3)])
    assert not verdict.passed
    assert "s.u: 5 keys met 6 rows" in verdict.text


def test_a_complete_table_adds_up_exactly() -> None:
    """Strict when the lake began with the source's first row; a late start may miss rows but not invent them."""
    late = replace(FINE, inserts=2, deletes=2, inserted=3, deleted=1)
    assert rows_add_up([late]).passed
    assert rows_add_up([late]).metadata["deletes_unmatched"] == 1
    assert not rows_add_up([replace(late, complete=True)]).passed
    assert not rows_add_up([replace(late, keyed=False)]).passed
    assert not rows_add_up([replace(FINE, deleted=3)]).passed


def test_positions_go_forward() -> None:
    """A batch that goes back, or a table that is not at its end, fails; a replay proves nothing and passes."""
    assert position_monotone(claim(4, 900), [FINE]).passed
    assert not position_monotone(claim(900, 900), []).passed
    assert not position_monotone(claim(4, 900), [replace(FINE, after=END.version())]).passed
    assert position_monotone(claim(4, 900), [replace(FINE, after=END.version(), replayed=True)]).passed
