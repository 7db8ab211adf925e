"""MariaDB's UUID, INET4 and INET6: BINARY(16) or BINARY(4) in the log, text in SELECT and here.

Only the catalogue distinguishes them from BINARY (`Column.is_address`). Where it cannot be read, or no longer fits the
event, they are bytes.
Source: MariaDB's `Inet6::to_string`: the longest run of zeros is `::`, be it of one group; IPv4 at the end in dots.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdc_core.compiled.fault import ANSWER, MAX_TEXT, Answer, Fault
from cdc_core.compiled.kernel import OUT_BYTES, OUT_INTS, Bytes, helper, int64, kernel
from cdc_core.rows.columns.arrays import variable
from cdc_core.rows.columns.cells import Cells
from cdc_core.rows.columns.strings import texts
from cdc_core.schema.table import Column

_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
_UUID_PLACES = np.array([place for place in range(36) if place not in (8, 13, 18, 23)])
_COLON, _DOT = 0x3A, 0x2E
_LONGEST = 45  # of an address as text


def arrow_type(_: Column) -> pa.DataType:
    return pa.string()


def decode(cells: Cells) -> pa.Array:
    width, present = cells.column.meta, cells.present()
    if _LONGEST * len(cells) > MAX_TEXT:
        cells.check((Fault.TOO_LARGE, 0))
    raw = texts(cells, 1, width)[0]  # trailing zero bytes are left out of the log
    lengths, offsets = np.zeros(len(cells), np.int64), np.zeros(len(cells) + 1, np.int32)
    if cells.column.column_type.lower().startswith("uuid"):
        out = _uuids(raw.reshape(-1, width))
        lengths[present.view(bool)] = 36
    else:
        out, ends = np.empty(_LONGEST * (len(raw) // width), np.uint8), np.empty(len(raw) // width, np.int32)
        cells.check((_inet6 if width == 16 else _inet4)(raw, out, ends))
        lengths[present.view(bool)] = np.diff(ends, prepend=0)
    offsets[1:] = np.cumsum(lengths)
    return variable(pa.string(), offsets, out, present)


def _uuids(raw: npt.NDArray[np.uint8]) -> Bytes:
    """32 digits and four hyphens each."""
    out = np.full((len(raw), 36), ord("-"), np.uint8)
    out[:, _UUID_PLACES] = _DIGITS[np.stack([raw >> 4, raw & 15], axis=2).reshape(len(raw), 32)]
    return out.reshape(-1)


@helper
def _put_number(number: int, base: int, out: Bytes, at: int) -> int:
    """Writes a number below 65536 without leading zeros; returns the end."""
    scale = 1
    while number // scale >= base:
        scale *= base
    while scale:
        out[at] = _DIGITS[number // scale % base]
        at += 1
        scale //= base
    return at


@helper
def _put_inet4(raw: Bytes, start: int, out: Bytes, at: int) -> int:
    for k in range(4):
        if k:
            out[at] = _DOT
            at += 1
        at = _put_number(int64(raw[start + k]), 10, out, at)
    return at


@kernel(ANSWER(OUT_BYTES, OUT_BYTES, OUT_INTS))
def _inet4(raw: Bytes, out: Bytes, ends: npt.NDArray[np.int32]) -> Answer:
    at = 0
    for i in range(len(ends)):
        at = _put_inet4(raw, 4 * i, out, at)
        ends[i] = at
    return Fault.OK, 0


@helper
def _group(raw: Bytes, start: int, number: int) -> int:
    return int64(raw[start + 2 * number]) << 8 | int64(raw[start + 2 * number + 1])


@helper
def _longest_gap(raw: Bytes, start: int) -> tuple[int, int]:
    """Where the first of the longest runs of zero groups begins, and its length; -1 and 0 without one."""
    gap, most, run = -1, 0, 0
    for g in range(8):
        run = run + 1 if _group(raw, start, g) == 0 else 0
        if run > most:
            gap, most = g + 1 - run, run
    return gap, most


@kernel(ANSWER(OUT_BYTES, OUT_BYTES, OUT_INTS))
def _inet6(raw: Bytes, out: Bytes, ends: npt.NDArray[np.int32]) -> Answer:
    at = 0
    for i in range(len(ends)):
        start = 16 * i
        gap, length = _longest_gap(raw, start)
        mapped = gap == 0 and (length == 6 or (length == 5 and _group(raw, start, 5) == 0xFFFF))
        g = 0
        while g < 8:
            if g == gap:
                if g == 0:
                    out[at] = _COLON
                    at += 1
                out[at] = _COLON
                at += 1
                g += length
            elif g == 6 and mapped:
                at = _put_inet4(raw, start + 12, out, at)
                g = 8
            else:
                at = _put_number(_group(raw, start, g), 16, out, at)
                g += 1
                if g < 8:
                    out[at] = _COLON
                    at += 1
        ends[i] = at
    return Fault.OK, 0
