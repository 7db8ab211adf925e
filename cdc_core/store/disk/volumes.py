"""The volumes of one destination: a directory that one process writes.

    lock            held by the process that uses the directory
    store.json      what the volumes belong to: another source or another way to annotate makes them worthless
    definitions     what the schema numbers in them mean
    damaged         the sequence after which they are not to be used, while there is one
    {n}.volume      records in the order of writing; one replaces what those before it have from its first event on
    {n}.heads       the heads of a complete volume's records

A volume is durable when the next one begins; the last one is read as a whole when the directory is opened. So whatever
was torn is cut off, and comes from the source again.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import structlog

from cdc_core.errors import StoreError
from cdc_core.files import replace_file
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.store.disk.numbers import SchemaNumbers
from cdc_core.store.disk.record import FORMAT, buffers, record
from cdc_core.store.disk.recovery import Held, cut, lineage, look, whole
from cdc_core.store.disk.stored import Shelf, StoredSegment
from cdc_core.store.disk.volume import HEADS, VOLUME, Volume, Write
from cdc_core.store.segment import Segment

VOLUME_BYTES = 64 << 20
log = structlog.get_logger(__name__)

_LABEL = "store.json"


def lock_of(path: Path) -> int | None:
    """The descriptor of a lock file, which holds the lock until it is closed; None while another process has it. Raises
    OSError."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    return file


class Volumes:
    """`open` comes first. One thread at a time may call. A volume has at most `volume_bytes`, or one record."""

    def __init__(
        self, path: Path, registry: SchemaRegistry, volume_bytes: int = VOLUME_BYTES, write: Write = os.writev
    ) -> None:
        self.path, self._volume_bytes, self._write = path, volume_bytes, write
        self._numbers = SchemaNumbers(path / "definitions", registry)
        self._held: list[Held] = []
        self.shelf = Shelf(self._note_damage)
        self._lock = -1

    def __repr__(self) -> str:
        return f"<Volumes {self.path} {len(self._held)}>"

    # -- open and close

    def open(self, belongs_to: Mapping[str, str]) -> list[StoredSegment | Segment]:
        """The segments up to the last transaction end; the last one may be in memory, and is to be appended again.

        Volumes that belong to something else are removed. Raises StoreError when another process uses the directory,
        OSError.
        """
        self.path.mkdir(0o700, parents=True, exist_ok=True)
        self._take_lock()
        label = json.dumps({"format": FORMAT, **belongs_to}, sort_keys=True)
        before = _text(self.path / _LABEL)
        if before != label or not self._numbers.load():
            if before:
                log.warning("the store on disk is emptied: it is of another kind", place=str(self.path))
            self.discard()
            self._numbers.forget()
            replace_file(self.path / _LABEL, label.encode())
        self.shelf = Shelf(self._note_damage)
        return self._recover()

    def _take_lock(self) -> None:
        if self._lock >= 0:
            return
        file = lock_of(self.path / "lock")
        if file is None:
            raise StoreError(
                "another process uses the store on disk",
                place=str(self.path),
                hint="Stop it, or give this destination another sluice.store.dir.",
            )
        self._lock = file

    @property
    def gone(self) -> bool:
        """Whether somebody removed the directory, or what is in it: what is written now, nobody finds again."""
        return self._lock >= 0 and not os.fstat(self._lock).st_nlink

    def rest(self) -> None:
        """Holds no file open until something is appended, but the lock."""
        if self._held:
            self._held[-1].volume.close()

    def close(self) -> None:
        """Gives the directory back."""
        try:
            if self._held and not self.gone:
                self._held[-1].volume.flush()
                self._held[-1].volume.close()
        finally:
            if self._lock >= 0:
                os.close(self._lock)
                self._lock = -1

    # -- write

    def append(self, segment: Segment) -> StoredSegment:
        """Writes a segment. It replaces what was written from its first event on. Raises OSError; then all that
        the log has is as before."""
        self._numbers.keep()
        what = record(segment)
        self._begin_after_gap(what.extent.first.sequence)
        held = self._current(what.size)
        at = held.volume.append(buffers(what, segment.block))
        held.records.append(what)
        return StoredSegment(held.volume, at, what, self.shelf)

    def _current(self, size: int) -> Held:
        """The volume that takes a record of so many bytes."""
        last = self._held[-1] if self._held else None
        if last is not None and last.volume.size and last.volume.size + size > self._volume_bytes:
            last.volume.complete(last.records)
            last = None
        return self._new() if last is None else last

    def _new(self) -> Held:
        """The next volume."""
        number = self._held[-1].volume.number + 1 if self._held else 1
        self._held.append(Held(Volume(self.path / f"{number:08d}{VOLUME}", self._write)))
        return self._held[-1]

    def _begin_after_gap(self, sequence: int) -> None:
        """Removes all volumes if they end before a sequence. The log has freed the events in between without writing
        them, so it has freed those of the volumes, too. Recovery would not use a segment that follows a gap."""
        last = next((held.records[-1] for held in reversed(self._held) if held.records), None)
        if last is None or last.extent.last.sequence >= sequence:
            return
        if self._held[-1].records:
            self._new()
        while len(self._held) > 1:
            self._remove_first()

    def _remove_first(self) -> None:
        """Raises OSError; then the volume is still held, and removed later. Forgotten on disk it would leave a gap."""
        self._held[0].volume.remove()
        del self._held[0]

    def forget(self, sequence: int) -> None:
        """Removes the first volumes, as far as all of them ends at or before a sequence. The last one stays. Raises
        OSError."""
        while len(self._held) > 1 and all(one.extent.last.sequence <= sequence for one in self._held[0].records):
            self._remove_first()

    def schemas(self) -> set[int]:
        """The numbers of the definitions that the records have."""
        return {number for held in self._held for one in held.records for number in one.extent.schemas}

    def tidy(self) -> None:
        """Removes the definitions from disk that were retired, when they are many. Raises OSError."""
        self._numbers.compact()

    def discard(self) -> None:
        """Removes all volumes. What is mapped of them stays readable."""
        for held in self._held:
            held.volume.close()
        self._held = []
        for path in [*self.path.glob(f"[0-9]*{VOLUME}"), *self.path.glob(f"[0-9]*{HEADS}")]:
            path.unlink()
        (self.path / "damaged").unlink(missing_ok=True)

    def _note_damage(self, at: StoredSegment) -> None:
        """When the directory is opened again, it ends before this segment. Any thread may find it."""
        try:
            replace_file(self.path / "damaged", str(at.first.sequence).encode())
        except OSError:  # a full disk: then its volume goes, and the gap says the same
            with suppress(OSError):
                at.volume.path.unlink()

    def _limit(self) -> int | None:
        """The sequence after which nothing is to be used; 0 where the file that says so is damaged itself."""
        text = _text(self.path / "damaged")
        return (int(text) if text.isdecimal() else 0) if text else None

    def _recover(self) -> list[StoredSegment | Segment]:
        found = [look(Volume(path, self._write)) for path in sorted(self.path.glob(f"[0-9]*{VOLUME}"))]
        kept = lineage(found, self.shelf, self._numbers, self._limit())
        parts = whole(kept)
        self._held = cut(found, kept)
        (self.path / "damaged").unlink(missing_ok=True)
        return parts


def is_store(path: Path) -> bool:
    """Whether a directory has or had volumes."""
    return os.path.exists(path / _LABEL)  # noqa: PTH110 - False, too, where it may not be looked into (`lost+found`)


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""
