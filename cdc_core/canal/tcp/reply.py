"""The entries of one batch while they wait to be sent: in memory as far as all connections' budget goes, else in an
unnamed file.

The frame begins with its length, so a batch is encoded whole before its first byte is sent.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from typing import IO, Any

from cdc_core.canal.tcp.buffers import Buffers
from cdc_core.compiled.kernel import Bytes

_PART = 1 << 20  # bytes that are read of a file at a time


class Budget:
    """Bytes that replies may hold in memory, together."""

    def __init__(self, nbytes: int) -> None:
        self._left = nbytes
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<Budget {self._left} bytes left>"

    def take(self, nbytes: int) -> bool:
        with self._lock:
            if nbytes > self._left:
                return False
            self._left -= nbytes
            return True

    def give(self, nbytes: int) -> None:
        with self._lock:
            self._left += nbytes


class Reply:
    """Pieces of `messages` fields, in order. `source`: the binlog that they are of, 0 where the client does not ask.
    `close` gives the memory back."""

    def __init__(self, batch_id: int, budget: Budget, buffers: Buffers | None = None) -> None:
        self.batch_id, self.source = batch_id, 0
        self.size = 0
        self._budget, self._buffers = budget, buffers or Buffers(0)
        self._held = 0
        self._pieces: list[Any] = []
        self._lent: list[Bytes] = []
        self._file: IO[bytes] | None = None

    def __repr__(self) -> str:
        return f"<Reply batch={self.batch_id} {self.size} bytes{' on disk' if self._file else ''}>"

    @property
    def on_disk(self) -> bool:
        """Whether a part of it did not fit the budget."""
        return self._file is not None

    def space(self, size: int) -> Bytes:
        """Memory for a piece, which is the reply's until it is closed."""
        buffer = self._buffers.take(size)
        self._lent.append(buffer)
        return buffer[:size]

    def add(self, piece: Any) -> None:
        """Keeps a piece; from the first one on that does not fit the budget, all go to the file."""
        piece = memoryview(piece)
        self.size += len(piece)
        if self._file is None and self._budget.take(len(piece)):
            self._held += len(piece)
            self._pieces.append(piece)
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        self._file.write(piece)
        if self._lent:
            self._buffers.give(self._lent.pop())

    def parts(self) -> Iterator[Any]:
        """All bytes, once."""
        yield from self._pieces
        if self._file is not None:
            self._file.seek(0)
            while part := self._file.read(_PART):
                yield part

    def close(self, *, sent: bool = True) -> None:
        """`sent`: nobody holds any part of it any more."""
        self._pieces.clear()
        if sent:
            for buffer in self._lent:
                self._buffers.give(buffer)
        self._lent.clear()
        self._budget.give(self._held)
        self._held = 0
        if self._file is not None:
            self._file.close()
