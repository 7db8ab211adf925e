"""Columns of another type: values, types, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from cdc_core.errors import DecodeError, SchemaError
from cdc_core.rows.columns.batch import arrow_type, decode
from cdc_core.rules.table_rule import TableRule
from cdc_core.schema.column_rule import Cast, ColumnRule, Mask, MaskKind
from cdc_core.schema.table import Column, TableSchema

TINY = Column("active", 1, 0, column_type="tinyint(1)")
BIG = Column("big", 8, 0, unsigned=True)
ENUM = Column("kind", 247, 1, charset=255, labels=("a", "é", "c"))
BIT = Column("flag", 16, 1)
ALL = tuple(Cast)


def seen(*columns: Column, rule: TableRule | None = None, key: tuple[str, ...] = ()) -> TableSchema:
    return (rule or TableRule(casts=ALL)).view(TableSchema("shop", "t", columns, key))


def decoded(schema: TableSchema, *values: bytes | None) -> pa.Array:
    """One column of values as they stand in a row image."""
    at, starts = 0, []
    for value in values:
        starts.append(-1 if value is None else at)
        at += len(value or b"")
    data = np.frombuffer(b"".join(value or b"" for value in values) + bytes(8), np.uint8)
    batch = decode(schema, data, np.array([starts], np.int64))
    batch.validate(full=True)
    assert batch.schema.field(0).type == arrow_type(schema.columns[0])
    return batch.column(0)


@pytest.mark.parametrize(
    ("column", "values", "kind", "there"),
    [
        (TINY, [b"\x00", b"\x01", b"\xff", b"\x02", None], pa.bool_(), [False, True, True, True, None]),
        (BIG, [b"\xff" * 7 + b"\x7f", bytes(8), None], pa.int64(), [2**63 - 1, 0, None]),
        (ENUM, [b"\x01", b"\x02", b"\x03", b"\x00", None], pa.int32(), [1, 2, 3, 0, None]),
        (BIT, [b"\x01", b"\x00", None], pa.int8(), [1, 0, None]),
    ],
)
def test_values_have_the_type_of_their_rule(
    column: Column, values: list[bytes | None], kind: pa.DataType, there: list[object]
) -> None:
    """All of a type's edges, and NULL."""
    schema = seen(column)
    assert arrow_type(schema.columns[0]) == kind
    assert decoded(schema, *values).to_pylist() == there
    plain = decoded(TableSchema("shop", "t", (column,)), *values)
    assert plain.null_count == there.count(None)


@pytest.mark.parametrize(
    "column",
    [
        replace(TINY, column_type="tinyint(4)"),
        replace(TINY, unsigned=True, column_type="tinyint(1) unsigned"),
        replace(BIG, unsigned=False),
        Column("s", 3, 0),
        replace(BIT, meta=2),
    ],
)
def test_other_columns_are_as_they_were(column: Column) -> None:
    """A wider or unsigned TINYINT, a signed BIGINT, an INT, a BIT of two."""
    assert seen(column).columns == (column,)


def test_a_number_beyond_bigint_stops_its_table() -> None:
    """The error names the row."""
    with pytest.raises(DecodeError, match="a number beyond BIGINT") as caught:
        decoded(seen(BIG), bytes(8), b"\xff" * 8)
    assert "row image 1" in caught.value.message


def test_an_empty_label_is_not_numbered() -> None:
    """Its text is that of an invalid value, whose number is 0."""
    with pytest.raises(SchemaError, match="empty label"):
        arrow_type(seen(replace(ENUM, labels=("a", ""))).columns[0])


@pytest.mark.parametrize("key", [(), ("active",)])
def test_a_declared_type_that_is_not_known_is_not_guessed(key: tuple[str, ...]) -> None:
    """An event does not have it; the catalogue may be closed."""
    defect = seen(replace(TINY, column_type=""), key=key).defect
    assert defect is not None
    assert "the declared type of 'active' is not known" in defect.reason


def test_a_boolean_tells_no_keys_apart() -> None:
    """A number of a label does."""
    defect = seen(TINY, key=("active",)).defect
    assert defect is not None
    assert "makes 'active', a column of the key, a boolean" in defect.reason
    assert seen(ENUM, BIG, key=("kind", "big")).defect is None


def test_a_mask_is_over_the_new_type() -> None:
    """A constant is one of the new type too."""
    mask = Mask(MaskKind.CONSTANT, constant="2")
    schema = seen(ENUM, rule=TableRule(masks=(("kind", mask),), casts=ALL))
    assert schema.columns[0].rule == ColumnRule("kind", mask=mask, cast=Cast.ENUM)
    assert decoded(schema, b"\x01", None).to_pylist() == [2, None]


def test_only_changed_values_cannot_be_compared_by_the_server() -> None:
    """A BIGINT is the same number as before."""
    columns = seen(TINY, BIG, ENUM, BIT).columns
    assert [column.changes_values for column in columns] == [True, False, True, True]
