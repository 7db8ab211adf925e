"""What a pass over a table's share of a range counts and remembers: hash tables filled in place, and what comes of
them. Sized for the range's images in advance; untouched pages cost no memory."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from cdc_core.binlog import net_kernels as kernels
from cdc_core.binlog.hashing import new_seed
from cdc_core.binlog.plan import TableRows

SEED = new_seed()  # of this process: hashes are never stored
_INTEGERS = {1, 2, 3, 8, 9}
_LIMITS = np.iinfo(np.int64)
_HALF = 1 << 63


class Tally:
    """Entries are keys, or whole rows where there is no key. `last[entry]` is an ordinal."""

    def __init__(self, found: TableRows) -> None:
        room = found.images
        self.slots = np.zeros(1 << max(4, (room + room // 2).bit_length()), np.int32)
        self.hashes = np.empty((room, 2), np.uint64)
        self.last = np.empty(room, np.int64)
        self.counts = np.array([0, 0, 0, 0, _LIMITS.max, _LIMITS.min, 0], np.int64)

    @property
    def entries(self) -> int:
        return int(self.counts[kernels.ENTRIES])

    def raw(self) -> dict[str, Any]:
        inserts, updates, deletes = self.counts[kernels.INSERTS : kernels.DELETES + 1].tolist()
        return {"raw_inserts": inserts, "raw_updates": updates, "raw_deletes": deletes}


class Key:
    """A table's primary key as kernels need it: `columns` are its places; `bounds` 0, or for a key of one integer 1
    signed, 2 unsigned."""

    def __init__(self, found: TableRows) -> None:
        schema = found.schema
        names = [column.name for column in schema.columns]
        self.columns = np.array([names.index(name) for name in schema.primary_key], np.int32)
        first = schema.columns[self.columns[0]]
        whole = len(self.columns) == 1 and first.type_code in _INTEGERS
        self.bounds = (1 + first.unsigned) if whole else 0
        self._shift = _HALF if self.bounds == 2 and first.type_code == 8 else 0

    def range(self, counts: npt.NDArray[np.int64]) -> tuple[int | None, int | None]:
        """The least and the greatest key that a pass met."""
        least, greatest = counts[kernels.LEAST : kernels.GREATEST + 1].tolist()
        if self.bounds == 0 or least > greatest:
            return None, None
        return least + self._shift, greatest + self._shift


def parts(kept: npt.NDArray[np.int64], splits: int) -> tuple[tuple[int, int, int], ...]:
    """Contiguous parts with about equally many kept images; none of them empty."""
    cuts = [len(kept) * i // splits for i in range(splits + 1)]
    return tuple((int(kept[low]), int(kept[high - 1]) + 1, high - low) for low, high in pairwise(cuts) if high > low)


def even_parts(images: int, splits: int) -> tuple[tuple[int, int, int], ...]:
    """The same where all images are kept."""
    cuts = [images * i // splits for i in range(splits + 1)]
    return tuple((low, high, high - low) for low, high in pairwise(cuts) if high > low)
