"""Keyed 128-bit hashes of row values: SipHash-1-3's state over columns, so that no source can provoke collisions.

Each value is preceded by a mark of its own: NULL differs from empty, and ("a", "bc") from ("ab", "c").
Equality by hash alone: two of 2^32 keys collide with a probability of about 2^-65.
"""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit, types

from cdc_core.binlog.images import BYTES, LAYOUT, STARTS, int64, little

_WORD = types.uint64
_STATE = types.UniTuple(_WORD, 4)  # type: ignore[no-untyped-call]
_HASH = types.UniTuple(_WORD, 2)  # type: ignore[no-untyped-call]
_FINAL = np.uint64(0xFF)


def new_seed() -> npt.NDArray[np.uint64]:
    """Two random words."""
    return np.frombuffer(secrets.token_bytes(16), np.uint64)


@njit(_WORD(_WORD, _WORD), nogil=True, cache=True)
def _turn(word: Any, count: Any) -> Any:
    return word << count | word >> (np.uint64(64) - count)


@njit(_STATE(_STATE), nogil=True, cache=True)
def _round(state: Any) -> Any:
    a, b, c, d = state
    a += b
    b = _turn(b, np.uint64(13)) ^ a
    a = _turn(a, np.uint64(32))
    c += d
    d = _turn(d, np.uint64(16)) ^ c
    a += d
    d = _turn(d, np.uint64(21)) ^ a
    c += b
    b = _turn(b, np.uint64(17)) ^ c
    c = _turn(c, np.uint64(32))
    return a, b, c, d


@njit(_STATE(_STATE, _WORD), nogil=True, cache=True)
def _absorb(state: Any, word: Any) -> Any:
    a, b, c, d = _round((state[0], state[1], state[2], state[3] ^ word))
    return a ^ word, b, c, d


@njit(_STATE(_STATE), nogil=True, cache=True)
def _three(state: Any) -> Any:
    return _round(_round(_round(state)))


@njit(
    _HASH(BYTES, STARTS, types.int64, LAYOUT, LAYOUT, types.Array(types.uint64, 1, "C", readonly=True)),
    nogil=True,
    cache=True,
)
def hash_row(data: Any, starts: Any, image: int, columns: Any, layout: Any, seed: Any) -> Any:
    """Hash of these columns' values in one image. A value that is NULL or absent counts as NULL."""
    state = (
        seed[0] ^ np.uint64(0x736F6D6570736575),
        seed[1] ^ np.uint64(0x646F72616E646F6D),
        seed[0] ^ np.uint64(0x6C7967656E657261),
        seed[1] ^ np.uint64(0x7465646279746573),
    )
    for column in columns:
        at = starts[column, image]
        if at < 0:
            state = _absorb(state, np.uint64(0))
            continue
        size = int64(layout[column])
        if size < 0:
            prefix = -size & 15
            size = little(data, at, prefix)
            at += prefix
        state = _absorb(state, np.uint64(size + 1))
        for i in range(0, size, 8):
            state = _absorb(state, np.uint64(little(data, at + i, min(8, size - i))))
    a, b, c, d = _three((state[0], state[1], state[2] ^ _FINAL, state[3]))
    return a ^ b, c ^ d
