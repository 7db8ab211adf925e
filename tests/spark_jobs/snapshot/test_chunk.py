"""The conditions of chunks, without a server."""

from __future__ import annotations

import pytest

from cdc_core.schema.column_type import ColumnType
from cdc_core.schema.table import Column, TableSchema
from spark_jobs.snapshot.chunk import Chunk, at, where


def table(*key: str) -> TableSchema:
    return TableSchema("shop", "t", tuple(Column(name, ColumnType.LONG, 0) for name in key), key)


@pytest.mark.parametrize(
    ("chunk", "expected"),
    [
        (Chunk(0), ""),
        (Chunk(0, None, ("5",)), "`a` <= 5"),
        (Chunk(1, ("5",), ("9",)), "`a` > 5 AND `a` <= 9"),
        (Chunk(2, ("9",)), "`a` > 9"),
    ],
)
def test_a_chunk_of_a_key_of_one_column_is_a_range(chunk: Chunk, expected: str) -> None:
    """After the low key, up to and with the high one."""
    assert where(table("a"), chunk) == expected


@pytest.mark.parametrize(
    ("chunk", "expected"),
    [
        (Chunk(0, None, ("1", "2")), "`a` <= 1 AND (`a` < 1 OR (`a` = 1 AND `b``c` <= 2))"),
        (Chunk(1, ("1", "2")), "`a` >= 1 AND (`a` > 1 OR (`a` = 1 AND `b``c` > 2))"),
        (Chunk(2, ("1", "2"), ("1", "7")), "`a` = 1 AND `b``c` > 2 AND `b``c` <= 7"),
        (
            Chunk(3, ("1", "2"), ("3", "4")),
            "`a` >= 1 AND (`a` > 1 OR (`a` = 1 AND `b``c` > 2)) AND "
            "`a` <= 3 AND (`a` < 3 OR (`a` = 3 AND `b``c` <= 4))",
        ),
    ],
)
def test_a_chunk_of_a_key_of_two_columns_is_written_out(chunk: Chunk, expected: str) -> None:
    """What both bounds share stands before the ranges, so that the optimizer sees them."""
    assert where(table("a", "b`c"), chunk) == expected


def test_a_key_names_one_row() -> None:
    """By all of its columns."""
    assert at(table("a", "b"), ("1", "X'00'")) == "`a` = 1 AND `b` = X'00'"
