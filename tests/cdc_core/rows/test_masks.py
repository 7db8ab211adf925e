"""Masks over every kind of Arrow values, and over row images."""

from __future__ import annotations

import hashlib
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_core.errors import ConfigError, DecodeError, SchemaError, TableStopped
from cdc_core.rows.columns.batch import arrow_fields, decode
from cdc_core.rows.columns.masks import masked, masked_type
from cdc_core.rows.columns.sha256 import hashes
from cdc_core.schema.column_rule import ColumnRule, Mask, MaskKind, Salt
from cdc_core.schema.table import Column, TableSchema

SALT = b"pepper"
HASH = Mask(MaskKind.SHA256, salt=Salt("SALT").filled(SALT))
VECTOR = pa.list_(pa.float32())
SHAPE = pa.struct([pa.field("srid", pa.int32()), pa.field("wkb", pa.binary())])


def column(mask: Mask) -> Column:
    return Column("c", 15, 80, rule=ColumnRule("c", mask=mask))


def behind(mask: Mask, values: pa.Array) -> list[Any]:
    """The masked values, of the type that is promised, also of a slice."""
    found = masked(column(mask), values)
    assert found.type == masked_type(column(mask), values.type)
    found.validate(full=True)
    assert masked(column(mask), values.slice(1)).to_pylist() == found.to_pylist()[1:]
    assert masked(column(mask), values.slice(0, 0)).to_pylist() == []
    return list(found.to_pylist())


def hashed(text: str | bytes) -> str:
    return hashlib.sha256(SALT + (text.encode() if isinstance(text, str) else text)).hexdigest()


@given(st.binary(max_size=200), st.lists(st.binary(max_size=200)))
def test_hashes_are_those_of_the_standard(salt: bytes, values: list[bytes]) -> None:
    """Whatever the lengths of salt and values, as Python's own."""
    data = np.frombuffer(b"".join(values) or b"\0", np.uint8)
    offsets = np.cumsum([0, *map(len, values)]).astype(np.int64)

    digits = hashes(salt, data, offsets).tobytes().decode()

    found = [digits[at : at + 64] for at in range(0, len(digits), 64)]
    assert found == [hashlib.sha256(salt + value).hexdigest() for value in values]


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        (pa.array(["a", "", "日本", "😀"]), ["a", "", "日本", "😀"]),
        (pa.array([b"\x00\xff", b""]), [b"\x00\xff", b""]),
        (pa.array([-128, 0, 127], pa.int8()), ["-128", "0", "127"]),
        (pa.array([2**63 - 1, -(2**63)], pa.int64()), ["9223372036854775807", "-9223372036854775808"]),
        (pa.array([2**64 - 1], pa.decimal128(20, 0)), ["18446744073709551615"]),
        (pa.array([Decimal("-1.50"), Decimal("0.00")], pa.decimal128(12, 2)), ["-1.50", "0.00"]),
        (
            pa.array([Decimal("1E-10"), Decimal("-1E-10"), Decimal(0), Decimal("-12.5")], pa.decimal128(20, 10)),
            ["0.0000000001", "-0.0000000001", "0.0000000000", "-12.5000000000"],
        ),
        (pa.array([0.1, -0.0, 1e300], pa.float64()), ["0.1", "0", "1e+300"]),
        (pa.array([0.1, -0.0, -1.5], pa.float32()), ["0.1", "0", "-1.5"]),
        (pa.array([True, False]), ["1", "0"]),
        (pa.array([date(2026, 1, 31), date(1, 1, 1)]), ["2026-01-31", "0001-01-01"]),
        (pa.array([datetime(2026, 1, 31, 8, 30)], pa.timestamp("us")), ["2026-01-31 08:30:00.000000"]),
        (
            pa.array([datetime(2026, 1, 31, 8, 30, tzinfo=UTC)], pa.timestamp("us", "UTC")),
            ["2026-01-31 08:30:00.000000"],
        ),
    ],
)
def test_a_hash_is_of_the_value_as_text(values: pa.Array, texts: list[str | bytes]) -> None:
    """So that anybody who knows the salt finds it again. NULL stays NULL."""
    values = pa.concat_arrays([pa.nulls(1, values.type), values, pa.nulls(1, values.type)])

    assert behind(HASH, values) == [None, *map(hashed, texts), None]


@pytest.mark.parametrize(
    ("digits", "text"), [(0, "2026-01-31 08:30:00"), (3, "2026-01-31 08:30:00.125"), (6, "2026-01-31 08:30:00.125000")]
)
def test_a_moment_has_the_columns_digits(digits: int, text: str) -> None:
    """As the server writes it, and as it is read where dates are texts."""
    values = pa.array([datetime(2026, 1, 31, 8, 30, 0, 125_000 if digits else 0)], pa.timestamp("us"))
    at = Column("c", 18, digits, rule=ColumnRule("c", mask=HASH))
    assert masked(at, values).to_pylist() == [hashed(text)]
    assert masked(at, pa.array([text])).to_pylist() == [hashed(text)]


@pytest.mark.parametrize("kind", [VECTOR, SHAPE])
def test_what_has_no_text_is_not_hashed(kind: pa.DataType) -> None:
    """The remedy is another mask, or none of the column."""
    with pytest.raises(SchemaError, match="has no text") as caught:
        masked_type(column(HASH), kind)
    assert "exclude it" in caught.value.hint


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.binary(), pa.int8(), pa.decimal128(20, 10), pa.bool_(), pa.date32(), VECTOR, SHAPE]
)
def test_null_is_of_every_type(kind: pa.DataType) -> None:
    """The column keeps its type."""
    found = masked(column(Mask(MaskKind.NULL)), pa.nulls(3, kind))
    assert (found.type, found.null_count) == (kind, 3)


def test_null_hides_every_value() -> None:
    """Also the NULLs among them."""
    assert behind(Mask(MaskKind.NULL), pa.array([1, None, 3])) == [None, None, None]


@pytest.mark.parametrize(
    ("mask", "there"),
    [
        (Mask(MaskKind.TRUNCATE, 2), ["ab", "日本", "😀x", "a", "", None]),
        (Mask(MaskKind.KEEP_LAST, 2), ["cd", "本語", "xy", "a", "", None]),
    ],
)
def test_texts_are_cut_between_characters(mask: Mask, there: list[str | None]) -> None:
    """Of several bytes each, and shorter ones stay."""
    assert behind(mask, pa.array(["abcd", "日本語", "😀xy", "a", "", None])) == there


@pytest.mark.parametrize(
    ("mask", "there"),
    [
        (Mask(MaskKind.TRUNCATE, 2), [b"\x00\xff", b"a", b"", None]),
        (Mask(MaskKind.KEEP_LAST, 2), [b"\xff\x80", b"a", b"", None]),
    ],
)
def test_bytes_are_cut_between_bytes(mask: Mask, there: list[bytes | None]) -> None:
    """They need not be a text."""
    assert behind(mask, pa.array([b"\x00\xff\x80", b"a", b"", None])) == there


@pytest.mark.parametrize("kind", [MaskKind.TRUNCATE, MaskKind.KEEP_LAST])
def test_only_texts_and_bytes_are_cut(kind: MaskKind) -> None:
    """A number has no first characters."""
    with pytest.raises(SchemaError, match=f"the mask {kind} is for texts and bytes"):
        masked_type(column(Mask(kind, 2)), pa.int32())


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("x", pa.string(), "x"),
        ("", pa.string(), ""),
        ("x", pa.binary(), b"x"),
        ("7", pa.int8(), 7),
        ("1.5", pa.float64(), 1.5),
        ("1.5", pa.decimal128(12, 2), Decimal("1.50")),
        ("2000-01-01", pa.date32(), date(2000, 1, 1)),
        ("2000-01-01 00:00:00", pa.timestamp("us"), datetime(2000, 1, 1)),
        ("2000-01-01 00:00:00Z", pa.timestamp("us", "UTC"), datetime(2000, 1, 1, tzinfo=UTC)),
        ("true", pa.bool_(), True),
    ],
)
def test_a_constant_is_of_the_columns_type(text: str, kind: pa.DataType, value: Any) -> None:
    """It is written as text; NULL stays NULL."""
    values = pa.array([None, value, None], kind)
    assert behind(Mask(MaskKind.CONSTANT, constant=text), values) == [None, value, None]


@pytest.mark.parametrize("kind", [pa.int8(), pa.date32(), pa.decimal128(12, 2), VECTOR, SHAPE])
def test_a_constant_of_another_type_is_refused(kind: pa.DataType) -> None:
    """Before a row is read."""
    with pytest.raises(SchemaError, match="the constant 'hidden' is not of its type"):
        masked_type(column(Mask(MaskKind.CONSTANT, constant="hidden")), kind)


def test_nothing_is_hashed_without_a_salt() -> None:
    """As where a definition came over the wire."""
    mask = Mask.from_dict(HASH.to_dict())
    with pytest.raises(ConfigError, match="salt is missing") as caught:
        masked(column(mask), pa.array(["a"]))
    assert caught.value.place == "SALT"


def images(*rows: tuple[int, bytes]) -> tuple[Any, Any]:
    """The bytes of rows of a BIGINT and a text, and where their values start."""
    data, starts = b"", []
    for number, text in rows:
        starts.append((len(data), len(data) + 8))
        data += struct.pack("<q", number) + bytes([len(text)]) + text
    return np.frombuffer(data, np.uint8), np.array(starts, np.int64).T.copy()


def test_row_images_come_masked_and_without_what_is_excluded() -> None:
    """The excluded column is not decoded."""
    mail = ColumnRule("email", mask=HASH)
    columns = (Column("id", 8, 0, hidden=True), Column("mail", 15, 80, charset=255, rule=mail))

    batch = decode(TableSchema("shop", "t", columns), *images((1, b"a@b.c"), (2, b"")))

    assert batch.schema.names == ["mail"]
    assert batch.column(0).to_pylist() == [hashed("a@b.c"), hashed("")]


def test_an_error_does_not_show_a_masked_value() -> None:
    """An excluded one is not read at all."""
    rule = ColumnRule("email", mask=HASH)
    columns = (Column("id", 8, 0), Column("email", 15, 80, charset=255, rule=rule))
    odd = images((1, b"secret\xff"))

    with pytest.raises(DecodeError) as caught:
        decode(TableSchema("shop", "t", columns), *odd)
    assert "masked" in caught.value.message
    assert b"sec".hex(" ") not in str(caught.value)
    hidden = (columns[0], Column("email", 15, 80, hidden=True, rule=ColumnRule("email", excluded=True)))
    assert decode(TableSchema("shop", "t", hidden), *odd).to_pylist() == [{"id": 1}]


def test_a_mask_that_is_not_for_its_column_stops_the_table() -> None:
    """The error names column and table."""
    column = Column("id", 8, 0, rule=ColumnRule("id", mask=Mask(MaskKind.TRUNCATE, 3)))
    with pytest.raises(TableStopped, match="column id: the mask truncate is for texts and bytes") as caught:
        arrow_fields(TableSchema("shop", "t", (column,)))
    assert caught.value.place == "shop.t"
