"""Character sets by collation id, and their conversion to UTF-8, as the server itself does it.

Kernels convert: sets of one byte a character through a table of 256, UTF-16 and UTF-32 by their rules, the East Asian
sets through tables of two bytes. A character that the set leaves undefined becomes `?`, as in SELECT; bytes that the
set does not allow are an error. UCS-2 knows no pairs of surrogates, so servers take half of one: it becomes U+FFFD.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from cdc_core.charsets.collations import RANGES
from cdc_core.charsets.east_asian import NAMES as EAST_ASIAN
from cdc_core.charsets.east_asian import from_east_asian, tables
from cdc_core.charsets.narrow import alphabet
from cdc_core.charsets.unicode import REPLACEMENT, Offsets, first_of_each, from_narrow, from_wide
from cdc_core.compiled.fault import Answer
from cdc_core.compiled.kernel import Bytes
from cdc_core.schema.table import Column, unsupported

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
def charset_name(collation: int) -> str:
    """MySQL's name of the character set that a collation belongs to; "" for an unknown one."""
    for name, ranges in RANGES.items():
        if any(low <= collation <= high for low, high in ranges):
            return name
    return ""


def charset(column: Column) -> Charset:
    """The column's character set. Raises SchemaError for an unknown one."""
    if not column.charset:
        hint = "SET GLOBAL binlog_row_metadata = FULL at the source, or grant SELECT on the table."
        raise unsupported(column, "its character set is not known", hint)
    name = charset_name(column.charset)
    if not name:
        raise unsupported(column, f"unknown collation id {column.charset}")
    return Charset(name)


def to_utf8(name: str, raw: Bytes, offsets: Offsets, *, unique: bool = False) -> tuple[Answer, Bytes, Offsets]:
    """The UTF-8 of all values that are joined in `raw`, and where each ends. The answer names the first bad value. With
    `unique`, so is one whose text other bytes have too: a character has one code, and what Unicode lacks has none."""
    out, ends = np.empty(3 * len(raw), np.uint8), np.zeros(len(offsets), np.int32)
    if name in _WIDE:
        return from_wide(raw, offsets, *_WIDE[name], name == "ucs2" and not unique, out, ends), out, ends
    if name in EAST_ASIAN:
        by = tables(name, unique=unique)
        return from_east_asian(raw, offsets, by.singles, by.pairs, by.triples, by.quads, out, ends), out, ends
    return from_narrow(raw, offsets, _alphabet(name, unique=unique), out, ends), out, ends


def text_of(raw: bytes, collation: int) -> str:
    """One text, as SELECT gives it. Bytes of an unknown collation, or of none (binary), are taken for UTF-8. Raises
    ValueError for bytes that are not text in the character set."""
    name = charset_name(collation) or "utf8mb4"
    if name in _UTF8 or name == "binary":
        return raw.decode()
    answer, out, ends = to_utf8(name, np.frombuffer(bytearray(raw), np.uint8), np.array([0, len(raw)], np.int32))
    if answer[0]:
        raise ValueError(f"{raw.hex()} is not text in {name}")
    return out[: ends[-1]].tobytes().decode()


@cache
def _alphabet(name: str, *, unique: bool) -> npt.NDArray[np.int64]:
    points = [ord(character) for character in alphabet(name)]
    return np.array(first_of_each(points, {REPLACEMENT}) if unique else points, np.int64)
