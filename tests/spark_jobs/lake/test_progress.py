"""spark_jobs.lake.progress: what a table has, and which rows may come again after a rewind."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cdc_core.contract.claim import Claim
from cdc_core.errors import TableStopped
from cdc_core.position import EntryPosition
from spark_jobs.apply.checks import rows_add_up
from spark_jobs.apply.commits import Commit, SourceCounts
from spark_jobs.apply.decision import Decision
from spark_jobs.apply.result import TableResult
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.progress import ALWAYS, Epoch, Range, TableProgress, is_covered
from spark_jobs.lake.record import COPIED, FOLLOWED, CopyNote, begun_properties
from spark_jobs.lake.state import TableState
from spark_jobs.lake.tables import Lake


@pytest.mark.parametrize(
    ("start", "end", "stretches", "sure"),
    [
        (4, 9, [(4, 9)], True),
        (3, 9, [(4, 9)], False),
        (4, 20, [(4, 9), (9, 20)], True),
        (4, 20, [(8, 20), (4, 9)], True),
        (4, 20, [(4, 9), (10, 20)], False),
        (12, 20, [(4, 9), (10, 20)], True),
        (4, 9, [], False),
    ],
)
def test_stretches_reach_without_a_gap(start: int, end: int, stretches: list[tuple[int, int]], sure: bool) -> None:
    """In any order."""
    assert is_covered(start, end, stretches) is sure


@pytest.mark.parametrize(
    ("epoch", "seamless", "applied", "found"),
    [
        (0, {}, {}, set()),
        (2, {}, {0: 9}, set()),
        (1, {1: 9}, {0: 9}, {0}),
        (1, {1: 9}, {0: 10}, set()),
        (1, {1: 9}, {}, {0}),
        (3, {2: 9, 3: 4}, {0: 1, 1: 9, 2: 4}, {1, 2}),
        (3, {2: 9, 3: 4}, {1: 9, 2: 5}, {1}),
        (3, {1: 9, 3: 4}, {0: 9, 2: 4}, {2}),
        (4, {1: 9, 2: 3}, {0: 9, 1: 3}, set()),
    ],
)
def test_epochs_of_which_nothing_comes_again(
    epoch: int, seamless: dict[int, int], applied: dict[int, int], found: set[int]
) -> None:
    """Those after which each epoch began seamlessly, with the table at the cursor or before it."""
    assert Epoch(epoch, seamless=tuple(seamless.items())).unrepeated(applied) == found


@pytest.mark.parametrize(
    ("epoch", "moved", "followed", "copied", "expected"),
    [
        (2, 0, "1:50", None, 50),
        (2, 0, "2:50", None, None),
        (2, 0, "", (1, 70), 70),
        (2, 0, "1:50", (1, 70), 70),
        (2, 0, "1:90", (1, 70), 90),
        (3, 0, "1:90", (2, 70), 70),
        (2, 0, "2:50", (1, 70), 70),
        (2, 0, "", (2, 70), None),
        (2, 2, "1:50", (1, 70), None),
    ],
)
def test_a_table_has_what_an_earlier_epoch_followed_or_copied(
    epoch: int, moved: int, followed: str, copied: tuple[int, int] | None, expected: int | None
) -> None:
    """Statements up to there come to nothing when they come again, unless that epoch was another server's."""
    properties = {FOLLOWED: followed} if followed else {}
    if copied:
        properties[COPIED] = CopyNote(copied[0], copied[1], copied[1]).to_json()
    progress = TableProgress(Ledger(Lake("/nowhere"), "d", 1), "shop.t", TableState(3, None, (), properties), {}, True)
    assert progress.inherited(Epoch(epoch, moved)) == expected
    assert progress.after(Epoch(epoch, moved)) == expected


def progress(ends: dict[int, int], keyed: bool, copied: CopyNote | None = None) -> TableProgress:
    """Of a table whose ledger has nothing."""
    properties = {COPIED: copied.to_json()} if copied else {}
    return TableProgress(Ledger(Lake("/nowhere"), "d", 1), "shop.t", TableState(3, None, (), properties), ends, keyed)


@pytest.mark.parametrize(
    ("ends", "moved", "start", "with_key", "without"),
    [
        ({}, 0, 10, None, None),
        ({1: 50}, 0, 10, None, None),
        ({0: 50}, 0, 50, 50, 50),
        ({0: 50, 1: 30}, 0, 60, 50, 50),
        ({0: 50}, 0, 10, 50, "unknown which of the repeated rows"),
        ({0: 50}, 1, 60, ALWAYS, "moved to another server"),
    ],
)
def test_rows_of_earlier_epochs_come_again(
    ends: dict[int, int], moved: int, start: int, with_key: int | None, without: int | str | None
) -> None:
    """Without a key it must be certain up to where."""
    wanted = Range(Epoch(1, moved), start, 90)
    assert progress(ends, keyed=True).repeats(wanted) == with_key
    if isinstance(without, str):
        with pytest.raises(TableStopped, match=without):
            progress(ends, keyed=False).repeats(wanted)
    else:
        assert progress(ends, keyed=False).repeats(wanted) == without


def test_a_copy_ends_earlier_epochs_and_repeats_its_own() -> None:
    """Rows up to where it was read come again, also without a key; what it brought has no gap."""
    copied = CopyNote(1, 40, 60)
    for keyed in (True, False):
        there = progress({0: 90, 1: 40}, keyed, copied)
        assert there.repeats(Range(Epoch(1), 40, 80)) == 60
        assert there.repeats(Range(Epoch(2), 5, 80)) == 60
        assert (there.end(0), there.end(1), there.end(2)) == (ALWAYS, 40, 0)


@pytest.mark.parametrize("keyed", [True, False])
def test_a_statement_ends_earlier_epochs(keyed: bool) -> None:
    """One after which nothing of before counts, as CREATE: those of another server too. What came since has no gap."""
    there = replace(progress({0: 90, 1: 80}, keyed), state=TableState(3, None, (), begun_properties((1, 40))))
    assert there.repeats(Range(Epoch(1, moved=1), 40, 99)) is None
    assert there.repeats(Range(Epoch(2, moved=1), 5, 99)) == 80
    assert (there.after(Epoch(1, moved=1)), there.after(Epoch(2, moved=1))) == (80, 40)
    if not keyed:
        with pytest.raises(TableStopped, match="moved to another server"):
            there.repeats(Range(Epoch(2, moved=2), 5, 99))


def test_a_copy_after_a_statement_counts_in_its_place() -> None:
    """The later of the two is what the table begins with."""
    copied = CopyNote(1, 50, 60)
    for begun, base in (((1, 40), copied), ((1, 70), CopyNote(1, 70, 70)), ((0, 99), copied)):
        properties = {**begun_properties(begun), COPIED: copied.to_json()}
        assert TableState(3, None, (), properties).base == base


@pytest.mark.parametrize(("keyed", "end", "has"), [(True, 30, True), (True, 31, False), (False, 50, True)])
def test_a_table_has_what_it_wrote_or_leaves_out(keyed: bool, end: int, has: bool) -> None:
    """Without a key, what earlier epochs brought is left out of this one, so that it has that too."""
    assert progress({0: 50, 1: 30}, keyed).has(Range(Epoch(1), 50, end)) is has


def claimed_range() -> Claim:
    at = EntryPosition("mysql-bin.000001", 4)
    return Claim("shop", 1001, 1, at, at, (), 0, 0, 0, (), 0, "test", 0.0)


def test_a_claim_keeps_its_epochs_on_the_wire() -> None:
    """As JSON has them: lists of lists."""
    claim = replace(claimed_range(), epoch=2, moved=2, seamless=((1, 5), (2, 9)))
    assert Claim.from_dict(json.loads(json.dumps(claim.to_dict()))) == claim
    assert Claim.from_dict({k: v for k, v in claimed_range().to_dict().items() if k != "seamless"}).seamless == ()


def test_rows_beyond_the_old_epoch_do_not_come_again() -> None:
    """Counted from where the table is in this epoch, or from the start of the claim."""
    assert not Decision("t", 20).may_recur(None, 4)
    decision = Decision("t", 20, recurs_to=9)
    assert decision.may_recur(None, 4)
    assert not decision.may_recur(None, 9)
    assert not decision.may_recur(9, 4)


def test_nothing_is_presumed_while_rows_come_again() -> None:
    """An insert that met its row is no warning then; it is one before and after."""
    decision, counts = Decision("t", 20), SourceCounts(inserts=2, upserts=2)
    met = Commit(20, source=counts, inserted=1, updated=1)
    assert not rows_add_up(claimed_range(), TableResult(decision, met)).passed
    assert rows_add_up(claimed_range(), TableResult(decision, replace(met, recurring=True))).passed
