"""Character sets by collation id, and their way to UTF-8, as the server itself converts them.

Sets of one byte a character go through a table of 256, those of UTF-16 and UTF-32 through a kernel; the East Asian ones
go value by value through Python's codecs. A byte that a one-byte set leaves undefined becomes `?`, as in SELECT;
elsewhere what cannot be converted is an error.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit, types

from cdc_core.binlog.columns.collations import RANGES
from cdc_core.binlog.columns.kernel import (
    BYTES,
    INTS,
    MALFORMED,
    MAX_TEXT,
    OK,
    TOO_LARGE,
    Answer,
    Bytes,
    Cells,
    int64,
    kernel,
    strings,
    unsupported,
    variable,
)
from cdc_core.binlog.columns.narrow import alphabet
from cdc_core.schema.table import Column

_UTF8 = ("utf8mb4", "utf8mb3", "ascii")
_WIDE = {"utf16": (2, True), "ucs2": (2, True), "utf16le": (2, False), "utf32": (4, True)}
# Python's codec and the characters that MySQL has in another place of Unicode
_CODECS: dict[str, tuple[str, dict[int, str]]] = {
    "big5": ("big5", {}),
    "cp932": ("cp932", {}),
    "eucjpms": ("euc_jp", {ord(a): b for a, b in zip("〜‖−¢£¬¦", "～∥－￠￡￢￤", strict=True)}),  # noqa: RUF001
    "euckr": ("cp949", {}),
    "gb18030": ("gb18030", {0xE7C7: "\u1e3f"}),
    "gb2312": ("gb2312", {}),
    "gbk": ("gbk", {}),
    "sjis": ("shift_jis", {0xFF3C: "\\"}),
    "ujis": ("euc_jp", {0xFF3C: "\\"}),
}
_BIG5_ETEN = dict(zip(range(0xF9D6, 0xF9DD), "碁銹裏墻恒粧嫺", strict=True))  # not in Python's big5


@dataclass(frozen=True, slots=True)
class Charset:
    """A character set by MySQL's name."""

    name: str

    @property
    def is_binary(self) -> bool:
        return self.name == "binary"

    @property
    def is_utf8(self) -> bool:
        return self.name in _UTF8


@cache
def _name(collation: int) -> str:
    for name, ranges in RANGES.items():
        if any(low <= collation <= high for low, high in ranges):
            return name
    return ""


def charset(column: Column) -> Charset:
    """The column's character set. Raises SchemaError for a collation that no server known here has."""
    if not column.charset:
        hint = "SET GLOBAL binlog_row_metadata = FULL at the source, or grant SELECT on the table."
        raise unsupported(column, "its character set is not known", hint)
    name = _name(column.charset)
    if not name:
        raise unsupported(column, f"unknown collation id {column.charset}")
    return Charset(name)


def to_utf8(cells: Cells, charset: Charset, raw: Bytes, offsets: npt.NDArray[np.int32]) -> pa.Array:
    """Brings values that are joined in `raw` from their character set to UTF-8."""
    if charset.name in _CODECS:
        return _by_codec(cells, charset, raw, offsets)
    out, ends = np.empty(3 * len(raw), np.uint8), np.zeros(len(offsets), np.int32)
    if charset.name in _WIDE:
        unit, big_endian = _WIDE[charset.name]
        cells.check(_widen(raw, offsets, unit, big_endian, out, ends))
    else:
        cells.check(_spell(raw, offsets, _alphabet(charset.name), out, ends))
    return variable(pa.string(), ends, out[: ends[-1]], cells.present())


@cache
def _alphabet(name: str) -> npt.NDArray[np.int64]:
    return np.array([ord(character) for character in alphabet(name)], np.int64)


def _by_codec(cells: Cells, charset: Charset, raw: Bytes, offsets: npt.NDArray[np.int32]) -> pa.Array:
    codec, moved = _CODECS[charset.name]
    values = variable(pa.binary(), offsets, raw, cells.present()).to_pylist()
    texts: list[str | None] = []
    for image, value in enumerate(values):
        try:
            texts.append(None if value is None else value.decode(codec, "mysql").translate(moved))
        except UnicodeDecodeError as error:
            found = f"{value[error.start : error.end + 1].hex()} is no character of {charset.name}"
            raise cells.error(image, found, "Mend the value at the source.") from None
    return strings(texts)


def _beyond_codec(error: UnicodeError) -> tuple[str, int]:
    """Characters that MySQL has beyond Python's codec: user-defined ones of EUC-JP, seven of ETEN's Big5."""
    if isinstance(error, UnicodeDecodeError):
        at, data = error.start, error.object
        if error.encoding == "big5" and (number := int.from_bytes(data[at : at + 2], "big")) in _BIG5_ETEN:
            return _BIG5_ETEN[number], at + 2
        if error.encoding == "euc_jp":
            base, first = (0xE3AC, at + 1) if data[at] == 0x8F else (0xE000, at)
            row, cell = (*data[first : first + 2], 0, 0)[:2]
            if row >= 0xF5 and cell >= 0xA1:
                return chr(base + (row - 0xF5) * 94 + cell - 0xA1), first + 2
    raise error


codecs.register_error("mysql", _beyond_codec)


@njit(nogil=True)
def put_character(point: int, out: Bytes, at: int) -> int:
    """Writes one code point in UTF-8, at most four bytes; answers the end."""
    if point < 0x80:
        out[at] = point
        return at + 1
    if point < 0x800:
        out[at] = 0xC0 | point >> 6
        out[at + 1] = 0x80 | point & 0x3F
        return at + 2
    if point < 0x10000:
        out[at] = 0xE0 | point >> 12
        out[at + 1] = 0x80 | point >> 6 & 0x3F
        out[at + 2] = 0x80 | point & 0x3F
        return at + 3
    out[at] = 0xF0 | point >> 18
    out[at + 1] = 0x80 | point >> 12 & 0x3F
    out[at + 2] = 0x80 | point >> 6 & 0x3F
    out[at + 3] = 0x80 | point & 0x3F
    return at + 4


@kernel(BYTES, INTS, types.int64[::1], BYTES, INTS)
def _spell(
    raw: Bytes,
    offsets: npt.NDArray[np.int32],
    letters: npt.NDArray[np.int64],
    out: Bytes,
    ends: npt.NDArray[np.int32],
) -> Answer:
    """One byte a character."""
    at = 0
    for i in range(len(offsets) - 1):
        for k in range(offsets[i], offsets[i + 1]):
            at = put_character(letters[raw[k]], out, at)
        if at > MAX_TEXT:
            return TOO_LARGE, i
        ends[i + 1] = at
    return OK, 0


@kernel(BYTES, INTS, types.int64, types.boolean, BYTES, INTS)
def _widen(
    raw: Bytes,
    offsets: npt.NDArray[np.int32],
    unit: int,
    big_endian: bool,
    out: Bytes,
    ends: npt.NDArray[np.int32],
) -> Answer:
    """Units of two bytes, with surrogates, or of four."""
    at = 0
    for i in range(len(offsets) - 1):
        low, high = int64(offsets[i]), int64(offsets[i + 1])
        if (high - low) % unit:
            return MALFORMED, i
        lead = 0
        for k in range(low, high, unit):
            point = 0
            for b in range(unit):
                point = point << 8 | int64(raw[k + b if big_endian else k + unit - 1 - b])
            trails = unit == 2 and 0xDC00 <= point < 0xE000
            if trails != (lead > 0) or point > 0x10FFFF or (unit == 4 and 0xD800 <= point < 0xE000):
                return MALFORMED, i
            if 0xD800 <= point < 0xDC00:
                lead = point
                continue
            if lead:
                point = 0x10000 + ((lead - 0xD800) << 10) + point - 0xDC00
                lead = 0
            at = put_character(point, out, at)
        if lead:
            return MALFORMED, i
        if at > MAX_TEXT:
            return TOO_LARGE, i
        ends[i + 1] = at
    return OK, 0
