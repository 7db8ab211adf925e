"""The pass that finds which row images belong to one row, where images leave columns out."""

from __future__ import annotations

from typing import Any, NamedTuple

from numba import types

from cdc_core.binlog.events import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from cdc_core.binlog.row_image import ABSENT, STARTS
from cdc_core.compiled.kernel import OUT_LONGS, int64, kernel, named
from cdc_core.rows.hashing import HASHED_COLUMNS, IMAGES, HashedColumns, Images, hash_row
from cdc_core.rows.net_kernels import DELETES, ENTRIES_TYPE, GROUPS, INSERTS, UPDATES, Entries, entry, has_all, widen

NOBODY = -1  # in `owner`: no row has the key any more; in `groups`: the image belongs to no row


@kernel(types.boolean(STARTS, types.int64))
def _is_whole(starts: Any, image: int) -> bool:
    for column in range(starts.shape[0]):  # noqa: SIM110 (kernels have no generators)
        if starts[column, image] == ABSENT:
            return False
    return True


class RowOrigins(NamedTuple):
    """By row: `origins`, the key that it had before the range, NOBODY for an inserted row; `leans`: whether it takes
    values from the lake's row of that key."""

    origins: Any
    leans: Any


ORIGINS_TYPE = named(RowOrigins, OUT_LONGS, types.boolean[::1])


@kernel(types.int64(IMAGES, HASHED_COLUMNS, ENTRIES_TYPE, OUT_LONGS, OUT_LONGS, types.boolean[::1], ORIGINS_TYPE))
def absorb(
    images: Images, key: HashedColumns, entries: Entries, owner: Any, groups: Any, fresh: Any, rows: RowOrigins
) -> int:
    """Gives each image the number of its row in `groups`, and each key the number of the row that has it in `owner`;
    `entries.last` is the image with which a row gave a key up. `fresh`: the key had no row before its first image. The
    before image of a row's first update belongs to the row: it has the row's key in the lake. `rows` is filled by row.
    Returns the image that lacks a column of the key, or -1."""
    data, starts, op, base = images
    keys, layout, bounds, seed = key
    slots, hashes, last, counts = entries
    origins, leans = rows
    before, left = int64(NOBODY), int64(NOBODY)
    for image in range(op.size):
        if not has_all(starts, image, keys):
            return image
        if bounds > 0:
            widen(data, starts[keys[0], image], layout[keys[0]], bounds == 2, counts)
        one, two = hash_row(data, starts, image, keys, layout, seed)
        number = entry(one, two, slots, hashes, counts)
        if number < 0:
            number = -1 - number
            owner[number], fresh[number] = NOBODY, op[image] in (INSERT, UPDATE_AFTER)
        operation, ordinal = op[image], base + image
        if operation in (DELETE, UPDATE_BEFORE):
            counts[DELETES if operation == DELETE else UPDATES] += 1
            before, left = owner[number], number
            owner[number], last[number] = NOBODY, ordinal
            continue
        counts[INSERTS] += operation == INSERT
        group = before
        if operation == INSERT or group < 0 or _is_whole(starts, image):
            group = counts[GROUPS]
            counts[GROUPS] += 1
            origins[group] = NOBODY if operation == INSERT else origins[before] if before >= 0 else left
            leans[group] = operation == UPDATE_AFTER and not _is_whole(starts, image)
            if leans[group]:
                groups[ordinal - 1] = group
        owner[number], groups[ordinal] = group, group
    return -1
