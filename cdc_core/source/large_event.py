"""An event that is larger than a block: its bytes are received where they will stay.

It may span packets of 16 MiB. Each byte is copied at most once.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cdc_core.binlog.events import HEADER, MAX_EVENT
from cdc_core.source.cutter import FULL_PACKET, PACKET, Cut


class LargeEvent:
    """`data` has the length in the event's header and fills up. `sequence` is the number of the next packet."""

    def __init__(self, length: int, packet: int, sequence: int) -> None:
        self.data: npt.NDArray[np.uint8] = np.empty(length, np.uint8)  # untouched pages cost nothing
        self.sequence = sequence
        self.wants = packet - 1  # bytes of the event left in this packet
        self._have = 0
        self._last = packet < FULL_PACKET

    @classmethod
    def begin(cls, opening: bytes, sequence: int) -> LargeEvent | None:
        """`opening`: the first packet's header, its OK byte, the event's header. None when their lengths disagree."""
        packet = int.from_bytes(opening[:3], "little")
        length = int.from_bytes(opening[PACKET + 10 : PACKET + 14], "little")
        fits = length == packet - 1 if packet < FULL_PACKET else packet - 1 <= length <= MAX_EVENT
        if len(opening) < PACKET + 1 + HEADER or not fits:
            return None
        return cls(length, packet, (sequence + 1) & 0xFF)

    def space(self) -> memoryview:
        return self.data.data[self._have : self._have + self.wants]

    def received(self, count: int) -> None:
        self._have += count
        self.wants -= count

    def take(self, source: npt.NDArray[np.uint8], at: int, stop: int) -> tuple[int, int]:
        """Takes the event's bytes from `source[at:stop]`. Returns a code (LARGE: complete) and the new `at`."""
        while True:
            count = min(self.wants, stop - at)
            self.data[self._have : self._have + count] = source[at : at + count]
            self.received(count)
            at += count
            if self.wants or (not self._last and stop - at < PACKET):
                return Cut.MORE, at
            if self._last:
                return (Cut.LARGE if self._have == self.data.size else Cut.BAD_LENGTH), at
            packet = int.from_bytes(source[at : at + 3].tobytes(), "little")
            if source[at + 3] != self.sequence:
                return Cut.BAD_SEQUENCE, at
            if self._have + packet > self.data.size:
                return Cut.BAD_LENGTH, at
            at += PACKET
            self.wants, self._last, self.sequence = packet, packet < FULL_PACKET, (self.sequence + 1) & 0xFF
