"""Which rows may come again after a rewind, and where that is sure."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cdc_core.position import EntryPosition
from cdc_core.session.claim import Claim
from spark_jobs.checks import TableResult, rows_add_up
from spark_jobs.epochs import again, covered, over


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
    assert covered(start, end, stretches) is sure


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
    """Those after which every one began seamlessly, with the table where the cursor was or before it."""
    claim = replace(claimed_range(), epoch=epoch, seamless=tuple(seamless.items()))
    assert over(claim, applied) == found


def claimed_range() -> Claim:
    at = EntryPosition("mysql-bin.000001", 4)
    return Claim("shop", 1001, 1, at, at, (), 0, 0, 0, (), 0, "test", 0.0)


def test_a_claim_keeps_its_epochs_on_the_wire() -> None:
    """As JSON has them: lists of lists."""
    claim = replace(claimed_range(), epoch=2, moved=2, seamless=((1, 5), (2, 9)))
    assert Claim.from_dict(json.loads(json.dumps(claim.to_dict()))) == claim
    assert Claim.from_dict({k: v for k, v in claimed_range().to_dict().items() if k != "seamless"}).seamless == ()


def test_rows_beyond_the_old_epoch_do_not_come_again() -> None:
    """Counted from where the table is in this epoch, or from the claim's start."""
    assert not again(None, None, 4)
    assert again(9, None, 4)
    assert not again(9, None, 9)
    assert not again(9, 9, 4)


def test_exact_arithmetic_rests_while_rows_come_again() -> None:
    """An insert that met its row is no error then, and one before and after."""
    met = TableResult("t", complete=True, inserts=2, upserts=2, inserted=1, updated=1)
    assert not rows_add_up([met]).passed
    assert rows_add_up(
        [TableResult("t", complete=True, again=True, inserts=2, upserts=2, inserted=1, updated=1)]
    ).passed
