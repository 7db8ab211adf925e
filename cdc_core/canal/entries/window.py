"""A claim's events, a window at a time: so many events that their entries fit a buffer, in one piece of memory.

A window begins with the events that the last one asks for again: the GTID and the BEGIN of an open transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cdc_core.binlog.block import BlockSlice
from cdc_core.canal.entries.room import Room
from cdc_core.compiled.kernel import Bytes, Ints, Longs

_BYTES = 2 << 20
_EVENTS = 32768
FACTS = np.dtype(  # what the header of an event's entry says
    [
        ("offset", "<i8"),  # in the journal, where the event starts
        ("server", "<u4"),
        ("seconds", "<u4"),
        ("size", "<u4"),  # bytes of the event with its checksum; of a compressed transaction's events its own
        ("journal", "<i4"),  # number among the window's journals
    ]
)


@dataclass(frozen=True, slots=True)
class Window:
    """Events side by side: `index` points into `data`. Event i is row `rows[i]` of the block of `parts[piece[i]]`."""

    data: Bytes
    index: npt.NDArray[np.void]
    facts: npt.NDArray[np.void]
    journals: tuple[str, ...]
    parts: tuple[BlockSlice, ...]
    piece: Ints
    rows: Longs

    def place(self, event: int) -> str:
        """Where an event starts, for errors."""
        return self.part(event).block.place(int(self.rows[event]))

    def part(self, event: int) -> BlockSlice:
        """An event as a slice of its own."""
        row = int(self.rows[event])
        return BlockSlice(self.parts[int(self.piece[event])].block, row, row + 1)


def windows(slices: Sequence[BlockSlice]) -> Iterator[tuple[BlockSlice, ...]]:
    """The slices' events in groups of bounded size, or of one event that is larger."""
    group: list[BlockSlice] = []
    room, events = _BYTES, _EVENTS
    for piece in slices:
        low = piece.low
        while low < piece.high:
            high = _fitting(piece, low, room, events)
            if high == low and group:
                yield tuple(group)
                group, room, events = [], _BYTES, _EVENTS
                continue
            high = max(high, low + 1)
            part = BlockSlice(piece.block, low, high)
            group.append(part)
            room, events, low = room - _bytes(part), events - (high - low), high
    if group:
        yield tuple(group)


def _fitting(piece: BlockSlice, low: int, room: int, events: int) -> int:
    """The end of the events from `low` on that take no more than `room` bytes."""
    index = piece.block.index
    high = min(piece.high, low + max(events, 0))
    ends = index["offset"][low:high].astype(np.int64) + index["length"][low:high]
    return low + int(np.searchsorted(ends, int(index["offset"][low]) + max(room, 0), side="right"))


def _bytes(part: BlockSlice) -> int:
    index = part.index
    return int(index["offset"][-1]) + int(index["length"][-1]) - int(index["offset"][0])


def gathered(parts: Sequence[BlockSlice], room: Room) -> Window:
    """The events of the parts in one piece, in the room's memory."""
    firsts = [int(part.block.index["offset"][part.low]) for part in parts]
    starts = np.cumsum([0, *(_bytes(part) for part in parts)])
    counts = np.array([part.high - part.low for part in parts])
    data = room.take(int(starts[-1]))
    for part, first, start, end in zip(parts, firsts, starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        data[start:end] = part.block.data[first : first + end - start]
    index = np.concatenate([part.index for part in parts])
    index["offset"] += np.repeat(starts[:-1] - firsts, counts).astype(np.uint32)  # wraps around below zero, and back
    names = {name: number for number, name in enumerate(dict.fromkeys(part.block.journal_name for part in parts))}
    journals = np.repeat([names[part.block.journal_name] for part in parts], counts)
    piece = np.repeat(np.arange(len(parts)), counts).astype(np.int32)
    rows = np.concatenate([np.arange(part.low, part.high) for part in parts])
    window = Window(data, index, _facts(data, index, journals), tuple(names), tuple(parts), piece, rows)
    _correct(window)
    return window


def _facts(data: Bytes, index: npt.NDArray[np.void], journals: npt.NDArray[np.int64]) -> npt.NDArray[np.void]:
    """What the events' headers say: the server at 5, the size at 9."""
    numbers = data[index["offset"].astype(np.int64)[:, None] + np.arange(5, 13)].view("<u4")
    facts = np.empty(len(index), FACTS)
    facts["server"], facts["size"], facts["seconds"] = numbers[:, 0], numbers[:, 1], index["timestamp"]
    facts["offset"], facts["journal"] = index["end"] - numbers[:, 1], journals
    return facts


def _correct(window: Window) -> None:
    """Events inside a compressed transaction start where the transaction's own event starts."""
    ends = window.data[window.index["offset"].astype(np.int64)[:, None] + np.arange(13, 17)].view("<u4")[:, 0]
    for event in np.flatnonzero(ends != window.index["end"] & 0xFFFFFFFF).tolist():
        window.facts["offset"][event] = window.part(event).block.start_of(int(window.rows[event]))
