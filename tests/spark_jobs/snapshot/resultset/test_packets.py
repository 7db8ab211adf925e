"""Packets of a result, however they arrive, against what plain Python wrote into them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pymysql
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc_core.errors import DecodeError, SchemaError
from spark_jobs.snapshot.resultset.answers import widths
from spark_jobs.snapshot.resultset.columns import decode
from spark_jobs.snapshot.resultset.packets import Packets
from spark_jobs.snapshot.resultset.statement import answers
from tests.support import result_packets as written
from tests.support.result_rows import TIME, TOP, VALUES, stream, tables


def read(
    kinds: Sequence[str],
    receive: Callable[[memoryview], int],
    *,
    size: int = 1 << 10,
    rows: int = 7,
    deprecate_eof: bool = False,
) -> Iterator[list[list[Any]]]:
    """The rows, a batch at a time."""
    schema = written.schema_of(kinds)
    packets = Packets(receive, size)
    wide = widths(schema, answers(packets, deprecate_eof=deprecate_eof))
    starts, more = np.empty((len(kinds), rows), np.int64), True
    while more:
        count, more = packets.rows(wide, starts)
        batch = decode(schema, packets.data, starts[:, :count], wide)
        batch.validate(full=True)
        yield [list(values) for values in zip(*(column.to_pylist() for column in batch.columns), strict=True)]


def listed(rows: Sequence[Sequence[Any]], kinds: Sequence[str]) -> list[list[Any]]:
    return [[written.shown(kind, value) for kind, value in zip(kinds, values, strict=True)] for values in rows]


@settings(max_examples=150, deadline=None)
@given(
    tables(),
    st.lists(st.integers(1, 90), max_size=60),
    st.integers(64, 3000),
    st.integers(1, 9),
    st.booleans(),
)
def test_rows_are_the_same_however_their_bytes_arrive(
    table: tuple[list[str], list[list[Any]]], cuts: list[int], size: int, rows: int, deprecate_eof: bool
) -> None:
    """Any split of the stream, any buffer, any number of rows a batch, with EOF packets and without."""
    kinds, values = table
    sent = stream(kinds, values, written.ok() if deprecate_eof else written.eof(), deprecate_eof=deprecate_eof)
    batches = list(read(kinds, written.pieces(sent, cuts), size=size, rows=rows, deprecate_eof=deprecate_eof))
    assert [row for batch in batches for row in batch] == listed(values, kinds)
    assert all(len(batch) <= rows for batch in batches)


@pytest.mark.parametrize("size", [0xFFFFFF - 20, 0xFFFFFF - 7, 0xFFFFFF - 6, 0xFFFFFF, 2 * 0xFFFFFF - 14, 40_000_000])
def test_a_row_may_span_packets(size: int) -> None:
    """Also where a packet ends with the row; memory is given back after it."""
    kinds = ["bytes", "int"]
    values = [[b"a", 1], [b"\xfe" * size, 2], [b"b", 3], [b"c", 4]]
    schema = written.schema_of(kinds)
    packets = Packets(written.pieces(stream(kinds, values, written.eof()), [9000] * 3), 1 << 20)
    wide, starts = widths(schema, answers(packets, deprecate_eof=False)), np.empty((2, 100), np.int64)
    found, more, sizes = [], True, []
    while more:
        count, more = packets.rows(wide, starts)
        batch = decode(schema, packets.data, starts[:, :count], wide)
        found += list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
        sizes.append(packets.data.size)
    assert found == [tuple(row) for row in values]
    assert max(sizes) <= size + 0xFFFFFF + (2 << 20)


def test_the_buffer_is_small_again_after_a_large_row() -> None:
    """A row of 20 MB, then many small ones."""
    kinds = ["bytes"]
    values = [[b"x" * 20_000_000], *([b"y" * 100] for _ in range(20_000))]
    schema = written.schema_of(kinds)
    packets = Packets(written.pieces(stream(kinds, values, written.eof()), []), 1 << 18)
    wide, starts, more = widths(schema, answers(packets, deprecate_eof=False)), np.empty((1, 500), np.int64), True
    seen = 0
    while more:
        count, more = packets.rows(wide, starts)
        seen += count
    assert seen == len(values)
    assert packets.data.size == 1 << 18


def test_an_error_in_the_middle_comes_after_the_rows_before_it() -> None:
    """The server's own error, with its number."""
    kinds = ["int"]
    sent = stream(kinds, [[1], [2]], written.error(1317, "Query execution was interrupted"))
    batches = read(kinds, written.pieces(sent, []))
    assert next(batches) == [[1], [2]]
    with pytest.raises(pymysql.err.OperationalError, match="interrupted") as caught:
        next(batches)
    assert caught.value.args[0] == 1317


def test_an_error_before_the_columns_is_raised() -> None:
    """In place of the number of columns."""
    packets = Packets(written.pieces(written.packets([written.error(1146, "no such table")]), []), 1 << 10)
    with pytest.raises(pymysql.err.ProgrammingError, match="no such table"):
        answers(packets, deprecate_eof=False)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_an_end_of_the_connection_is_no_end_of_the_rows(data: st.DataObject) -> None:
    """Cut anywhere, the reading fails."""
    kinds = ["int", "text", "date"]
    sent = stream(kinds, [[1, "a", date(2024, 5, 6)], [2, "b" * 300, None]], written.eof())
    cut = data.draw(st.integers(0, len(sent) - 1))
    with pytest.raises(pymysql.err.OperationalError, match="closed the connection"):
        list(read(kinds, written.pieces(sent[:cut], [])))


@given(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=20), st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_damage_is_an_error(kinds: list[str], payload: bytes) -> None:
    """Bytes that are no row are refused, or read as values within them: never beyond."""
    sent = written.packets([*written.definitions(kinds), written.eof(), b"\x00" + payload, written.error(9999, "end")])
    with pytest.raises((pymysql.err.MySQLError, DecodeError), match=r"end|not in the binary protocol|db\.t\.c\d+"):
        list(read(kinds, written.pieces(sent, [])))


def test_a_packet_out_of_order_is_an_error() -> None:
    """A lost packet is noticed by the numbers."""
    kinds = ["int"]
    head = written.packets([*written.definitions(kinds), written.eof()])
    rest = written.packets([written.row(kinds, [1]), written.eof()], sequence=5)
    with pytest.raises(pymysql.err.OperationalError, match="out of order"):
        list(read(kinds, written.pieces(head + rest, [])))


@pytest.mark.parametrize(
    ("declared", "sent"), [("int", "big"), ("big", "unsigned"), ("text", "bytes"), ("date", "int")]
)
def test_a_column_of_another_type_than_declared_is_refused(declared: str, sent: str) -> None:
    """Whatever the table has become, nothing is read as what it is not."""
    packets = Packets(written.pieces(stream([sent], [], written.eof()), []), 1 << 10)
    with pytest.raises(SchemaError, match="another type") as caught:
        widths(written.schema_of([declared]), answers(packets, deprecate_eof=False))
    assert caught.value.place == "db.t"


def test_values_at_their_edges() -> None:
    """Widest decimals, first and last days, negative zero, empty texts."""
    kinds = ["decimal", "datetime", "time", "double", "text"]
    values = [
        [Decimal(f"{TOP}e-9"), datetime(1, 1, 1), -TIME, -0.0, ""],
        [Decimal(f"-{TOP}e-9"), datetime(9999, 12, 31, 23, 59, 59, 999999), 1, 5e-324, "x" * 70_000],
    ]
    (batch,) = read(kinds, written.pieces(stream(kinds, values, written.eof()), []), size=1 << 18)
    assert batch == values
    assert str(batch[0][3]) == "-0.0"
