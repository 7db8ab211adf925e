"""CRC32 as binlog events carry it (polynomial 0xEDB88320), compiled, sixty-four or sixteen bytes a step.

Callable from other compiled code, without the GIL. Gives the same as `zlib.crc32`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types

from cdc_core.compiled import carryless
from cdc_core.compiled.kernel import BYTES, kernel
from cdc_core.compiled.memory import eight

_STEP = 16
_POLYNOMIAL = 0xEDB88320
_FOLDS = carryless.AVAILABLE


def _tables() -> npt.NDArray[np.uint32]:
    """Row k holds the effect of one byte that is followed by k others."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(_POLYNOMIAL), table >> 1).astype(np.uint32)
    rows = [table]
    for _ in range(_STEP - 1):
        rows.append((rows[-1] >> 8) ^ table[rows[-1] & 0xFF])
    return np.ascontiguousarray(np.stack(rows))


_T = _tables()
_fold: Any = carryless.fold
_FACTORS = carryless.factors(_POLYNOMIAL)


@kernel(types.uint32(types.uint64, types.uint64))
def _sixteen(one: Any, two: Any) -> Any:
    """The effect of sixteen bytes, to whose first four the checksum so far was added."""
    crc = _T[15, one & np.uint64(0xFF)]
    for k in range(1, 8):
        crc ^= _T[15 - k, one >> np.uint64(8 * k) & np.uint64(0xFF)]
    for k in range(8):
        crc ^= _T[7 - k, two >> np.uint64(8 * k) & np.uint64(0xFF)]
    return np.uint32(crc)


@kernel(types.int64(BYTES, types.int64, types.int64))
def crc32(data: Any, start: int, stop: int) -> int:
    """The checksum of `data[start:stop]`."""
    at, end, crc = np.uint64(start), np.uint64(stop), np.uint32(0xFFFFFFFF)
    if _FOLDS and end - at >= np.uint64(carryless.LEAST):
        one, two = _fold(data, at, end, np.uint64(crc), _FACTORS)
        crc = _sixteen(one, two)
        at = end - (end - at) % np.uint64(carryless.LANE)
    while at + np.uint64(_STEP) <= end:
        crc = _sixteen(eight(data, at) ^ np.uint64(crc), eight(data, at + np.uint64(8)))
        at += np.uint64(_STEP)
    while at < end:
        crc = np.uint32(crc >> np.uint32(8)) ^ _T[0, data[at] ^ np.uint8(crc & np.uint32(0xFF))]
        at += np.uint64(1)
    return int(np.int64(np.uint32(~crc)))
