"""spark_jobs.apply.checks: which numbers pass the gate and which do not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdc_core.contract.claim import Claim
from cdc_core.errors import TableStopped
from cdc_core.position import EntryPosition
from spark_jobs.apply.checks import key_unique, position_monotone, rows_add_up
from spark_jobs.apply.commits import Commit, Earlier, SourceCounts
from spark_jobs.apply.decision import Decision
from spark_jobs.apply.gate import gate
from spark_jobs.apply.result import BatchResult, Refusal, TableResult

END = EntryPosition("bin.000001", 900).version()
DECISION = Decision("s.t", END, after=5)
COUNTS = SourceCounts(upserts=5, net_deletes=2, gained=3, lost=2)
FINE = Commit(END, after=5, source=COUNTS, inserted=3, updated=2, deleted=2)


def claim(start: int = 4, end: int = 900) -> Claim:
    places = EntryPosition("bin.000001", start), EntryPosition("bin.000001", end)
    return Claim("d", 1, 7, *places, (), 2, 3, 4, (), 1, "me", 0.0)


def test_a_key_that_met_two_rows_fails() -> None:
    """More rows touched than keys: the table has a key twice."""
    assert key_unique(claim(), TableResult(DECISION, FINE)).passed
    verdict = key_unique(claim(), TableResult(replace(DECISION, table="s.u"), replace(FINE, updated=3)))
    assert not verdict.passed
    assert (verdict.table, verdict.text) == ("s.u", "5 keys matched 6 rows")


def test_more_rows_deleted_than_keys_block_the_table() -> None:
    """A key was there twice."""
    verdict = key_unique(claim(), TableResult(DECISION, replace(FINE, deleted=3)))
    assert verdict.blocks
    assert verdict.text == "3 rows were deleted for 2 deleted keys"


@pytest.mark.parametrize(
    ("inserted", "deleted", "met", "missed"),
    [(3, 2, 0, 0), (1, 2, 2, 0), (4, 2, 0, 1), (3, 0, 0, 2), (2, 1, 1, 1)],
)
def test_rows_that_were_not_as_presumed_are_a_warning(inserted: int, deleted: int, met: int, missed: int) -> None:
    """Inserts that met a row, updates and deletes that found none: counted, and the table goes on."""
    odd = replace(FINE, inserted=inserted, updated=5 - inserted, deleted=deleted)
    verdict = rows_add_up(claim(), TableResult(DECISION, odd))
    assert (verdict.figures["inserts_met"], verdict.figures["changes_missed"]) == (met, missed)
    assert verdict.passed == (met == missed == 0)
    assert not verdict.blocks
    assert rows_add_up(claim(), TableResult(DECISION, replace(odd, recurring=True))).passed


def test_copies_that_do_not_add_up_block_the_table() -> None:
    """Without a key, a difference cannot be mended."""
    rows = replace(FINE, source=SourceCounts(inserts=2, deletes=2), inserted=3, deleted=1)
    verdict = rows_add_up(claim(), TableResult(replace(DECISION, keyed=False), rows))
    assert verdict.blocks
    assert verdict.text == "grew by 2 rows in the lake, by 0 at the source"


def test_commits_of_before_the_counts_are_judged_by_their_sum() -> None:
    """The notes of an earlier version have neither `gained` nor `lost`."""
    old = replace(FINE, source=SourceCounts(inserts=1, deletes=1, upserts=5, net_deletes=2), inserted=3)
    assert rows_add_up(claim(), TableResult(DECISION, old)).figures["changes_missed"] == 1


def test_positions_go_forward() -> None:
    """A table that is not at its batch's end fails; a replay proves nothing and passes."""
    back = replace(FINE, after=END)
    assert position_monotone(claim(), TableResult(DECISION, FINE)).passed
    assert position_monotone(claim(), TableResult(DECISION, back)).blocks
    assert position_monotone(claim(), TableResult(DECISION, replace(FINE, end=END - 1))).blocks
    assert position_monotone(claim(), TableResult(replace(DECISION, after=END))).passed


def test_a_table_that_contradicts_its_changes_is_parked_alone() -> None:
    """Its copy is the remedy, and the other tables of the batch stay applied."""
    good, bad = TableResult(DECISION, FINE), TableResult(replace(DECISION, table="s.u"), replace(FINE, updated=3))
    refused = Refusal("s.v", TableStopped("no", hint="no"))
    batch, verdicts = gate(claim(), BatchResult((good, bad), (refused,)))
    assert batch.applied == (good,)
    assert [(one.table, one.copy_needed) for one in batch.refused] == [("s.v", False), ("s.u", True)]
    assert "5 keys matched 6 rows" in batch.refused[1].error.message
    assert "`sluice copy d s.u`" in batch.refused[1].error.hint
    assert len(verdicts) == 6


def test_what_an_earlier_try_committed_is_judged_with_it() -> None:
    """A bad commit stays bad when the claim comes again; one that the log has no more cannot pass."""
    replayed = TableResult(replace(DECISION, after=END), earlier=Earlier((replace(FINE, updated=3),)))
    assert not key_unique(claim(), replayed).passed
    lost = TableResult(replace(DECISION, after=END), earlier=Earlier(unjudged="the log is gone"))
    assert position_monotone(claim(), lost).text == "the log is gone"
