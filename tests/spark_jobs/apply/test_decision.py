"""spark_jobs.apply.decision: which rows of a claim a table has already."""

from __future__ import annotations

from dataclasses import replace

from cdc_core.contract.claim import Claim, TableRange
from cdc_core.position import EntryPosition
from cdc_core.schema.table import TableSchema
from spark_jobs.apply.decision import decide
from spark_jobs.lake.state import TableState

KEYED = TableRange(TableSchema("shop", "orders", (), ("id",)), 1, 0, 0)
COPIES = TableRange(TableSchema("shop", "log", ()), 1, 0, 0)
START, END = EntryPosition("bin.000001", 100), EntryPosition("bin.000001", 900)
CLAIM = Claim("d", 1, 7, START, END, (KEYED, COPIES), 1, 1, 1, (), 1, "me", 0.0)


def state(applied: int | None) -> TableState:
    return TableState(4, applied, (), {})


def version(offset: int) -> int:
    return EntryPosition("bin.000001", offset).version()


def test_a_new_table_has_nothing() -> None:
    """Every row is applied."""
    decision = decide(CLAIM, KEYED, None, None)

    assert (decision.after, decision.replay, decision.delta_version) == (None, False, None)
    assert decision.end == END.version()


def test_rows_up_to_the_applied_version_are_left_out() -> None:
    """A table at the claim's end has nothing to do."""
    behind = decide(CLAIM, KEYED, state(version(500)), None)
    there = decide(CLAIM, KEYED, state(version(900)), None)

    assert (behind.after, behind.replay) == (version(500), False)
    assert (there.replay, there.delta_version) == (True, 4)


def test_without_a_key_rows_that_may_come_again_are_left_out() -> None:
    """With a key they are applied again, and an insert may meet its row."""
    copies = decide(CLAIM, COPIES, state(None), version(500))
    keyed = decide(CLAIM, KEYED, state(None), version(500))

    assert (copies.after, copies.may_recur(copies.after, START.version())) == (version(500), False)
    assert (keyed.after, keyed.may_recur(keyed.after, START.version())) == (None, True)
    assert not replace(keyed, recurs_to=version(50)).may_recur(None, START.version())
