"""Reading and copying bytes in kernels. Unsigned indices spare numba the look for negative ones: three times as fast.

Nothing here checks bounds: the caller knows that the bytes are there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from cdc_core.compiled.kernel import BYTES, OUT_BYTES, int64, kernel


@kernel(types.int64(BYTES, types.int64, types.int64))
def little(data: Any, at: int, size: int) -> int:
    """`size` bytes, at most eight, as a little-endian number; eight are read as signed."""
    value, start = np.uint64(0), np.uint64(at)
    for i in range(np.uint64(size)):
        value |= np.uint64(data[start + np.uint64(i)]) << np.uint64(8 * i)
    return int64(value)


@kernel(types.void(OUT_BYTES, types.int64, BYTES, types.int64, types.int64))
def move(into: Any, place: int, data: Any, start: int, size: int) -> None:
    """Copies `data[start:start + size]` to `place`."""
    to, source = np.uint64(place), np.uint64(start)
    for k in range(np.uint64(max(size, 0))):
        into[to + np.uint64(k)] = data[source + np.uint64(k)]
