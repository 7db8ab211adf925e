"""Doubles as the server prints them: compiled, without a Python object for each."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numba import types

from cdc_core.compiled.kernel import OUT_BYTES, OUT_LONGS, WORDS, Bytes, Longs, helper, kernel
from cdc_core.rows.columns.json_double import Word, put_double, put_unsigned

_LONGEST = 40
_WIDTH = 22  # characters of a DOUBLE as text, but for its sign


def double_text(values: pa.Array) -> pa.Array:
    """As large_binary. A whole number has no point; -0.0 has its sign."""
    present = values.is_valid()
    bits = np.ascontiguousarray(values.fill_null(0).cast(pa.float64()).to_numpy(zero_copy_only=False)).view(np.uint64)
    offsets, out = np.zeros(len(bits) + 1, np.int64), np.empty(max(1, _LONGEST * len(bits)), np.uint8)
    _print(bits, offsets, out)
    text = pa.Array.from_buffers(pa.large_binary(), len(bits), [None, pa.py_buffer(offsets), pa.py_buffer(out)])
    return text if values.null_count == 0 else pa.compute.if_else(present, text, pa.scalar(None, pa.large_binary()))


@helper
def _shortened(out: Bytes, at: int, end: int) -> int:
    """With an exponent, where `0.` and zeros make a number longer than the server lets it be; returns the end."""
    at += out[at] == 0x2D
    if end - at <= _WIDTH or out[at] != 0x30:
        return end
    first = at + 2
    while out[first] == 0x30:
        first += 1
    exponent, digits = first - at - 1, end - first
    out[at] = out[first]
    if digits > 1:
        out[at + 1] = 0x2E
        for k in range(1, digits):
            out[at + 1 + k] = out[first + k]
        at += digits + 1
    else:
        at += 1
    out[at], out[at + 1] = 0x65, 0x2D
    return put_unsigned(Word(exponent), out, at + 2)


@kernel(types.void(WORDS, OUT_LONGS, OUT_BYTES))
def _print(bits: np.ndarray[tuple[int], np.dtype[np.uint64]], offsets: Longs, out: Bytes) -> None:
    at = 0
    for number in range(len(bits)):
        at = _shortened(out, at, put_double(Word(bits[number]), out, at))
        if out[at - 1] == 0x30 and out[at - 2] == 0x2E:  # `.0`
            at -= 2
        offsets[number + 1] = at
