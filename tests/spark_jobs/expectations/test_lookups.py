"""Expectations that look rows up, where the rows of a table cannot be read."""

from __future__ import annotations

import pyarrow as pa
import pytest

from cdc_core.errors import LakeError
from spark_jobs.changes.net import GONE
from spark_jobs.expectations.expectation import Expectation, References, Severity
from spark_jobs.expectations.lookups import LookedUp, look_up
from spark_jobs.expectations.row_judge import RowJudge

PARENT = Expectation("parent", References("shop.users"), ("user",), Severity.BLOCK)


def looked_up(error: Exception) -> RowJudge:
    """Evaluates a row whose parent's table cannot be opened."""

    def opened(_: str) -> LookedUp:
        raise error

    judge = RowJudge((PARENT,), ("id",), 10)
    judge.add(pa.table({"id": [1], "user": [7], GONE: [False]}))
    look_up({"shop.orders": judge}, opened, lambda _: judge.blocks)
    return judge


@pytest.mark.parametrize(
    "error",
    [
        OSError("Kernel error -> Generic S3 error  Error performing GET http://host: Connection refused"),
        Exception("Object Store error: Generic S3 error: Error performing GET http://host: 503 Service Unavailable"),
    ],
    ids=["refused", "busy"],
)
def test_a_store_that_fails_blocks_no_table(error: Exception) -> None:
    """The run fails and comes again; a table that is blocked waits for a person."""
    with pytest.raises(LakeError, match=r"the rows of shop\.users cannot be read"):
        looked_up(error)


def test_a_damaged_table_blocks_those_that_look_it_up() -> None:
    """It would fail each time."""
    judge = looked_up(Exception("Parquet error: Invalid Parquet file. Corrupt footer"))
    assert (
        judge.blocking[0].why
        == "the rows of shop.users cannot be read: Parquet error: Invalid Parquet file. Corrupt footer"
    )
