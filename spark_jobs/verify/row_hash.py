"""The first 64 bits of SHA-256, and CRC32, of many texts: compiled, without a Python object for each.

SHA-256, because every server has it (MySQL 9.6 moved MD5 out), and CRC32 is too short: 64 bits cannot be equal by
chance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import types

from cdc_core.binlog.checksum import crc32
from cdc_core.compiled.kernel import BYTES, LONGS, Bytes, Longs, helper, kernel

Words = npt.NDArray[np.uint64]
_u32 = cast("Callable[[Any], Any]", np.uint32)


def _roots(power: int, count: int) -> npt.NDArray[np.uint32]:
    """The first 32 bits of the fractions of the roots of the first primes (FIPS 180-4, 4.2.2 and 5.3.3)."""
    primes = [n for n in range(2, 312) if all(n % d for d in range(2, int(n**0.5) + 1))][:count]
    return np.array([_root(prime << 32 * power, power) & 0xFFFFFFFF for prime in primes], np.uint32)


def _root(number: int, power: int) -> int:
    low, high = 0, 1 << 64
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**power <= number else (low, middle)
    return low


_K, _START = _roots(3, 64), _roots(2, 8)


@helper
def _turned(value: Any, by: int) -> Any:
    return _u32(value >> _u32(by)) | _u32(value << _u32(32 - by))


@helper
def _compress(state: Any, block: Any, w: Any) -> None:
    for k in range(16):
        at = 4 * k
        w[k] = _u32(_u32(block[at]) << _u32(24) | _u32(block[at + 1]) << _u32(16)
                    | _u32(block[at + 2]) << _u32(8) | _u32(block[at + 3]))  # fmt: skip
    for k in range(16, 64):
        x, y = w[k - 15], w[k - 2]
        s0 = _turned(x, 7) ^ _turned(x, 18) ^ (x >> _u32(3))
        s1 = _turned(y, 17) ^ _turned(y, 19) ^ (y >> _u32(10))
        w[k] = _u32(w[k - 16] + s0 + w[k - 7] + s1)
    a, b, c, d, e, f, g, h = state[0], state[1], state[2], state[3], state[4], state[5], state[6], state[7]
    for k in range(64):
        s1 = _turned(e, 6) ^ _turned(e, 11) ^ _turned(e, 25)
        t1 = _u32(h + s1 + ((e & f) ^ (~e & g)) + _K[k] + w[k])
        s0 = _turned(a, 2) ^ _turned(a, 13) ^ _turned(a, 22)
        t2 = _u32(s0 + ((a & b) ^ (a & c) ^ (b & c)))
        h, g, f, e = g, f, e, _u32(d + t1)
        d, c, b, a = c, b, a, _u32(t1 + t2)
    state[0] += a
    state[1] += b
    state[2] += c
    state[3] += d
    state[4] += e
    state[5] += f
    state[6] += g
    state[7] += h


@kernel(types.void(BYTES, LONGS, types.uint64[::1]))
def _crc32(data: Bytes, offsets: Longs, out: Words) -> None:
    for row in range(len(out)):
        out[row] = np.uint64(crc32(data, offsets[row], offsets[row + 1]))


@kernel(types.void(BYTES, LONGS, types.uint64[::1]))
def _sha256(data: Bytes, offsets: Longs, out: Words) -> None:
    words, block = np.empty(64, np.uint32), np.empty(64, np.uint8)
    state = np.empty(8, np.uint32)
    for row in range(len(out)):
        at, end = offsets[row], offsets[row + 1]
        length, padded = end - at, False
        state[:] = _START
        while True:
            here = min(64, end - at)
            for k in range(here):
                block[k] = data[at + k]
            at += here
            if here < 64:
                for k in range(here, 64):
                    block[k] = 0
                if not padded:
                    block[here] = 0x80
                    padded = True
                    here += 1
                if here <= 56:
                    for k in range(8):
                        block[63 - k] = np.uint8((length * 8 >> 8 * k) & 0xFF)
                    _compress(state, block, words)
                    break
            _compress(state, block, words)
            if padded:
                here = 0
        out[row] = np.uint64(state[0]) << np.uint64(32) | np.uint64(state[1])


def row_hashes(texts: pa.Array) -> Words:
    """The first 64 bits of the SHA-256 of each large_binary; none is NULL."""
    data, offsets = _parts(texts)
    found = np.empty(len(texts), np.uint64)
    _sha256(data, offsets, found)
    return found


def checksums(texts: pa.Array) -> Words:
    """The CRC32 of each large_binary; none is NULL."""
    data, offsets = _parts(texts)
    found = np.empty(len(texts), np.uint64)
    _crc32(data, offsets, found)
    return found


def _parts(texts: pa.Array) -> tuple[Bytes, Longs]:
    _, offsets, data = texts.buffers()
    here = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8), here
