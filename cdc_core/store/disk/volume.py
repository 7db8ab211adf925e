"""A volume: one file of records, written at its end and read by memory map.

A file that may be mapped is never cut, since touching a page that is gone ends the process; what a failed write left
after the last record was never read.
"""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from cdc_core.store.disk.record import Bytes, Record, head, parse

VOLUME = ".volume"
HEADS = ".heads"  # next to a complete volume: a copy of the heads of its records

Write = Callable[[int, Sequence[bytes | memoryview]], int]


class Volume:
    """`size` is where the next record begins. `write` is `os.writev`, but in tests of failing disks."""

    def __init__(self, path: Path, write: Write = os.writev) -> None:
        """Of a file that may be there. Raises OSError."""
        self.path = path
        self.size = path.stat().st_size if path.exists() else 0
        self._write = write
        self._file = -1  # open while something is appended
        self._flushed = not self.size
        self._map: weakref.ref[mmap.mmap] | None = None

    def __repr__(self) -> str:
        return f"<Volume {self.path.name} size={self.size}>"

    @property
    def number(self) -> int:
        return int(self.path.stem)

    def append(self, parts: Sequence[bytes | memoryview]) -> int:
        """Where the bytes begin. Raises OSError; then the file is as it was before."""
        left = [part if isinstance(part, memoryview) else memoryview(part) for part in parts if len(part)]
        total = sum(part.nbytes for part in left)
        file = self._open()
        os.lseek(file, self.size, os.SEEK_SET)  # over what a failed write may have left
        self._flushed = False
        try:
            while left:
                written = self._write(file, left)
                while left and written >= left[0].nbytes:
                    written -= left.pop(0).nbytes
                if left:
                    left[0] = left[0][written:]
        except BaseException:
            with suppress(OSError):
                os.ftruncate(file, self.size)
            raise
        at, self.size = self.size, self.size + total
        return at

    def view(self) -> Bytes:
        """All bytes up to `size`, mapped. The map lives as long as an array that looks into it."""
        known = self._map() if self._map else None
        if known is None or len(known) < self.size:
            if not self.size:
                return np.zeros(0, np.uint8)
            with self.path.open("rb") as file:
                known = mmap.mmap(file.fileno(), self.size, access=mmap.ACCESS_READ)
            self._map = weakref.ref(known)
        return np.frombuffer(known, np.uint8)

    def scan(self) -> Iterator[tuple[int, Record]]:
        """Its sound records with their offsets, until the first that is not."""
        data, at = self.view(), 0
        while (found := parse(data, at)) is not None and at + found.size <= len(data):
            if not found.is_sound(data[at : at + found.size]):
                return
            yield at, found
            at += found.size

    def cut(self, size: int) -> None:
        """Only for a file of which nothing is mapped."""
        os.truncate(self.path, size)
        self.path.with_suffix(HEADS).unlink(missing_ok=True)
        self.size, self._map = size, None

    def complete(self, records: Sequence[Record]) -> None:
        """Makes the volume durable and writes its heads next to it. Nothing is appended any more."""
        self.flush()
        with self.path.with_suffix(HEADS).open("wb") as file:
            for one in records:
                file.write(head(one))
            file.flush()
            os.fsync(file.fileno())
        self.close()

    def heads(self) -> list[tuple[int, Record]] | None:
        """Returns the records by the file of heads, with their offsets; None if it does not describe the whole
        volume."""
        try:
            data = np.fromfile(self.path.with_suffix(HEADS), np.uint8)
        except OSError:
            return None
        found: list[tuple[int, Record]] = []
        read = at = 0
        while (one := parse(data, read)) is not None:
            found.append((at, one))
            read, at = read + one.head_bytes, at + one.size
        return found if read == len(data) and at == self.size else None

    def flush(self) -> None:
        """Makes durable what was appended, also by an earlier process."""
        if not self._flushed:
            os.fsync(self._open())
            self._flushed = True

    def _open(self) -> int:
        if self._file < 0:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        return self._file

    def close(self) -> None:
        """Nothing is appended for now. It may be read."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def remove(self) -> None:
        """What is mapped stays readable."""
        self.close()
        self.path.with_suffix(HEADS).unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)
