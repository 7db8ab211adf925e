"""SHA-256 of many values behind one salt, as hexadecimal digits: compiled, without the GIL.

Gives the same as `hashlib.sha256(salt + value).hexdigest()`. Source: FIPS 180-4.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types

from cdc_core.compiled.kernel import BYTES, LONGS, OUT_BYTES, Bytes, Longs, bare_helper, kernel

WIDTH = 64  # digits of a hash
_BLOCK = np.uint64(64)  # bytes
_PRIMES = [n for n in range(2, 312) if all(n % k for k in range(2, n))]


def _root(number: int, power: int) -> int:
    """The first 32 bits of the fraction of a square or cube root."""
    scaled, root = number << 32 * power, 0
    for bit in reversed(range(40)):
        if (root | 1 << bit) ** power <= scaled:
            root |= 1 << bit
    return root & 0xFFFFFFFF


_BEGIN = np.array([_root(prime, 2) for prime in _PRIMES[:8]], np.uint32)
_ROUNDS = np.array([_root(prime, 3) for prime in _PRIMES[:64]], np.uint32)
_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)


@bare_helper
def _turned(word: Any, count: Any) -> Any:
    return word >> np.uint32(count) | word << np.uint32(32 - count)


@bare_helper
def _absorbed(state: Any, words: Any) -> Any:
    """The state after one block, of which the first 16 words are set."""
    for i in range(np.uint64(16), np.uint64(64)):
        old, new = words[i - np.uint64(15)], words[i - np.uint64(2)]
        small = _turned(old, 7) ^ _turned(old, 18) ^ old >> np.uint32(3)
        large = _turned(new, 17) ^ _turned(new, 19) ^ new >> np.uint32(10)
        words[i] = np.uint32(words[i - np.uint64(16)] + small + words[i - np.uint64(7)] + large)
    a, b, c, d, e, f, g, h = state
    for i in range(np.uint64(64)):
        large = _turned(e, 6) ^ _turned(e, 11) ^ _turned(e, 25)
        one = np.uint32(h + large + (g ^ e & (f ^ g)) + _ROUNDS[i] + words[i])
        small = _turned(a, 2) ^ _turned(a, 13) ^ _turned(a, 22)
        two = np.uint32(small + (a & b ^ a & c ^ b & c))
        h, g, f, e = g, f, e, np.uint32(d + one)
        d, c, b, a = c, b, a, np.uint32(one + two)
    return (
        np.uint32(state[0] + a), np.uint32(state[1] + b), np.uint32(state[2] + c), np.uint32(state[3] + d),
        np.uint32(state[4] + e), np.uint32(state[5] + f), np.uint32(state[6] + g), np.uint32(state[7] + h),
    )  # fmt: skip


@kernel(types.void(BYTES, BYTES, LONGS, OUT_BYTES, types.uint32[::1], OUT_BYTES), bare=True)
def _hash(salt: Any, data: Any, offsets: Any, out: Any, words: Any, block: Any) -> None:
    """`words` and `block` are room for one block."""
    head = np.uint64(len(salt))
    for row in range(np.uint64(len(offsets) - 1)):
        start, end = np.uint64(offsets[row]), np.uint64(offsets[row + np.uint64(1)])
        size = end - start + head
        state = (_BEGIN[0], _BEGIN[1], _BEGIN[2], _BEGIN[3], _BEGIN[4], _BEGIN[5], _BEGIN[6], _BEGIN[7])
        low = np.uint64(0)
        while low < size + np.uint64(9):
            at = np.uint64(0)
            while at < _BLOCK and low + at < head:
                block[at] = salt[low + at]
                at += np.uint64(1)
            while at < _BLOCK and low + at < size:
                block[at] = data[start + low + at - head]
                at += np.uint64(1)
            if at < _BLOCK and low + at == size:
                block[at] = np.uint8(0x80)
                at += np.uint64(1)
            while at < _BLOCK:
                block[at] = np.uint8(0)
                at += np.uint64(1)
            for i in range(np.uint64(16)):
                at = np.uint64(4) * i
                words[i] = (
                    np.uint32(block[at]) << np.uint32(24)
                    | np.uint32(block[at + np.uint64(1)]) << np.uint32(16)
                    | np.uint32(block[at + np.uint64(2)]) << np.uint32(8)
                    | np.uint32(block[at + np.uint64(3)])
                )
            if low + _BLOCK >= size + np.uint64(9):  # the last one ends with the length in bits
                words[14], words[15] = np.uint32(size >> np.uint64(29)), np.uint32(size << np.uint64(3))
            state = _absorbed(state, words)
            low += _BLOCK
        place = np.uint64(WIDTH) * row
        for word in state:
            for k in range(np.uint32(8)):
                out[place] = _DIGITS[word >> (np.uint32(28) - np.uint32(4) * k) & np.uint32(15)]
                place += np.uint64(1)


def hashes(salt: bytes, data: Bytes, offsets: Longs) -> npt.NDArray[np.uint8]:
    """The digits of each value's hash, one after the other. Value i is `data[offsets[i]:offsets[i + 1]]`."""
    out = np.empty(WIDTH * (len(offsets) - 1), np.uint8)
    words, block = np.empty(64, np.uint32), np.empty(64, np.uint8)
    _hash(np.frombuffer(salt or b"\0", np.uint8)[: len(salt)], data, offsets, out, words, block)
    return out
