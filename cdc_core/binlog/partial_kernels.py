"""Which images belong to one row, where images leave columns out: a compiled pass over row images."""

from __future__ import annotations

from typing import Any

from numba import njit, types

from cdc_core.binlog.events import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from cdc_core.binlog.hashing import hash_row
from cdc_core.binlog.images import ABSENT, BYTES, LAYOUT, STARTS, int64
from cdc_core.binlog.net_kernels import DELETES, GROUPS, INSERTS, UPDATES, entry, widen

NOBODY = -1  # in `owner`: no row has the key any more; in `groups`: the image is no row's

_WORDS = types.Array(types.uint64, 1, "C", readonly=True)
_OPS = types.Array(types.uint8, 1, "C", readonly=True)


@njit(types.boolean(STARTS, types.int64), nogil=True, cache=True)
def _is_whole(starts: Any, image: int) -> bool:
    for column in range(starts.shape[0]):  # noqa: SIM110 (kernels have no generators)
        if starts[column, image] == ABSENT:
            return False
    return True


@njit(types.boolean(STARTS, _OPS), nogil=True, cache=True)
def lacks(starts: Any, op: Any) -> bool:
    """Whether an after image lacks a column."""
    for image in range(op.size):  # noqa: SIM110 (kernels have no generators)
        if op[image] == UPDATE_AFTER and not _is_whole(starts, image):
            return True
    return False


@njit(
    types.int64(
        BYTES, STARTS, _OPS, types.int64, LAYOUT, LAYOUT, types.int64, _WORDS,
        types.int32[::1], types.uint64[:, ::1], types.int64[::1], types.int64[::1], types.int64[::1], types.int64[::1],
    ),
    nogil=True,
    cache=True,
)  # fmt: skip
def absorb(
    data: Any, starts: Any, op: Any, base: int, keys: Any, layout: Any, bounds: int, seed: Any,
    slots: Any, hashes: Any, last: Any, owner: Any, groups: Any, counts: Any,
) -> int:  # fmt: skip
    """Gives each image the number of its row in `groups`, each key that of the row that has it in `owner`; `last` is
    the image by which a key was left. The before image of a row's first update stays with it: it tells the row's key
    in the lake. Returns the image whose key is not there, or -1."""
    before = int64(NOBODY)
    for image in range(op.size):
        for key in keys:
            if starts[key, image] < 0:
                return image
        if bounds > 0:
            widen(data, starts[keys[0], image], layout[keys[0]], bounds == 2, counts)
        one, two = hash_row(data, starts, image, keys, layout, seed)
        number = entry(one, two, slots, hashes, counts)
        if number < 0:
            number = -1 - number
            owner[number] = NOBODY
        operation = op[image]
        if operation in (DELETE, UPDATE_BEFORE):
            counts[DELETES if operation == DELETE else UPDATES] += 1
            before = owner[number]
            owner[number], last[number] = NOBODY, base + image
            continue
        counts[INSERTS] += operation == INSERT
        group = before
        if operation == INSERT or group < 0 or _is_whole(starts, image):
            group = counts[GROUPS]
            counts[GROUPS] += 1
            if operation == UPDATE_AFTER and not _is_whole(starts, image):
                groups[base + image - 1] = group
        owner[number], groups[base + image] = group, group
    return -1
