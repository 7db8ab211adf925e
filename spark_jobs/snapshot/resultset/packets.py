"""Packets as they arrive from a socket: single ones while the result is described, then rows in large batches.

Memory holds one batch: the buffer grows for a packet that it cannot hold, and is small again afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import numpy as np
import numpy.typing as npt
import pymysql
from pymysql.constants import CR

from cdc_core.compiled.kernel import Bytes, Ints
from cdc_core.compiled.memory import little
from spark_jobs.snapshot.resultset.cutter import FULL_PACKET, PACKET, Buffered, Cut, cells, cut

Receive = Callable[[memoryview], int]  # writes bytes, and returns their number; 0 when the connection has ended
_FAULTS = {
    Cut.BAD_SEQUENCE: "a packet of the result is out of order",
    Cut.BAD_ROW: "a row of the result is not in the binary protocol",
}
_LEAST = 16  # a batch is handed out when so small a part of the buffer is left


class Packets:
    """`size` is the buffer's, in bytes; `sequence` the number of the next packet."""

    def __init__(self, receive: Receive, size: int, sequence: int = 1) -> None:
        self.data = np.empty(size, np.uint8)
        self._receive, self._size, self._sequence = receive, size, sequence
        self._at = self._stop = 0

    def next(self) -> bytes:
        """Returns the payload of the next packet. Raises pymysql's errors: the server's, or that it went away."""
        while (end := self._large_end(self._at)[0]) < 0:
            self._fill(-end)
        payload = self.data[self._at + PACKET : self._join(self._at)].tobytes()
        if payload[:1] == b"\xff":
            pymysql.err.raise_mysql_exception(payload)
        return payload

    def rows(self, widths: Ints, starts: npt.NDArray[np.int64]) -> tuple[int, bool]:
        """The next rows of `data`: `starts[column, row]` is where a cell starts, texts at their length; negative for
        NULL. Returns the number of rows, as many as `starts` or the buffer hold, and whether others follow.

        What was read before is gone. Raises pymysql's errors.
        """
        self._shrink()
        count = 0
        while True:
            buffered = Buffered(self.data, self._at, self._stop, self._sequence)
            code, self._at, self._sequence, count = cut(buffered, widths, starts, count)
            needed = 0
            if code == Cut.LARGE:
                needed = -min(0, self._large_end(self._at)[0])
                if not needed:
                    self._large_row(widths, starts, count)
                    count += 1
                    continue
            elif code == Cut.END:
                return count, False
            elif code == Cut.FULL or (code == Cut.ERROR and count):
                return count, True
            elif code == Cut.ERROR:
                self.next()
            elif code != Cut.MORE:
                self._fail(code)
            if count and not self._has_room(needed):
                return count, True
            self._fill(needed)

    def _large_row(self, widths: Ints, starts: npt.NDArray[np.int64], row: int) -> None:
        start = self._at + PACKET
        if not cells(self.data, start, self._join(self._at), widths, starts, row):
            self._fail(Cut.BAD_ROW)

    def _large_end(self, at: int) -> tuple[int, int]:
        """Where the packets of one payload end, and how many they are. Negative: so many bytes from `at` on are needed
        at least."""
        end, pieces = at, 0
        while True:
            if self._stop - end < PACKET:
                return at - end - PACKET, pieces
            if int(self.data[end + 3]) != (self._sequence + pieces) & 0xFF:
                self._fail(Cut.BAD_SEQUENCE)
            size = little(self.data, end, 3)
            end, pieces = end + PACKET + size, pieces + 1
            if end > self._stop:
                return at - end, pieces
            if size < FULL_PACKET:
                return end, pieces

    def _join(self, at: int) -> int:
        """Takes a whole payload, and moves its pieces together after the first packet's header. Returns its end."""
        self._at, pieces = self._large_end(at)
        self._sequence = (self._sequence + pieces) & 0xFF
        source = to = at
        for piece in range(pieces):
            size = little(self.data, source, 3)
            if piece:
                self.data[to : to + size] = self.data[source + PACKET : source + PACKET + size]
            else:
                to += PACKET
            source, to = source + PACKET + size, to + size
        return to

    def _has_room(self, needed: int) -> bool:
        free = self.data.size - self._stop
        return free > self.data.size // _LEAST and self.data.size - self._at >= needed

    def _fill(self, needed: int) -> None:
        """Receives once; `needed` bytes from the next packet on find room."""
        if not self._has_room(needed):
            size, least = self.data.size, max(needed, self._stop - self._at)
            self._move(size if least < size - size // _LEAST else least + self._size)
        count = self._receive(self.data.data[self._stop :])
        if not count:
            raise pymysql.err.OperationalError(CR.CR_SERVER_LOST, "the server closed the connection")
        self._stop += count

    def _shrink(self) -> None:
        """Gives back the memory of a large row."""
        if self.data.size > self._size and self._stop - self._at < self._size // 2:
            self._move(self._size)

    def _move(self, size: int) -> None:
        """Moves the unread bytes to the start of a buffer of this size."""
        waiting = self.data[self._at : self._stop]
        into: Bytes = self.data if size == self.data.size else np.empty(size, np.uint8)
        into[: waiting.size] = waiting
        self.data, self._at, self._stop = into, 0, waiting.size

    def _fail(self, code: int) -> NoReturn:
        raise pymysql.err.OperationalError(CR.CR_MALFORMED_PACKET, _FAULTS[Cut(code)])
