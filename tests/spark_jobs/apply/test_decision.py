"""spark_jobs.apply.decision: which rows of a claim a table has already."""

from __future__ import annotations

from dataclasses import replace

from cdc_core.contract.claim import TableRange
from cdc_core.position import EntryPosition
from cdc_core.schema.table import TableSchema
from spark_jobs.apply.decision import decide
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.progress import Epoch, Range, TableProgress
from spark_jobs.lake.state import TableState
from spark_jobs.lake.tables import Lake

KEYED = TableRange(TableSchema("shop", "orders", (), ("id",)), 1, 0, 0)
COPIES = TableRange(TableSchema("shop", "log", ()), 1, 0, 0)
START, END = EntryPosition("bin.000001", 100), EntryPosition("bin.000001", 900)
WANTED = Range(Epoch(1), START.version(), END.version())


def progress(**ends: int) -> TableProgress:
    """By epoch, how far the table is; the ledger is never looked at, because it is at the range's start or before."""
    known = {int(epoch.removeprefix("epoch_")): end for epoch, end in ends.items()}
    return TableProgress(Ledger(Lake("/nowhere"), "d", 1), "shop.orders", TableState(4, None, (), {}), known, True)


def version(offset: int) -> int:
    return EntryPosition("bin.000001", offset).version()


def test_a_new_table_has_nothing() -> None:
    """Every row is applied."""
    decision = decide(KEYED, WANTED, None)

    assert (decision.after, decision.replay, decision.delta_version) == (None, False, None)
    assert decision.end == END.version()


def test_rows_up_to_the_applied_version_are_left_out() -> None:
    """A table at the claim's end has nothing to do."""
    behind = decide(KEYED, WANTED, progress(epoch_1=version(500)))
    there = decide(KEYED, WANTED, progress(epoch_1=version(900)))

    assert (behind.after, behind.replay) == (version(500), False)
    assert (there.replay, there.delta_version) == (True, 4)


def test_without_a_key_rows_that_may_come_again_are_left_out() -> None:
    """With a key they are applied again, and an insert may meet its row."""
    copies = decide(COPIES, WANTED, progress(epoch_0=version(100)))
    keyed = decide(KEYED, WANTED, progress(epoch_0=version(500)))

    assert (copies.after, copies.may_recur(copies.after, START.version())) == (version(100), False)
    assert (keyed.after, keyed.may_recur(keyed.after, START.version())) == (None, True)
    assert not replace(keyed, recurs_to=version(50)).may_recur(None, START.version())
