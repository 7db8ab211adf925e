"""Keyed 128-bit hashes of row values, for kernels: SipHash-1-3's state over the columns, so that nobody who writes to
the source can provoke collisions.

A length precedes each value: NULL differs from empty, and ("a", "bc") from ("ab", "c"). Rows are equal when their
hashes are: two of 2^32 keys collide with a probability of about 2^-65. Bytes are compared, with one exception: in a
key, 0.0 and -0.0 are one value, as for MySQL's index and for Spark's join.
"""

from __future__ import annotations

import secrets
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import types

from cdc_core.binlog.row_image import STARTS
from cdc_core.compiled.kernel import BYTES, INTS, OUT_BYTES, OUT_INTS, WORDS, int64, kernel, named
from cdc_core.compiled.memory import little

_WORD = types.uint64
_STATE = types.UniTuple(_WORD, 4)  # type: ignore[no-untyped-call]
_HASH = types.UniTuple(_WORD, 2)  # type: ignore[no-untyped-call]
_FINAL = np.uint64(0xFF)
FLOATING = 1 << 16  # is added to the width of a FLOAT or DOUBLE whose zeros are equal


class Images(NamedTuple):
    """A chunk's row images (see `rows.images`); `base` is the ordinal of the first."""

    data: Any
    starts: Any
    op: Any
    base: int


class HashedColumns(NamedTuple):
    """The columns that distinguish rows. `bounds` for a key of one integer: 1 signed, 2 unsigned; else 0."""

    columns: Any
    layout: Any  # of all columns: `schema.row_layout`, with `FLOATING`
    bounds: int
    seed: Any


IMAGES = named(Images, OUT_BYTES, STARTS, OUT_BYTES, types.int64)
HASHED_COLUMNS = named(HashedColumns, OUT_INTS, OUT_INTS, types.int64, WORDS)


def new_seed() -> npt.NDArray[np.uint64]:
    """Two random words."""
    return np.frombuffer(secrets.token_bytes(16), np.uint64)


@kernel(_WORD(_WORD, _WORD))
def _turn(word: Any, count: Any) -> Any:
    return word << count | word >> (np.uint64(64) - count)


@kernel(_STATE(_STATE))
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


@kernel(_STATE(_STATE, _WORD))
def _absorb(state: Any, word: Any) -> Any:
    a, b, c, d = _round((state[0], state[1], state[2], state[3] ^ word))
    return a ^ word, b, c, d


@kernel(_STATE(_STATE))
def _three_rounds(state: Any) -> Any:
    return _round(_round(_round(state)))


@kernel(_WORD(BYTES, types.int64, types.int64))
def _floating(data: Any, at: int, size: int) -> Any:
    """The bits of a FLOAT or DOUBLE; those of 0.0 for -0.0."""
    bits, sign = np.uint64(little(data, at, size)), np.uint64(1) << np.uint64(8 * size - 1)
    return np.uint64(0) if bits == sign else bits


@kernel(_HASH(BYTES, STARTS, types.int64, INTS, INTS, WORDS))
def hash_row(data: Any, starts: Any, image: int, columns: Any, layout: Any, seed: Any) -> Any:
    """The hash of the columns' values in one image. A value that is absent counts as NULL. (Takes plain arrays: each
    field that a kernel gets from a tuple costs it a reference count, here for every row.)"""
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
        if size >= FLOATING:
            size -= FLOATING
            state = _absorb(_absorb(state, np.uint64(size + 1)), _floating(data, at, size))
            continue
        if size < 0:
            prefix = -size & 15
            size = little(data, at, prefix)
            at += prefix
        state = _absorb(state, np.uint64(size + 1))
        for i in range(0, size, 8):
            state = _absorb(state, np.uint64(little(data, at + i, min(8, size - i))))
    a, b, c, d = _three_rounds((state[0], state[1], state[2] ^ _FINAL, state[3]))
    return a ^ b, c ^ d
