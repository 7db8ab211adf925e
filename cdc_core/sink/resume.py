"""After a reconnect a transaction's beginning is read once more: leave out of a block what was put already.

Nothing is copied: the rest shares the block's bytes, and `offset` keeps pointing into them. Let the annotator see the
whole block first, since table maps may lie in the part that is left out.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cdc_core.errors import PositionError
from cdc_core.source.block import Block


def trim(block: Block, after: int) -> Block | None:
    """The events of `block` that end beyond `after`, an offset in its journal; None if there are none.

    Raises PositionError when `after` lies inside an event: then it belongs to other bytes than these. In a dump by GTID
    it may lie among transactions that were left out, also before the first event of a block that starts earlier.
    """
    if after <= block.start:
        return block
    low = int(np.searchsorted(block.index["end"], after, side="right"))
    if low == len(block.index):
        return None
    before = int(block.index["end"][low - 1] if low else block.start)
    if before != after and _begin(block, low) < after:
        raise PositionError(
            "the journal has other events than those that were read before",
            place=f"{block.journal_name}:{after}",
            hint="Its binlogs were reset or replaced: check SHOW BINARY LOGS, then set the position anew.",
        )
    return replace(block, start=after, index=block.index[low:])


def _begin(block: Block, row: int) -> int:
    """Where an event starts, by the length in its header, checksum included."""
    entry = block.index[row]
    at = int(entry["offset"]) + 9
    length = int.from_bytes(block.data[at : at + 4].tobytes(), "little")
    return int(entry["end"]) - max(length, int(entry["length"]))
