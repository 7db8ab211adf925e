"""Arrow arrays over numpy's buffers, without a copy. (`pa.array` would load pandas: 45 MB.)"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdc_core.compiled.kernel import Bytes


def fixed(kind: pa.DataType, values: npt.NDArray[Any], present: Bytes) -> pa.Array:
    """An array of a type of fixed width."""
    return pa.Array.from_buffers(kind, len(present), [validity(present), pa.py_buffer(values)])


def variable(kind: pa.DataType, offsets: npt.NDArray[np.int32], out: Bytes, present: Bytes) -> pa.Array:
    """An array of strings or binaries: value i is `out[offsets[i]:offsets[i + 1]]`."""
    return pa.Array.from_buffers(kind, len(present), [validity(present), pa.py_buffer(offsets), pa.py_buffer(out)])


def numbers(values: npt.NDArray[Any], kind: pa.DataType | None = None) -> pa.Array:
    """An array of numbers without NULL."""
    return pa.Array.from_buffers(kind or pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])


def strings(values: Iterable[str | None]) -> pa.Array:
    """An array of a few strings."""
    coded = [None if value is None else value.encode() for value in values]
    offsets = np.cumsum([0, *(len(value or b"") for value in coded)]).astype(np.int32)
    present = np.array([value is not None for value in coded], np.uint8)
    out = np.frombuffer(b"".join(value or b"" for value in coded), np.uint8)
    return variable(pa.string(), offsets, out, present)


def validity(present: Bytes) -> pa.Buffer | None:
    """Arrow's bitmap of one byte a value; None when nothing is NULL."""
    return None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
