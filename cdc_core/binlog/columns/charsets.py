"""Character sets by collation id, and their way to UTF-8, as the server itself converts them.

All of them go through kernels: sets of one byte a character by a table of 256, UTF-16 and UTF-32 by their rules, the
East Asian ones by tables of two bytes. What a set leaves undefined becomes `?`, as in SELECT; bytes that the set does
not allow are an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdc_core.binlog.columns.collations import RANGES
from cdc_core.binlog.columns.east_asian import NAMES as EAST_ASIAN
from cdc_core.binlog.columns.east_asian import from_east_asian, tables
from cdc_core.binlog.columns.kernel import MALFORMED, Answer, Bytes, Cells, unsupported, variable
from cdc_core.binlog.columns.narrow import alphabet
from cdc_core.binlog.columns.unicode import Offsets, from_narrow, from_wide
from cdc_core.schema.table import Column

_UTF8 = ("utf8mb4", "utf8mb3", "ascii")
_WIDE = {"utf16": (2, True), "ucs2": (2, True), "utf16le": (2, False), "utf32": (4, True)}


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


def to_utf8(cells: Cells, charset: Charset, raw: Bytes, offsets: Offsets) -> pa.Array:
    """Brings values that are joined in `raw` from their character set to UTF-8."""
    answer, out, ends = _converted(charset.name, raw, offsets)
    if answer[0] == MALFORMED:
        raise cells.error(answer[1], f"bytes that are no text in {charset.name}", "Mend the value at the source.")
    cells.check(answer)
    return variable(pa.string(), ends, out[: ends[-1]], cells.present())


def label(raw: bytes, collation: int) -> str:
    """One text of a definition. A collation that is not known is taken for UTF-8: all recent ones are.

    Raises ValueError for bytes that are no text in its character set."""
    name = _name(collation) or "utf8mb4"
    if name in _UTF8:
        return raw.decode()
    if name == "binary":
        return raw.decode("latin-1")
    answer, out, ends = _converted(name, np.frombuffer(bytearray(raw), np.uint8), np.array([0, len(raw)], np.int32))
    if answer[0]:
        raise ValueError(f"{raw.hex()} is no text in {name}")
    return out[: ends[-1]].tobytes().decode()


def _converted(name: str, raw: Bytes, offsets: Offsets) -> tuple[Answer, Bytes, Offsets]:
    """The UTF-8 of all values, and where each ends."""
    out, ends = np.empty(3 * len(raw), np.uint8), np.zeros(len(offsets), np.int32)
    if name in _WIDE:
        return from_wide(raw, offsets, *_WIDE[name], out, ends), out, ends
    if name in EAST_ASIAN:
        by = tables(name)
        return from_east_asian(raw, offsets, by.singles, by.pairs, by.triples, by.quads, out, ends), out, ends
    return from_narrow(raw, offsets, _alphabet(name), out, ends), out, ends


@cache
def _alphabet(name: str) -> npt.NDArray[np.int64]:
    return np.array([ord(character) for character in alphabet(name)], np.int64)
