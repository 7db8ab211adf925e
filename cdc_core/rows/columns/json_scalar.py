"""The plain values of binary JSON: literals, numbers, quoted strings. Callers leave room in `out`."""

from __future__ import annotations

import numpy as np

from cdc_core.compiled.fault import Answer, Fault
from cdc_core.compiled.kernel import Bytes, helper, int64
from cdc_core.compiled.memory import little
from cdc_core.rows.columns.json_double import put_double, put_unsigned

NUMBER_SIZES = (
    0,
    0,
    0,
    0,
    1,
    2,
    2,
    4,
    4,
    8,
    8,
    8,
)  # by type: literal, int16, uint16, int32, uint32, int64, uint64, double
_DOUBLE = 0x0B
_INFINITE = np.uint64(0x7FF << 52)
_LITERALS = np.frombuffer(b"null\0true\0false", np.uint8)
_BOUNDS = (0, 4, 5, 9, 10, 15)


def _escapes() -> Bytes:
    """0 for a byte that stands for itself, 1 for one written \\u00xx, else the letter after a backslash."""
    table = np.zeros(256, np.uint8)
    table[:0x20] = 1
    for byte, letter in zip(b'\b\t\n\f\r"\\', b'btnfr"\\', strict=True):
        table[byte] = letter
    return table


_ESCAPES = _escapes()


@helper
def read_size(data: Bytes, start: int, end: int) -> tuple[int, int]:
    """A length of one to five bytes, seven bits each, and what follows it; -1 when that goes beyond `end`."""
    length = int64(0)
    for k in range(5):
        if start + k >= end:
            break
        byte = int64(data[start + k])
        length |= (byte & 0x7F) << (7 * k)
        if byte < 0x80:
            low = start + k + 1
            return (length if length <= end - low else -1), low
    return -1, start


@helper
def put_literal(number: int, out: Bytes, at: int) -> Answer:
    """0 null, 1 true, 2 false."""
    if number > 2:
        return Fault.MALFORMED, at
    for k in range(_BOUNDS[2 * number], _BOUNDS[2 * number + 1]):
        out[at] = _LITERALS[k]
        at += 1
    return Fault.OK, at


@helper
def put_number(data: Bytes, kind: int, value: int, end: int, out: Bytes, at: int) -> Answer:
    """Odd types below double are signed, even ones not."""
    size = NUMBER_SIZES[kind]
    if value + size > end:
        return Fault.SHORT, at
    word = little(data, value, size)
    if kind == _DOUBLE:
        bits = np.uint64(word)
        if bits & _INFINITE == _INFINITE:
            return Fault.MALFORMED, at
        return Fault.OK, put_double(bits, out, at)
    if kind & 1:
        word = (word << (64 - 8 * size)) >> (64 - 8 * size)
        if word < 0:
            out[at] = 0x2D
            at += 1
            return Fault.OK, put_unsigned(~np.uint64(word) + np.uint64(1), out, at)
    return Fault.OK, put_unsigned(np.uint64(word), out, at)


@helper
def put_quoted(data: Bytes, low: int, high: int, out: Bytes, at: int) -> int:
    """A string in double quotes, escaped as the server does; at most six bytes for one."""
    out[at] = 0x22
    at += 1
    for k in range(np.uint64(low), np.uint64(high)):
        byte = data[k]
        escape = _ESCAPES[byte]
        if escape == 0:
            out[np.uint64(at)] = byte
            at += 1
            continue
        out[at] = 0x5C
        if escape > 1:
            out[at + 1] = escape
            at += 2
            continue
        out[at + 1], out[at + 2], out[at + 3] = 0x75, 0x30, 0x30
        out[at + 4] = 0x30 + (byte >> 4)
        out[at + 5] = put_hex(byte & 15)
        at += 6
    out[at] = 0x22
    return at + 1


@helper
def put_hex(digit: int) -> int:
    return digit + (0x30 if digit < 10 else 0x57)
