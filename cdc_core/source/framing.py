"""Cuts the stream of a dump into blocks. Does no I/O: the socket's owner asks where bytes go, then for blocks.

Promises: every event of a block is whole, its checksum is verified and cut off, and it follows the one before without
a gap; a block never spans journals; the same bytes give the same blocks, however they arrive (but for flushes).
FORMAT_DESCRIPTION, ROTATE, heartbeats and events outside of the journal are handled here and are in no block.
Does not know what events mean, nor whether a transaction is complete.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from cdc_core.binlog.block import INDEX, Block
from cdc_core.binlog.events import CHECKSUM, HEADER, EventType
from cdc_core.compiled.memory import little
from cdc_core.errors import DecodeError
from cdc_core.position import JOURNAL_START
from cdc_core.source import cutter
from cdc_core.source.control import DAMAGED_HINT, checksummed, raise_parting, rotation
from cdc_core.source.cutter import FULL_PACKET, PACKET, Cut, Filling, Journal, Received
from cdc_core.source.large_event import LargeEvent

_MIN_BUFFER = PACKET + 1 + HEADER
_MAX_BLOCK = FULL_PACKET - 2  # what spans packets is always a large event
_BETWEEN = np.isin(
    np.arange(256),
    [
        EventType.STOP,
        EventType.ROTATE,
        EventType.GTID,
        EventType.ANONYMOUS_GTID,
        EventType.PREVIOUS_GTIDS,
        EventType.GTID_TAGGED,
        EventType.MARIA_BINLOG_CHECKPOINT,
        EventType.MARIA_GTID,
        EventType.MARIA_GTID_LIST,
    ],
)  # types that stand between transactions
_FARTHEST = 1 << 31
_FAULTS = {
    Cut.OUTSIDE: "an event without a place in the journal",
    Cut.BAD_LENGTH: "an event whose length is wrong",
    Cut.BAD_CHECKSUM: "an event whose checksum is wrong",
    Cut.BAD_POSITION: "an event whose end does not follow the one before it",
    Cut.BAD_SEQUENCE: "a packet out of order",
    Cut.BAD_PACKET: "a packet that is not an event",
}


class Framer:
    """`space()` and `received(n)` take bytes in, `blocks()` gives blocks out.

    `checksum` is what the server was asked for: it holds until the first FORMAT_DESCRIPTION. Events that end at or
    before `since` in the first journal are skipped. `gaps`: in a dump by GTID the server leaves out transactions, and
    the position may move on between two of them.
    """

    def __init__(
        self,
        journal_name: str,
        position: int,
        *,
        checksum: bool,
        block_bytes: int = 262144,
        receive_buffer: int = 1 << 20,
        sequence: int = 1,
        since: int = 0,
        gaps: bool = False,
    ) -> None:
        self.journal_name = journal_name
        self.position = position
        self.heartbeats = 0
        self._checksum = checksum
        self._sequence = sequence
        self._since = since
        self._gaps = gaps
        self._buffer = np.empty(max(receive_buffer, _MIN_BUFFER), np.uint8)
        self._at = self._stop = 0
        block_bytes = min(max(block_bytes, HEADER), self._buffer.size - _MIN_BUFFER + HEADER, _MAX_BLOCK)
        self._block = np.empty(block_bytes, np.uint8)
        self._index = np.zeros(block_bytes // 32 + 1, INDEX)
        self._fill = self._rows = 0
        self._start = max(position, since)
        self._large: LargeEvent | None = None

    def __repr__(self) -> str:
        waiting = self._stop - self._at
        return f"<Framer {self.journal_name}:{self.position} rows={self._rows} waiting={waiting}>"

    def space(self) -> memoryview:
        """Where the next bytes go; never empty."""
        if self._large is not None and self._at == self._stop and self._large.wants:
            return self._large.space()
        if self._at == self._stop:
            self._at = self._stop = 0
        elif self._at and self._buffer.size - self._stop < self._buffer.size // 4 + 1:
            waiting = self._stop - self._at
            self._buffer[:waiting] = self._buffer[self._at : self._stop].copy()
            self._at, self._stop = 0, waiting
        return self._buffer.data[self._stop :]

    def received(self, count: int) -> None:
        """`count` bytes were written to the last `space()`."""
        if self._large is not None and self._at == self._stop and self._large.wants:
            self._large.received(count)
        else:
            self._stop += count

    def blocks(self, *, flush: bool = True) -> Iterator[Block]:
        """The full blocks; with `flush` all whole events. After the sound events, raises DecodeError for damage and the
        error with which the server ends the dump."""
        while (code := self._large_step() if self._large else self._cut()) != Cut.MORE:
            if self._rows:
                yield self._take()
            if code == Cut.LARGE and self._large is None:
                self._begin_large()
            elif code == Cut.LARGE:
                yield from self._end_large()
            elif code == Cut.CONTROL:
                self._control(*self._next_event())
            elif code == Cut.SERVER:
                raise_parting(self._buffer[self._at + PACKET : self._packet_end()].tobytes(), self._place())
            elif code != Cut.FULL and not (code == Cut.BAD_POSITION and self._moved_on(self._header())):
                self._fail(code)
        if flush and self._rows:
            yield self._take()

    def _cut(self) -> int:
        received = Received(self._buffer, self._at, self._stop, self._sequence)
        block = Filling(self._block, self._index, self._fill, self._rows)
        journal = Journal(self.position, self._since, self._checksum)
        code, self._at, self._sequence, self._fill, self._rows, self.position = cutter.cut(received, block, journal)
        return code

    def _take(self) -> Block:
        """The events cut so far: in the buffer itself when it is nearly full, else copied to their exact size."""
        index, data = self._index[: self._rows].copy(), self._block[: self._fill]
        if self._fill > self._block.size // 16 * 15:
            self._block = np.empty(self._block.size, np.uint8)
        else:
            data = data.copy()
        block = Block(self.journal_name, self._start, data, index)
        self._start, self._fill, self._rows = block.end, 0, 0
        return block

    def _place(self) -> str:
        return f"{self.journal_name}:{self.position}"

    def _fail(self, code: int) -> NoReturn:
        raise DecodeError(_FAULTS[Cut(code)], place=self._place(), hint=DAMAGED_HINT)

    def _packet_end(self) -> int:
        return self._at + PACKET + int.from_bytes(self._buffer[self._at : self._at + 3].tobytes(), "little")

    def _next_event(self) -> tuple[npt.NDArray[np.uint8], int]:
        """Takes the event of the next packet from the buffer; the event and its type."""
        end = self._packet_end()
        event = self._buffer[self._at + PACKET + 1 : end]
        self._at, self._sequence = end, (self._sequence + 1) & 0xFF
        return event, int(event[4])

    def _header(self) -> npt.NDArray[np.uint8]:
        return self._buffer[self._at + PACKET + 1 : self._at + _MIN_BUFFER]

    def _moved_on(self, event: npt.NDArray[np.uint8]) -> bool:
        """Moves the position over transactions that the server left out, to the start of this event. The header's
        position has 32 bits: a gap of more than 2 GiB is taken for damage."""
        ahead = little(event, 13, 4) - little(event, 9, 4) - self.position & 0xFFFFFFFF
        if not self._gaps or not _BETWEEN[event[4]] or ahead > _FARTHEST:
            return False
        self.position = self._start = self.position + ahead
        return True

    def _begin_large(self) -> None:
        header = self._buffer[self._at : self._at + _MIN_BUFFER].tobytes()
        self._large = LargeEvent.begin(header, self._sequence)
        if self._large is None:
            self._fail(Cut.BAD_LENGTH)
        self._at += PACKET + 1

    def _large_step(self) -> int:
        assert self._large is not None
        code, self._at = self._large.take(self._buffer, self._at, self._stop)
        return code

    def _end_large(self) -> Iterator[Block]:
        assert self._large is not None
        data, self._sequence, self._large = self._large.data, self._large.sequence, None
        kind = int(data[4])
        if cutter.control(kind):
            self._control(data, kind)
            return
        verdict, end = cutter.examine(data, 0, data.size, self.position, self._checksum)
        if verdict != Cut.SOUND and not (verdict == Cut.OUTSIDE and cutter.outside(kind)):
            self._fail(verdict)
        self.position = end
        if verdict == Cut.SOUND and end > self._since:
            index = np.zeros(1, INDEX)
            kept = data[: data.size - CHECKSUM] if self._checksum else data
            cutter.describe(index, 0, data, 0, end, (0, kept.size))
            block = Block(self.journal_name, self._start, kept, index)
            self._start = end
            yield block

    def _control(self, event: npt.NDArray[np.uint8], kind: int) -> None:
        """FORMAT_DESCRIPTION, ROTATE or a heartbeat, checksum included."""
        if kind == EventType.FORMAT_DESCRIPTION:
            self._checksum = checksummed(event.tobytes(), self._place())
        verdict, end = cutter.examine(event, 0, event.size, self.position, self._checksum)
        if kind in (EventType.HEARTBEAT, EventType.HEARTBEAT_V2):
            if verdict in (Cut.BAD_LENGTH, Cut.BAD_CHECKSUM):
                self._fail(verdict)
            self.heartbeats += 1
            return
        if verdict == Cut.BAD_POSITION and self._moved_on(event):
            verdict, end = cutter.examine(event, 0, event.size, self.position, self._checksum)
        if verdict not in (Cut.SOUND, Cut.OUTSIDE):
            self._fail(verdict)
        if kind == EventType.FORMAT_DESCRIPTION and verdict == Cut.SOUND and self.position != JOURNAL_START:
            self._fail(Cut.BAD_POSITION)
        self.position, self._start = end, max(end, self._since)
        if kind == EventType.ROTATE:
            whole = event[: event.size - CHECKSUM] if self._checksum else event
            self._rotate(*rotation(whole.tobytes(), self._place()))

    def _rotate(self, journal_name: str, position: int) -> None:
        """Continues in that journal. The artificial ROTATE at the start only repeats what we asked for."""
        if journal_name == self.journal_name and position != self.position:
            self._fail(Cut.BAD_POSITION)
        if journal_name != self.journal_name:
            self._since = 0
        self.journal_name, self.position, self._start = journal_name, position, max(position, self._since)
