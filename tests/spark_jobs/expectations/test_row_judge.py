"""The results of a table's expectations over rows that come in parts."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_jobs.changes.net import GONE
from spark_jobs.expectations.column_tests import Bounded, NotNull
from spark_jobs.expectations.expectation import Expectation, Severity
from spark_jobs.expectations.results import ExpectationResult, summed
from spark_jobs.expectations.row_judge import CHECK, REASON, RowJudge

SMALL = Expectation("small", Bounded(0, 9), ("n",), Severity.QUARANTINE)
SOME = Expectation("some", NotNull(), ("what",), Severity.QUARANTINE)
KNOWN = Expectation("known", NotNull(), ("what",))


def rows(*made: tuple[int, int | None, str | None, bool]) -> pa.Table:
    schema = pa.schema({"id": pa.int64(), "n": pa.int32(), "what": pa.string(), GONE: pa.bool_()})
    return pa.table([pa.array([row[i] for row in made], field.type) for i, field in enumerate(schema)], schema=schema)


def test_rows_of_parts_are_summed() -> None:
    """Rows that are gone are not evaluated; a row that fails twice goes to the quarantine once, with both reasons."""
    judge = RowJudge((SMALL, SOME, KNOWN), ("id",), 100)
    judge.add(rows((1, 5, "a", False), (2, 50, None, False), (3, None, None, True)))
    judge.add(rows((4, 60, "b", False), (5, None, "c", False)))
    assert [(one.rows, one.bad, one.keys) for one in judge.results.values()] == [
        (4, 2, ("id=2", "id=4")),
        (4, 1, ("id=2",)),
        (4, 1, ("id=2",)),
    ]
    assert judge.failed is not None
    assert judge.failed.sort_by("id").to_pylist() == [
        {"id": 2, CHECK: "small, some", REASON: "n is below 0 or above 9; what is NULL"},
        {"id": 4, CHECK: "small", REASON: "n is below 0 or above 9"},
    ]
    assert not judge.blocks


def test_keys_that_wait_end_when_they_come() -> None:
    """Whatever became of their rows; others wait on."""
    waiting = pa.table({"id": pa.array([2, 3, 9], pa.int64())})
    judge = RowJudge((SMALL,), ("id",), 100, waiting)
    assert judge.ended is None
    judge.add(rows((1, 5, "a", False), (2, 50, None, False)))
    judge.add(rows((3, None, None, True)))
    assert judge.ended is not None
    assert judge.ended["id"].to_pylist() == [2, 3]


def test_more_rows_than_a_quarantine_takes_block() -> None:
    """Their keys are not held."""
    judge = RowJudge((SMALL,), ("id",), 3)
    judge.add(rows(*((key, 50, "a", False) for key in range(3))))
    assert not judge.blocks
    judge.add(rows(*((key, 50, "a", False) for key in range(3, 9))))
    judge.add(rows(*((key, 50, "a", False) for key in range(9, 12))))
    assert judge.blocks
    assert judge.results["small"].bad == 12
    assert [one.name for one in judge.blocking] == ["small"]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["fails first", "ends first"])
def test_the_order_of_rows_blocks_nothing(order: tuple[int, int]) -> None:
    """Rows that wait and that later rows of the batch end do not count."""
    waiting = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
    judge = RowJudge((SMALL,), ("id",), 3, waiting)
    parts = rows((9, 50, "a", False)), rows(*((key, 5, "a", False) for key in (1, 2)))
    for at in order:
        judge.add(parts[at])
    judge.end_of_rows()
    assert not judge.blocks
    judge.add(rows(*((key, 50, "a", False) for key in (10, 11))))
    assert judge.blocks


def test_what_cannot_be_evaluated_stops_unless_it_warns() -> None:
    """A block and a quarantine alike."""
    for severity in Severity:
        one = Expectation("some", NotNull(), ("what",), severity)
        judge = RowJudge((one,), ("id",), 3)
        judge.give_up(one, "a reason")
        assert judge.blocks is (severity is not Severity.WARN)
        assert not judge.results["some"].passed


def test_results_of_one_batch_are_summed() -> None:
    """Of two commits: rows that wait are those of the last one."""
    first = ExpectationResult("small", Severity.QUARANTINE, 5, 2, ("id=1", "id=2"), waiting=2)
    second = ExpectationResult("small", Severity.QUARANTINE, 3, 1, ("id=2", "id=3"), waiting=1)
    (one,) = summed([first, second])
    assert (one.rows, one.bad, one.keys, one.waiting) == (8, 3, ("id=1", "id=2", "id=3"), 1)
    assert ExpectationResult.of("small", one.to_dict()) == one
