"""Values in binary JSON of types that JSON lacks: decimals, dates and times, and all others in base64."""

from __future__ import annotations

import numpy as np

from cdc_core.compiled.fault import Answer, Fault
from cdc_core.compiled.kernel import Bytes, helper, int64
from cdc_core.compiled.memory import little
from cdc_core.rows.columns.decimals import decimal_text
from cdc_core.rows.columns.json_double import put_unsigned
from cdc_core.rows.columns.json_scalar import read_size

_TIMESTAMP, _DATE, _TIME, _DATETIME, _DECIMAL = 7, 10, 11, 12, 246
_LINE = 19  # groups of four letters, after which the server's base64 has a line feed
_PREFIX = np.frombuffer(b'"base64:type', np.uint8)
_ALPHABET = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)


@helper
def _put_decimal(data: Bytes, low: int, high: int, out: Bytes, at: int) -> Answer:
    if low + 2 > high or data[low] > 65 or data[low + 1] > data[low]:
        return Fault.MALFORMED, at
    end = decimal_text(data, low + 2, high, int64(data[low]), int64(data[low + 1]), out, at)
    return (Fault.OK, end) if end >= 0 else (-end, at)


@helper
def _put_temporal(kind: int, packed: int, out: Bytes, at: int) -> Answer:
    """Bits from the left: 17 of year * 13 + month and 5 of day, which TIME lacks; hour, 6 of minute, 6 of second; 24 of
    microseconds."""
    out[at] = 0x22
    at += 1
    if packed < 0 and kind == _TIME:
        out[at] = 0x2D
        at += 1
        packed = -packed
    if packed < 0:
        return Fault.MALFORMED, at
    clock, micros = packed >> 24, packed & 0xFFFFFF
    if kind != _TIME:
        months = clock >> 22
        at = _put_padded(months // 13, 4, 0x2D, out, at)
        at = _put_padded(months % 13, 2, 0x2D, out, at)
        at = _put_padded(clock >> 17 & 31, 2, 0x22 if kind == _DATE else 0x20, out, at)
        clock &= 0x1FFFF
    if kind != _DATE:
        at = _put_padded(clock >> 12, 2, 0x3A, out, at)
        at = _put_padded(clock >> 6 & 63, 2, 0x3A, out, at)
        at = _put_padded(clock & 63, 2, 0x2E, out, at)
        at = _put_padded(micros, 6, 0x22, out, at)
    return Fault.OK, at


@helper
def _put_padded(number: int, width: int, after: int, out: Bytes, at: int) -> int:
    """A number with leading zeros up to `width`, and what stands after it."""
    limit = 10
    for _ in range(width - 1):
        if number < limit:
            out[at] = 0x30
            at += 1
        limit *= 10
    end = put_unsigned(np.uint64(number), out, at)
    out[end] = after
    return end + 1


@helper
def _put_base64(kind: int, data: Bytes, low: int, high: int, out: Bytes, at: int) -> int:
    for k in range(len(_PREFIX)):
        out[at] = _PREFIX[k]
        at += 1
    at = put_unsigned(np.uint64(kind), out, at)
    out[at] = 0x3A
    at += 1
    for group in range((high - low + 2) // 3):
        if group and group % _LINE == 0:
            out[at], out[at + 1] = 0x5C, 0x6E
            at += 2
        start = low + 3 * group
        bits = 0
        for k in range(3):
            bits = bits << 8 | (int64(data[start + k]) if start + k < high else 0)
        for k in range(4):
            out[at + k] = _ALPHABET[bits >> (18 - 6 * k) & 63] if start + k <= high else 0x3D
        at += 4
    out[at] = 0x22
    return at + 1


@helper
def put_opaque(data: Bytes, value: int, end: int, out: Bytes, at: int) -> Answer:
    """A field type, a length and that type's own bytes."""
    if value >= end:
        return Fault.MALFORMED, at
    kind = int64(data[value])
    length, low = read_size(data, value + 1, end)
    if length < 0:
        return Fault.MALFORMED, at
    if kind == _DECIMAL:
        return _put_decimal(data, low, low + length, out, at)
    if kind in (_TIMESTAMP, _DATE, _TIME, _DATETIME):
        if length != 8:
            return Fault.MALFORMED, at
        return _put_temporal(kind, little(data, low, 8), out, at)
    return Fault.OK, _put_base64(kind, data, low, low + length, out, at)
