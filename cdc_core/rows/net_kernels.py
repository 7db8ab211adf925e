"""The passes over row images that find what is left of a range: per key, or per row where there is no key.

They fill a hash table in place, which is sized in advance for all images of the range.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types

from cdc_core.binlog.events import DELETE, INSERT, NOTHING, UPDATE_AFTER, UPDATE_BEFORE
from cdc_core.binlog.row_image import NULL, STARTS
from cdc_core.compiled.kernel import BYTES, INTS, LONGS, OUT_BYTES, OUT_INTS, OUT_LONGS, int64, kernel, named
from cdc_core.compiled.memory import little
from cdc_core.rows.chunk_kernels import WANTED, Wanted
from cdc_core.rows.hashing import HASHED_COLUMNS, IMAGES, HashedColumns, Images, hash_row

ENTRIES, INSERTS, UPDATES, DELETES, LEAST, GREATEST, GROUPS = range(7)  # places in `counts`
# Bits of `mark`: the key had no row before its first image; an insert was that image; its last image removes it; a row
# came to it, by an insert or from another key.
FRESH, INSERTED, REMOVED, CAME = 1, 2, 4, 8


class Entries(NamedTuple):
    """A hash table: an entry is a key, or a whole row. A slot holds its number + 1, or 0; `last` is the ordinal of its
    last image."""

    slots: Any
    hashes: Any
    last: Any
    counts: Any


ENTRIES_TYPE = named(Entries, OUT_INTS, types.uint64[:, ::1], OUT_LONGS, OUT_LONGS)


@kernel(types.int64(types.uint64, types.uint64, OUT_INTS, types.uint64[:, ::1], OUT_LONGS))
def entry(one: Any, two: Any, slots: Any, hashes: Any, counts: Any) -> int:
    """The number of a hash's entry; `-1 - number` for a new one."""
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


@kernel(types.void(BYTES, types.int64, types.int64, types.boolean, OUT_LONGS))
def widen(data: Any, at: int, size: int, unsigned: bool, counts: Any) -> None:
    """Widens the range of keys by one key. Unsigned keys of 8 bytes are compared with their first bit inverted."""
    value = little(data, at, size)
    if unsigned:
        if size == 8:
            value ^= int64(-0x8000000000000000)
    else:
        shift = 64 - 8 * size
        value = (value << shift) >> shift
    counts[LEAST] = min(counts[LEAST], value)
    counts[GREATEST] = max(counts[GREATEST], value)


@kernel(types.boolean(STARTS, types.int64, INTS))
def has_all(starts: Any, image: int, columns: Any) -> bool:
    """Whether an image has a value in all of these columns."""
    for column in columns:  # noqa: SIM110 (kernels have no generators)
        if starts[column, image] < 0:
            return False
    return True


@kernel(types.void(types.int64, OUT_LONGS))
def _count(operation: int, counts: Any) -> None:
    if operation == INSERT:
        counts[INSERTS] += 1
    elif operation == DELETE:
        counts[DELETES] += 1
    elif operation == UPDATE_BEFORE:
        counts[UPDATES] += 1


@kernel(types.int64(IMAGES, HASHED_COLUMNS, ENTRIES_TYPE, OUT_BYTES))
def absorb_keys(images: Images, key: HashedColumns, entries: Entries, mark: Any) -> int:
    """Notes the last image of each key. Returns the image that lacks a column of the key, or -1."""
    data, starts, op, base = images
    keys, layout, bounds, seed = key
    slots, hashes, last, counts = entries
    left = int64(-1)
    for image in range(op.size):
        if op[image] == NOTHING:
            continue
        if not has_all(starts, image, keys):
            return image
        if bounds > 0:
            widen(data, starts[keys[0], image], layout[keys[0]], bounds == 2, counts)
        operation = op[image]
        _count(operation, counts)
        one, two = hash_row(data, starts, image, keys, layout, seed)
        number = entry(one, two, slots, hashes, counts)
        if number < 0:
            number = -1 - number
            # An update's after image meets its key first only where the update changed the key.
            mark[number] = FRESH | INSERTED if operation == INSERT else FRESH if operation == UPDATE_AFTER else 0
        removed = operation in (DELETE, UPDATE_BEFORE)  # the after image of the same key, which is next, undoes it
        last[number] = base + image
        came = operation == INSERT or (operation == UPDATE_AFTER and number != left)
        mark[number] = (mark[number] & (FRESH | INSERTED | CAME)) | (REMOVED if removed else CAME if came else 0)
        left = number
    return -1


@kernel(types.void(IMAGES, HASHED_COLUMNS, ENTRIES_TYPE, OUT_LONGS))
def absorb_rows(images: Images, row: HashedColumns, entries: Entries, copies: Any) -> None:
    """Counts each distinct row: plus one for a new image, minus one for an old one."""
    data, starts, op, base = images
    columns, layout, _, seed = row
    slots, hashes, last, counts = entries
    for image in range(op.size):
        operation = op[image]
        if operation == NOTHING:
            continue
        _count(operation, counts)
        one, two = hash_row(data, starts, image, columns, layout, seed)
        number = entry(one, two, slots, hashes, counts)
        if number < 0:
            number = -1 - number
            copies[number] = 0
        last[number] = base + image
        copies[number] += -1 if operation in (DELETE, UPDATE_BEFORE) else 1


@kernel(types.void(STARTS, BYTES, types.boolean[::1]))
def blank(starts: Any, op: Any, keys: Any) -> None:
    """Leaves only the key of images that remove a row."""
    for column in range(starts.shape[0]):
        if not keys[column]:
            for image in range(op.size):
                if op[image] == DELETE or op[image] == UPDATE_BEFORE:
                    starts[column, image] = NULL


@kernel(types.int64(INTS, LONGS, WANTED, OUT_LONGS, OUT_LONGS))
def choose(event: Any, firsts: Any, wanted: Wanted, chosen: Any, ordinals: Any) -> int:
    """Fills `chosen` with the images that are wanted and `ordinals` with their ordinals, and returns how many. An
    image's event is `event[image]`; `firsts` are the ordinals of the events' first images."""
    low, high, kept, every = wanted
    count, at, row = 0, 0, int64(0)
    for image in range(event.size):
        row = row + 1 if image > 0 and event[image] == event[image - 1] else int64(0)
        ordinal = firsts[event[image]] + row
        take = low <= ordinal < high
        if take and not every:
            while at < kept.size and kept[at] < ordinal:
                at += 1
            take = at < kept.size and kept[at] == ordinal
        if take:
            chosen[count], ordinals[count] = image, ordinal
            count += 1
    return count
