"""Results behind rules: the values that the same rules make of the plain result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from cdc_core.errors import DecodeError, SchemaError
from cdc_core.rows.columns.masks import masked
from cdc_core.rules.table_rule import TableRule
from cdc_core.schema.column_rule import Cast, Mask, MaskKind, Salt, ZeroDates
from cdc_core.schema.table import TableSchema
from spark_jobs.snapshot.resultset.answers import widths
from spark_jobs.snapshot.resultset.columns import decode
from spark_jobs.snapshot.resultset.packets import Packets
from spark_jobs.snapshot.resultset.question import question
from spark_jobs.snapshot.resultset.statement import answers
from tests.support import result_packets as written
from tests.support.result_rows import stream, tables

HASH = Mask(MaskKind.SHA256, salt=Salt("SALT").filled(b"pepper"))


def read(
    schema: TableSchema, kinds: Sequence[str], rows: Sequence[Sequence[Any]], zero_dates: ZeroDates = "fail"
) -> pa.RecordBatch:
    """One batch of the answer that the server gives for the columns of these kinds."""
    packets = Packets(written.pieces(stream(kinds, rows, written.eof()), []), 1 << 16)
    wide = widths(schema, answers(packets, deprecate_eof=False))
    starts = np.empty((len(kinds), max(1, len(rows))), np.int64)
    count, _ = packets.rows(wide, starts)
    batch = decode(schema, packets.data, starts[:, :count], wide, zero_dates=zero_dates)
    batch.validate(full=True)
    return batch


@settings(max_examples=60, deadline=None)
@given(tables())
def test_each_value_is_masked(table: tuple[list[str], list[list[Any]]]) -> None:
    """Of every type. The excluded first column is not asked for."""
    kinds, rows = table
    schema = written.schema_of(["int", *kinds])
    rule = TableRule(exclude=("c0",), masks=tuple((column.name, HASH) for column in schema.columns[1:]))
    seen = rule.view(schema)
    plain = replace(seen, columns=tuple(replace(column, rule=None) for column in seen.columns))

    found, values = read(seen, kinds, rows), read(plain, kinds, rows)

    assert found.schema.types == [pa.string()] * len(kinds)
    for column, hashed, value in zip(seen.shown, found.columns, values.columns, strict=True):
        assert hashed.equals(masked(column, value))
        assert hashed.null_count == value.null_count


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_a_datetime_is_the_instant_that_the_stream_has(zone: str) -> None:
    """A copy and the binlog meet in one table: by the decoder of either, times that a zone does not have too."""
    moments = [datetime(2024, 7, 1, 8, 30, 0, 5), None, datetime(2024, 1, 1), datetime(2024, 3, 10, 2, 30)]
    seen = TableRule(casts=(Cast.DATETIME_TIMESTAMP,), zone=zone).view(written.schema_of(["datetime"]))
    there = [one.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC) if one else None for one in moments]
    if zone != "UTC":
        with pytest.raises(
            DecodeError, match="a local time that does not exist in America/New_York, 2024-03-10 02:30:00"
        ):
            read(seen, ["datetime"], [[one] for one in moments])
        there[-1] = None

    found = read(seen, ["datetime"], [[one] for one in moments], zero_dates="null")

    assert found.schema.types == [pa.timestamp("us", "UTC")]
    assert found.column(0).to_pylist() == there


def test_a_datetime_is_the_text_of_the_server() -> None:
    """In the same SELECT as a date, which is a date."""
    plain = written.schema_of(["datetime", "date"])
    seen = TableRule(casts=(Cast.DATETIME_STRING,)).view(plain)

    found = read(seen, ["datetime", "date"], [[datetime(2024, 3, 31, 2, 30), date(2024, 1, 1)], [None, None]])

    assert found.to_pydict() == {"c0": ["2024-03-31 02:30:00.000000", None], "c1": [date(2024, 1, 1), None]}
    assert question(seen) == question(plain)


def test_an_error_does_not_show_a_masked_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that are no text are refused without them."""
    schema = TableRule(masks=(("c0", HASH),)).view(written.schema_of(["text"]))
    as_bytes = replace(written.KINDS["text"], write=written.length_encoded)
    monkeypatch.setitem(written.KINDS, "text", as_bytes)

    with pytest.raises(DecodeError) as caught:
        read(schema, ["text"], [[b"secret\xff"]])

    assert "masked" in caught.value.message
    assert b"sec".hex(" ") not in str(caught.value)


def test_rows_that_do_not_meet_the_condition_are_left_out() -> None:
    """It asks the source's names; a column that is not read cannot be asked."""
    schema = written.schema_of(["int", "text"])
    seen = TableRule(rename=(("c0", "n"),), where="C0 > 1 AND c1 LIKE '_x'").view(schema)
    rows = [[1, "ax"], [2, "bx"], [3, "b"], [4, None], [None, "cx"], [5, "éx"]]

    assert read(seen, ["int", "text"], rows).to_pylist() == [{"n": 2, "c1": "bx"}, {"n": 5, "c1": "éx"}]
    assert read(seen, ["int", "text"], []).num_rows == 0
    with pytest.raises(SchemaError, match="its condition asks 'c1', which is not read"):
        read(replace(seen, columns=seen.columns[:1]), ["int"], [[2]])


def test_columns_are_computed_of_the_rows_that_are_kept() -> None:
    """They are not asked of the server. A row that does not meet the condition may have no value."""
    schema = written.schema_of(["int", "text", "datetime"])
    computed = (("n2", "c0 * 2"), ("number", "CAST(c1 AS SIGNED)"), ("month", "DATE_FORMAT(c2, '%Y-%m')"))
    seen = TableRule(rename=(("c0", "n"),), where="C0 > 1", computed=computed).view(schema)
    kinds, moment = ["int", "text", "datetime"], datetime(2024, 1, 31, 8, 30)

    found = read(seen, kinds, [[1, "x", moment], [2, "7", moment], [3, None, None]])

    assert question(seen) == question(schema)
    assert [list(row.values())[3:] for row in found.to_pylist()] == [[4, 7, "2024-01"], [6, None, None]]
    assert found.schema.names == ["n", "c1", "c2", "n2", "number", "month"]
    with pytest.raises(DecodeError, match=r"db\.t\.number, row 1: the expression"):
        read(seen, kinds, [[2, "7", moment], [3, "x", moment]])
    with pytest.raises(SchemaError, match="'number' is computed from 'c1', which is not read"):
        read(replace(seen, columns=(seen.columns[0], *seen.columns[3:])), ["int"], [[2]])
