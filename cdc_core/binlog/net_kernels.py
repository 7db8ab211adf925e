"""What is left of a range per key, or per row where there is no key: compiled passes over row images.

The tables are sized for the range's images in advance and filled in place; untouched pages cost no memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types

from cdc_core.binlog.events import DELETE, INSERT, UPDATE_BEFORE
from cdc_core.binlog.hashing import hash_row
from cdc_core.binlog.images import BYTES, LAYOUT, STARTS, int64, little

# Places in the `counts` vector.
ENTRIES, INSERTS, UPDATES, DELETES, LEAST, GREATEST, GROUPS = range(7)
FRESH, KNOWN, REMOVED = 1, 0, 2  # bits of `mark`: the key was first seen as an insert; its last image removes it

_SEED = types.Array(types.uint64, 1, "C", readonly=True)
_OPS = types.Array(types.uint8, 1, "C", readonly=True)
_LONGS = types.Array(types.int64, 1, "C", readonly=True)


@njit(
    types.int64(types.uint64, types.uint64, types.int32[::1], types.uint64[:, ::1], types.int64[::1]),
    nogil=True,
    cache=True,
)
def entry(one: Any, two: Any, slots: Any, hashes: Any, counts: Any) -> int:
    """The number of a hash's entry; a new one is negative: `-1 - number`. A slot holds number + 1, 0 when empty."""
    mask = np.uint64(slots.size - 1)
    place = one & mask
    while slots[place] != 0:
        number = int64(slots[place]) - 1
        if hashes[number, 0] == one and hashes[number, 1] == two:
            return number
        place = (place + np.uint64(1)) & mask
    number = counts[ENTRIES]
    counts[ENTRIES] += 1
    slots[place] = number + 1
    hashes[number, 0], hashes[number, 1] = one, two
    return int64(-1 - number)


@njit(types.void(BYTES, types.int64, types.int64, types.boolean, types.int64[::1]), nogil=True, cache=True)
def widen(data: Any, at: int, size: int, unsigned: bool, counts: Any) -> None:
    """Widens the least and greatest key. Unsigned keys of 8 bytes are compared with their first bit turned over."""
    value = little(data, at, size)
    if unsigned:
        if size == 8:
            value ^= int64(-0x8000000000000000)
    else:
        shift = 64 - 8 * size
        value = (value << shift) >> shift
    counts[LEAST] = min(counts[LEAST], value)
    counts[GREATEST] = max(counts[GREATEST], value)


@njit(
    types.int64(
        BYTES, STARTS, _OPS, types.int64, LAYOUT, LAYOUT, types.int64, _SEED,
        types.int32[::1], types.uint64[:, ::1], types.int64[::1], types.uint8[::1], types.int64[::1],
    ),
    nogil=True,
    cache=True,
)  # fmt: skip
def absorb_keys(
    data: Any, starts: Any, op: Any, base: int, keys: Any, layout: Any, bounds: int, seed: Any,
    slots: Any, hashes: Any, last: Any, mark: Any, counts: Any,
) -> int:  # fmt: skip
    """Notes for each key its last image. `base`: ordinal of the first image. `bounds`: 0, or 1 signed, 2 unsigned.
    Returns the image whose key is not there, or -1."""
    for image in range(op.size):
        for key in keys:
            if starts[key, image] < 0:
                return image
        if bounds > 0:
            widen(data, starts[keys[0], image], layout[keys[0]], bounds == 2, counts)
        operation = op[image]
        if operation == INSERT:
            counts[INSERTS] += 1
        elif operation == DELETE:
            counts[DELETES] += 1
        elif operation == UPDATE_BEFORE:
            counts[UPDATES] += 1
        one, two = hash_row(data, starts, image, keys, layout, seed)
        number = entry(one, two, slots, hashes, counts)
        if number < 0:
            number = -1 - number
            mark[number] = FRESH if operation == INSERT else KNOWN
        removed = operation in (DELETE, UPDATE_BEFORE)  # of the same key: undone by its after image, the next
        last[number] = base + image
        mark[number] = (mark[number] & FRESH) | (REMOVED if removed else 0)
    return -1


@njit(
    types.void(
        BYTES, STARTS, _OPS, types.int64, LAYOUT, LAYOUT, _SEED,
        types.int32[::1], types.uint64[:, ::1], types.int64[::1], types.int64[::1], types.int64[::1],
    ),
    nogil=True,
    cache=True,
)  # fmt: skip
def absorb_rows(
    data: Any, starts: Any, op: Any, base: int, columns: Any, layout: Any, seed: Any,
    slots: Any, hashes: Any, last: Any, copies: Any, counts: Any,
) -> None:  # fmt: skip
    """Counts each distinct row: plus one for a new image, minus one for an old one. `last`: an image that shows it."""
    for image in range(op.size):
        operation = op[image]
        if operation == INSERT:
            counts[INSERTS] += 1
        elif operation == DELETE:
            counts[DELETES] += 1
        elif operation == UPDATE_BEFORE:
            counts[UPDATES] += 1
        one, two = hash_row(data, starts, image, columns, layout, seed)
        number = entry(one, two, slots, hashes, counts)
        if number < 0:
            number = -1 - number
            copies[number] = 0
        last[number] = base + image
        copies[number] += -1 if operation in (DELETE, UPDATE_BEFORE) else 1


@njit(types.void(STARTS, types.Array(types.uint8, 1, "C", readonly=True), types.boolean[::1]), nogil=True, cache=True)
def blank(starts: Any, op: Any, keys: Any) -> None:
    """Of images that remove a row only the key is left."""
    for column in range(starts.shape[0]):
        if not keys[column]:
            for image in range(op.size):
                if op[image] == DELETE or op[image] == UPDATE_BEFORE:
                    starts[column, image] = -1


@njit(
    types.int64(
        types.Array(types.int32, 1, "C", readonly=True), _LONGS, types.int64, types.int64, _LONGS, types.boolean,
        types.int64[::1], types.int64[::1],
    ),
    nogil=True,
    cache=True,
)  # fmt: skip
def choose(
    event: Any, firsts: Any, low: int, high: int, kept: Any, every: bool, chosen: Any, ordinals: Any
) -> int:  # fmt: skip
    """Which images have ordinals from `low` to `high` and, unless `every`, among `kept` (rising): fills `chosen` and
    `ordinals`, returns how many. `firsts`: ordinal of each event's first image."""
    count, at, row = 0, 0, int64(0)
    for image in range(event.size):
        row = row + 1 if image > 0 and event[image] == event[image - 1] else int64(0)
        ordinal = firsts[event[image]] + row
        wanted = low <= ordinal < high
        if wanted and not every:
            while at < kept.size and kept[at] < ordinal:
                at += 1
            wanted = at < kept.size and kept[at] == ordinal
        if wanted:
            chosen[count], ordinals[count] = image, ordinal
            count += 1
    return count
