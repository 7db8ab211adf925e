"""Columns from bytes written by hand: mapping, edges, old forms, and what is refused."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_core.charsets.collations import RANGES
from cdc_core.errors import DecodeError, SchemaError, TableStopped
from cdc_core.rows.columns.batch import arrow_fields, arrow_type, decode
from cdc_core.schema.table import Column, TableSchema

TIMESTAMP = pa.timestamp("us", tz="UTC")


def _decoded(column: Column, values: list[bytes | None], **options: Any) -> pa.Array:
    """One column of values as they stand in a row image; None is NULL."""
    at, starts = 3, []
    for value in values:
        starts.append(-1 if value is None else at)
        at += len(value or b"")
    data = np.frombuffer(b"\xee" * 3 + b"".join(value or b"" for value in values), np.uint8)
    batch = decode(TableSchema("shop", "t", (column,)), data, np.array([starts], np.int64), **options)
    batch.validate(full=True)
    return batch.column(0)


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (Column("c", 1, 0), pa.int8()),
        (Column("c", 1, 0, unsigned=True), pa.int16()),
        (Column("c", 2, 0), pa.int16()),
        (Column("c", 2, 0, unsigned=True), pa.int32()),
        (Column("c", 9, 0, unsigned=True), pa.int32()),
        (Column("c", 3, 0, unsigned=True), pa.int64()),
        (Column("c", 8, 0), pa.int64()),
        (Column("c", 8, 0, unsigned=True), pa.decimal128(20, 0)),
        (Column("c", 246, 38 << 8 | 10), pa.decimal128(38, 10)),
        (Column("c", 246, 39 << 8 | 10), pa.string()),
        (Column("c", 16, 1), pa.bool_()),
        (Column("c", 16, 7 << 8 | 7), pa.int64()),
        (Column("c", 16, 8 << 8), pa.decimal128(20, 0)),
        (Column("c", 13, 0), pa.int16()),
        (Column("c", 10, 0), pa.date32()),
        (Column("c", 19, 6), pa.int64()),
        (Column("c", 18, 0), pa.timestamp("us")),
        (Column("c", 17, 3), TIMESTAMP),
        (Column("c", 15, 20, charset=63), pa.binary()),
        (Column("c", 252, 2, charset=255), pa.string()),
        (Column("c", 248, 1, labels=("a",)), pa.string()),
        (Column("c", 245, 4), pa.string()),
        (Column("c", 255, 4), pa.struct([("srid", pa.int64()), ("wkb", pa.binary())])),
        (Column("c", 242, 4), pa.list_(pa.float32())),
        (Column("c", 254, 16, charset=63, column_type="uuid"), pa.string()),
        (Column("c", 254, 4, charset=63, column_type="inet4"), pa.string()),
        (Column("c", 254, 20, charset=63, column_type="uuid"), pa.binary()),
        (Column("c", 141, 301, charset=45), pa.string()),
        (Column("c", 140, 2, charset=63), pa.binary()),
        (Column("c", 18, 0, as_text=True), pa.string()),
    ],
)
def test_the_mapping_of_types(column: Column, kind: pa.DataType) -> None:
    """Types are those of docs/types.md; an empty batch has the same type; every field is nullable."""
    assert arrow_type(column) == kind
    assert _decoded(column, [None]).type == kind
    assert _decoded(column, []).type == kind
    assert arrow_fields(TableSchema("shop", "t", (replace(column, nullable=False),))) == [pa.field("c", kind)]


def test_null_and_absent_values_are_null() -> None:
    """-1 and -2 in `starts` are null, next to a value."""
    schema = TableSchema("shop", "t", (Column("a", 1, 0), Column("b", 15, 10, charset=45)))
    data = np.frombuffer(b"\xff\x02hi", np.uint8)
    batch = decode(schema, data, np.array([[-1, 0, -2], [1, -2, -1]], np.int64))

    assert batch.to_pydict() == {"a": [None, -1, None], "b": ["hi", None, None]}


@given(st.integers(1, 38), st.data())
def test_decimals_of_any_shape(precision: int, data: st.DataObject) -> None:
    """Decimals packed as MySQL packs them come out the same."""
    scale = data.draw(st.integers(0, min(precision, 30)))
    numbers = data.draw(st.lists(st.integers(1 - 10**precision, 10**precision - 1), max_size=5))
    values = [_packed(number, precision, scale) for number in numbers]
    expected = [Decimal(number).scaleb(-scale, _WIDE) for number in numbers]

    assert _decoded(Column("c", 246, precision << 8 | scale), [*values, None]).to_pylist() == [*expected, None]


_WIDE = Context(prec=80)
_SIZES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


def _packed(number: int, precision: int, scale: int) -> bytes:
    digits = str(abs(number)).rjust(precision, "0")
    whole, part = digits[: precision - scale], digits[precision - scale :]
    lead = len(whole) % 9
    groups = [
        whole[:lead],
        *(whole[i : i + 9] for i in range(lead, len(whole), 9)),
        *(part[i : i + 9] for i in range(0, len(part), 9)),
    ]
    out = bytearray(b"".join(int(g).to_bytes(_SIZES[len(g)], "big") for g in groups if g))
    out[0] ^= 0x80
    return bytes(out) if number >= 0 else bytes(byte ^ 0xFF for byte in out)


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_integers_of_eight_bytes(numbers: list[int]) -> None:
    """Signed ones stay integers; unsigned ones become decimals."""
    values = [struct.pack("<q", number) for number in numbers]

    assert _decoded(Column("c", 8, 0), list(values)).to_pylist() == numbers
    assert _decoded(Column("c", 8, 0, unsigned=True), list(values)).to_pylist() == [
        number % 2**64 for number in numbers
    ]


_UUID = Column("c", 254, 16, charset=63, column_type="uuid")
_INET4 = Column("c", 254, 4, charset=63, column_type="inet4")
_INET6 = Column("c", 254, 16, charset=63, column_type="inet6")


def _deflated(value: bytes, told: int | None = None) -> bytes:
    """As MariaDB stores it with zlib's frame, after a length of one byte."""
    inner = b"\x81" + bytes([len(value) if told is None else told]) + zlib.compress(value)
    return bytes([len(inner)]) + inner


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        (Column("c", 9, 0), b"\x00\x00\x80", -(2**23)),
        (Column("c", 9, 0, unsigned=True), b"\x00\x00\x80", 2**23),
        (Column("c", 13, 0), b"\x00", 0),
        (Column("c", 13, 0), b"\xff", 2155),
        (Column("c", 16, 1 << 8 | 2), b"\x02\x01", 513),
        (Column("c", 16, 8 << 8), b"\xff" * 8, 2**64 - 1),
        (Column("c", 19, 2), bytes.fromhex("7ffffef6"), -1_100_000),  # -00:00:01.10
        (Column("c", 19, 2), bytes.fromhex("7fffff9d"), -990_000),  # -00:00:00.99
        (Column("c", 19, 6), bytes.fromhex("b46efb000001"), 3020399_000001),  # 838:59:59.000001
        (Column("c", 11, 0), struct.pack("<i", -8385959)[:3], -3020399_000000),
        (Column("c", 246, 65 << 8), b"\x80" + b"\0" * 27 + b"\x07", "7"),
        (
            Column("c", 246, 40 << 8 | 30),
            b"\x7f" + b"\xff" * 4 + b"\xff" * 12 + b"\xff\xfb",
            "-0.000000000000000000000000000004",
        ),
        (Column("c", 254, 4, charset=63), b"\x01a", b"a\0\0\0"),
        (Column("c", 254, 300, charset=45), b"\x02\x00hi", "hi"),
        (Column("c", 15, 300, charset=63), b"\x01\x00\x00", b"\0"),
        (Column("c", 252, 3, charset=33), b"\x02\x00\x00\xc3\xa9", "é"),
        (Column("c", 15, 10, charset=8), b"\x02\x80\x81", "€\x81"),
        (Column("c", 15, 10, charset=54), b"\x06\x00a\xd8\x3d\xde\x00", "a😀"),
        (Column("c", 15, 10, charset=13), b"\x03\x81\x5f\xb6", "\\ｶ"),
        (Column("c", 15, 10, charset=1), b"\x02\xf9\xd6", "碁"),
        (Column("c", 15, 10, charset=12), b"\x03\x8f\xf5\xa1", "\ue3ac"),
        (Column("c", 15, 10, charset=28), b"\x03\x81\x40?", "丂?"),
        (Column("c", 15, 10, charset=28), b"\x02\xa2\xab", "?"),
        (Column("c", 15, 10, charset=248), b"\x04\x94\x39\xfc\x36", "😀"),
        (Column("c", 15, 10, charset=97), b"\x03\x8f\xf4\xfe", "黑"),
        (Column("c", 255, 4), b"\x04\0\0\0\xff\xff\xff\xff", {"srid": 2**32 - 1, "wkb": b""}),
        (Column("c", 255, 1), b"\0", {"srid": None, "wkb": b""}),
        (Column("c", 255, 1), b"\x06\xe6\x10\0\0ab", {"srid": 4326, "wkb": b"ab"}),
        (Column("c", 242, 4), b"\x08\0\0\0" + struct.pack("<2f", 1.5, -0.0), [1.5, -0.0]),
        (_UUID, b"\x0e" + bytes.fromhex("123e4567e89b12d3a45642665544"), "123e4567-e89b-12d3-a456-426655440000"),
        (_INET4, b"\x04\x0a\x00\xff\x01", "10.0.255.1"),
        (_INET4, b"\x00", "0.0.0.0"),
        (_INET6, b"\x00", "::"),
        (_INET6, b"\x10" + bytes(15) + b"\1", "::1"),
        (_INET6, b"\x10" + bytes(12) + b"\1\2\3\4", "::1.2.3.4"),
        (_INET6, b"\x10" + bytes(10) + b"\xff\xff\1\2\3\4", "::ffff:1.2.3.4"),
        (_INET6, b"\x02\x00\x01", "1::"),
        (_INET6, b"\x10" + bytes.fromhex("00010000000200030004000500060007"), "1::2:3:4:5:6:7"),
        (_INET6, b"\x10" + bytes.fromhex("20010db8000000010000000000000abc"), "2001:db8:0:1::abc"),
        (Column("c", 141, 301, charset=45), b"\x0b\x00\x8a\x01\xf4\x4b\x4c\x1c\x05\x23\x0d\x00\x00", "a" * 500),
        (Column("c", 141, 101, charset=63), b"\x03\x00hi", b"hi"),
        (Column("c", 140, 1, charset=63), b"\x00", b""),
        (Column("c", 140, 1, charset=45), _deflated(b"hello"), "hello"),
        (Column("c", 247, 2, labels=("x", "y")), b"\x02\x00", "y"),
        (Column("c", 247, 1, labels=("x", "y")), b"\x00", ""),
        (Column("c", 248, 1, labels=("x", "y", "z")), b"\x05", "x,z"),
    ],
)
def test_one_value(column: Column, value: bytes, expected: object) -> None:
    """Values that other readers are known to get wrong, and the edges of each form."""
    assert _decoded(column, [value, None, value]).to_pylist() == [expected, None, expected]


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        (Column("c", 12, 0), struct.pack("<q", 20200229235958), "2020-02-29 23:59:58"),
        (Column("c", 7, 0), struct.pack("<I", 2**32 - 1), "2106-02-07 06:28:15Z"),
        (Column("c", 17, 0), b"\xff\xff\xff\xff", "2106-02-07 06:28:15Z"),
        (Column("c", 17, 1), b"\x00\x00\x00\x01\x5a", "1970-01-01 00:00:01.900000Z"),
    ],
)
def test_old_and_far_moments(column: Column, value: bytes, expected: str) -> None:
    """The forms before MySQL 5.6, and TIMESTAMP as unsigned seconds."""
    assert (
        _decoded(column, [value]).cast(pa.string()).to_pylist()[0].removesuffix(".000000").replace(".000000Z", "Z")
        == expected
    )


@pytest.mark.parametrize(
    ("column", "value", "told"),
    [
        (Column("c", 10, 0), b"\0\0\0", "0000-00-00"),
        (Column("c", 10, 0), struct.pack("<I", 2024 << 9 | 1 << 5)[:3], "2024-01-00"),
        (Column("c", 10, 0), struct.pack("<I", 2023 << 9 | 2 << 5 | 29)[:3], "2023-02-29"),
        (Column("c", 18, 0), b"\x80\0\0\0\0", "0000-00-00 00:00:00"),
        (Column("c", 18, 3), b"\x80\0\0\0\0\x04\xce", "0000-00-00 00:00:00.123"),
        (Column("c", 12, 0), bytes(8), "0000-00-00 00:00:00"),
        (Column("c", 17, 1), bytes(5), "0000-00-00 00:00:00.0"),
        (Column("c", 7, 0), bytes(4), "0000-00-00 00:00:00"),
    ],
)
def test_zero_dates_stop_or_become_null_or_text(column: Column, value: bytes, told: str) -> None:
    """The error has value, place and setting."""
    with pytest.raises(DecodeError, match=rf"t\.c, row image 1: .* date, {told} .* at b:1\. Set sluice\.zero\.dates"):
        _decoded(column, [None, value], place="b:{}".format)

    assert _decoded(column, [value, None], zero_dates="null").null_count == 2
    text = replace(column, as_text=True)
    assert _decoded(text, [value, None, value], zero_dates="string").to_pylist() == [told, None, told]


@pytest.mark.parametrize(
    ("column", "value", "told"),
    [
        (Column("c", 10, 0), struct.pack("<I", 9999 << 9 | 12 << 5 | 31)[:3], "9999-12-31"),
        (Column("c", 12, 0), struct.pack("<q", 20200229235958), "2020-02-29 23:59:58"),
        (Column("c", 17, 1), b"\x00\x00\x00\x01\x5a", "1970-01-01 00:00:01.9"),
        (Column("c", 17, 0), b"\x80\x00\x00\x00", "2038-01-19 03:14:08"),
        (Column("c", 7, 0), struct.pack("<I", 2**32 - 1), "2106-02-07 06:28:15"),
    ],
)
def test_dates_as_text(column: Column, value: bytes, told: str) -> None:
    """The text has all fractional digits, is in UTC, and has seconds without a sign."""
    assert _decoded(replace(column, as_text=True), [value]).to_pylist() == [told]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (Column("c", 3, 0), b"\0\0\0"),
        (Column("c", 10, 0), struct.pack("<I", 10_000 << 9 | 1 << 5 | 1)[:3]),
        (Column("c", 246, 12 << 8 | 2), b"\x80" * 5),
        (Column("c", 246, 9 << 8), b"\xff\xff\xff\xff"),
        (Column("c", 246, 45 << 8), b"\xff" * 20),
        (Column("c", 18, 6), b"\x99" * 7),
        (Column("c", 18, 0), b"\x99\x99\x99\x9f\xff"),
        (Column("c", 15, 10, charset=45), b"\x05abc"),
        (Column("c", 252, 4, charset=45), b"\xff\xff\xff\xff"),
        (Column("c", 15, 10, charset=45), b"\x01\xff"),
        (Column("c", 254, 2, charset=63), b"\x03abc"),
        (Column("c", 15, 10, charset=54), b"\x02\xd8\x3d"),
        (Column("c", 15, 10, charset=60), b"\x04\xff\0\0\0"),
        (Column("c", 15, 10, charset=28), b"\x01\x81"),
        (Column("c", 15, 10, charset=28), b"\x02\x81\x20"),
        (Column("c", 15, 10, charset=12), b"\x02\x8f\xa1"),
        (Column("c", 15, 10, charset=248), b"\x03\x94\x39\xfc"),
        (Column("c", 255, 1), b"\x03abc"),
        (Column("c", 242, 1), b"\x05abcde"),
        (Column("c", 140, 1, charset=63), _deflated(b"hello", 4)),
        (Column("c", 140, 1, charset=63), _deflated(b"hello", 6)),
        (Column("c", 140, 1, charset=63), b"\x04\x81\x05ab"),
        (Column("c", 140, 1, charset=63), b"\x04\x91\x05ab"),
        (Column("c", 10, 0, as_text=True), b"\xff\xff\xff"),
        (Column("c", 17, 6), b"\0\0\0\1\xff\xff\xff"),
        (Column("c", 17, 6, as_text=True), b"\0\0\0\1\xff\xff\xff"),
        (Column("c", 16, 7 << 8 | 7), b"\x80" + bytes(7)),
        (Column("c", 16, 1), b"\x02"),
        (Column("c", 247, 1, labels=("x",)), b"\x02"),
        (Column("c", 248, 1, labels=("x",)), b"\x02"),
    ],
)
def test_damage_is_refused(column: Column, value: bytes) -> None:
    """Short, impossible and foreign bytes are an error with the image, never a guess."""
    with pytest.raises(DecodeError, match="row image 0"):
        _decoded(column, [value])


@pytest.mark.parametrize(
    ("column", "hint"),
    [
        (Column("c", 0, 0), "canal.instance.filter.black.regex"),
        (Column("c", 15, 10, charset=9999), "canal.instance.filter.black.regex"),
        (Column("c", 15, 10), "binlog_row_metadata"),
        (Column("c", 247, 1), "binlog_row_metadata"),
    ],
)
def test_unknown_types_name_the_remedy(column: Column, hint: str) -> None:
    """The error has table, column and remedy."""
    with pytest.raises(TableStopped, match=rf"column c: .* at shop\.t\. .*{hint}"):
        _decoded(column, [])


def test_rows_of_another_width_are_refused() -> None:
    """A definition that does not fit its rows is refused."""
    with pytest.raises(SchemaError, match="1 columns in the definition, 2 in its rows"):
        decode(TableSchema("shop", "t", (Column("c", 3, 0),)), np.zeros(8, np.uint8), np.zeros((2, 1), np.int64))


def test_no_collation_belongs_to_two_character_sets() -> None:
    """The ranges of collation ids do not overlap."""
    ids = [number for ranges in RANGES.values() for low, high in ranges for number in range(low, high + 1)]

    assert len(ids) == len(set(ids))


def test_every_character_set_has_a_way_to_arrow() -> None:
    """One collation of each set converts a letter that all sets share."""
    for name, ranges in RANGES.items():
        letter = {"utf16": b"\0a", "ucs2": b"\0a", "utf16le": b"a\0", "utf32": b"\0\0\0a"}.get(name, b"a")
        array = _decoded(Column("c", 15, 10, charset=ranges[0][0]), [bytes([len(letter)]) + letter])

        assert array.to_pylist() == [b"a" if name == "binary" else "a"]


def test_more_text_than_one_array_holds_is_refused() -> None:
    """3,000 images of the same megabyte are refused before any byte is copied."""
    data = np.zeros(4 + (1 << 20), np.uint8)
    data[:4] = np.frombuffer((1 << 20).to_bytes(4, "little"), np.uint8)
    schema = TableSchema("shop", "t", (Column("c", 252, 4, charset=63),))

    with pytest.raises(DecodeError, match=r"more than 2 GiB .* Claim fewer rows"):
        decode(schema, data, np.zeros((1, 3000), np.int64))


def test_half_a_pair_of_surrogates() -> None:
    """UCS-2 takes it for a letter, so it becomes U+FFFD; not in UTF-16, and not in a key: two could become one."""
    values = [b"\0a\xd8\x3d\0b", b"\xde\0", b"\xd8\x3d\xde\0", b"\0a\xd8\x3d", b"\xd8\x3d\xd8\x3d\xde\0", b"\0a"]
    images = [bytes([len(value)]) + value for value in values]

    assert _decoded(Column("c", 15, 18, charset=35), images).to_pylist() == ["a�b", "�", "😀", "a�", "�😀", "a"]
    for schema in (_table(Column("c", 15, 36, charset=54)), _table(Column("c", 15, 18, charset=35), "c")):
        with pytest.raises(DecodeError, match="not text"):
            decode(schema, np.frombuffer(images[1], np.uint8), np.zeros((1, 1), np.int64))


@pytest.mark.parametrize(
    ("collation", "value", "text", "other"),
    [(95, b"\x87\x54", "\u2160", b"\xfa\x4a"), (25, b"?", "?", b"\xa4"), (82, b"?", "?", b"\x7f")],
    ids=["cp932", "greek", "swe7"],
)
def test_a_text_that_other_bytes_have_too(collation: int, value: bytes, text: str, other: bytes) -> None:
    """It is one text in a column, and in a key one of the two is refused: two keys would become one."""
    column, images = Column("c", 15, 18, charset=collation), [bytes([len(one)]) + one for one in (value, other)]
    assert _decoded(column, images).to_pylist() == [text, text]
    keyed = _table(column, "c")
    assert decode(keyed, np.frombuffer(images[0], np.uint8), np.zeros((1, 1), np.int64)).column(0).to_pylist() == [text]
    with pytest.raises(
        DecodeError,
        match=r"not text in .*, or the same text as other bytes, so that two keys would become one .* utf8mb4",
    ):
        decode(keyed, np.frombuffer(images[1], np.uint8), np.zeros((1, 1), np.int64))


def _table(column: Column, *key: str) -> TableSchema:
    return TableSchema("shop", "t", (column,), key)
