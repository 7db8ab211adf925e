"""Which rows may come again after a rewind, and where that is sure."""

from __future__ import annotations

import pytest

from spark_jobs.checks import TableResult, rows_add_up
from spark_jobs.epochs import again, covered


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
