"""Reading and copying bytes in kernels. Unsigned indices spare numba the look for negative ones: three times as fast.

Nothing here checks bounds: the caller knows that the bytes are there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from cdc_core.compiled.kernel import BYTES, OUT_BYTES, int64, kernel


@kernel(types.uint64(BYTES, types.uint64))
def eight(data: Any, at: Any) -> Any:
    """Eight bytes as a little-endian number. (Written out like this, LLVM makes one load of them.)"""
    return (
        np.uint64(data[at])
        | np.uint64(data[at + np.uint64(1)]) << np.uint64(8)
        | np.uint64(data[at + np.uint64(2)]) << np.uint64(16)
        | np.uint64(data[at + np.uint64(3)]) << np.uint64(24)
        | np.uint64(data[at + np.uint64(4)]) << np.uint64(32)
        | np.uint64(data[at + np.uint64(5)]) << np.uint64(40)
        | np.uint64(data[at + np.uint64(6)]) << np.uint64(48)
        | np.uint64(data[at + np.uint64(7)]) << np.uint64(56)
    )


@kernel(types.int64(BYTES, types.int64, types.int64))
def little(data: Any, at: int, size: int) -> int:
    """`size` bytes, at most eight, as a little-endian number; eight are read as signed."""
    start = np.uint64(at)
    if size == 1:
        return int64(data[start])
    if size == 2:
        return int64(data[start]) | int64(data[start + np.uint64(1)]) << 8
    if size == 8:
        return int64(eight(data, start))
    value = np.uint64(0)
    for i in range(np.uint64(size)):
        value |= np.uint64(data[start + np.uint64(i)]) << np.uint64(8 * i)
    return int64(value)


@kernel(types.void(OUT_BYTES, types.int64, BYTES, types.int64, types.int64))
def move(into: Any, place: int, data: Any, start: int, size: int) -> None:
    """Copies `data[start:start + size]` to `place`."""
    to, source = np.uint64(place), np.uint64(start)
    for k in range(np.uint64(max(size, 0))):
        into[to + np.uint64(k)] = data[source + np.uint64(k)]
