"""A segment whose block is in a volume. The log uses it like any other segment; in memory it is only an extent."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from cdc_core.binlog.block import Block
from cdc_core.errors import StoreDamaged
from cdc_core.position import EntryPosition
from cdc_core.store.disk.record import Bytes, Record, checksum
from cdc_core.store.disk.volume import Volume
from cdc_core.store.mark import Mark
from cdc_core.store.segment import Ints, Segment, segment

RECENT = 8  # segments whose sums are kept


@dataclass(slots=True)
class Shelf:
    """What the stored segments of one directory share: those that searches read last, and the first that was found
    damaged. `on_damage` is called with it."""

    on_damage: Callable[[StoredSegment], None] = lambda _: None
    recent: deque[tuple[Record, Segment]] = field(default_factory=lambda: deque(maxlen=RECENT))
    damaged: StoredSegment | None = None

    def find(self, record: Record) -> Segment | None:
        return next((one for known, one in self.recent if known is record), None)

    def note(self, damaged: StoredSegment) -> None:
        if self.damaged is None:
            self.damaged = damaged
            self.on_damage(damaged)


class StoredSegment:
    """Methods and properties as in `Segment`. What the extent cannot answer is read from the volume: that raises
    StoreDamaged when the index there is not what was written. `checked`: the whole record was found sound."""

    __slots__ = ("_index_checked", "_shelf", "at_byte", "checked", "extent", "record", "volume")

    def __init__(self, volume: Volume, at: int, record: Record, shelf: Shelf, *, checked: bool = False) -> None:
        self.volume, self.record, self.extent, self.checked = volume, record, record.extent, checked
        self.at_byte, self._shelf, self._index_checked = at, shelf, checked

    def __repr__(self) -> str:
        return f"<StoredSegment {self.first.sequence} to {self.end} at {self._place}>"

    @property
    def first(self) -> Mark:
        return self.extent.first

    @property
    def events(self) -> int:
        return self.extent.events

    @property
    def end(self) -> int:
        return self.extent.last.sequence

    @property
    def start(self) -> EntryPosition:
        return EntryPosition(self.extent.journal_name, self.extent.start)

    @property
    def _place(self) -> str:
        return f"{self.volume.path}:{self.at_byte}"

    # -- what the volume has

    def check(self) -> None:
        """Reads the whole record, once. Raises StoreDamaged."""
        if not self.checked:
            if not self.record.is_sound(self._bytes()):
                raise self._damaged()
            self.checked = self._index_checked = True

    @property
    def block(self) -> Block:
        """Views into the mapped volume."""
        return self.record.block(self._bytes())

    def loaded(self) -> Segment:
        """The segment with its sums, over the mapped block."""
        found = self._shelf.find(self.record)
        if found is None:
            self.check_index()
            found = segment(self.block, self.first)
            self._shelf.recent.append((self.record, found))
        return found

    @property
    def rows(self) -> Ints:
        return self.loaded().rows

    def check_index(self) -> None:
        """Reads the index, once. Raises StoreDamaged."""
        if not self._index_checked:
            if checksum(self.record.index_in(self._bytes())) != self.record.index_crc:
                raise self._damaged()
            self._index_checked = True

    def _bytes(self) -> Bytes:
        try:
            whole = self.volume.view()[self.at_byte : self.at_byte + self.record.size]
        except (OSError, ValueError) as error:  # the file is gone, or cannot be mapped
            raise self._damaged() from error
        if len(whole) < self.record.size:
            raise self._damaged()
        return whole

    def _damaged(self) -> StoreDamaged:
        self._shelf.note(self)
        return StoreDamaged(
            "the store on disk does not hold what was written to it",
            place=self._place,
            hint="Its rows are read again from the source. Check the disk.",
        )

    # -- searches

    def at(self, sequence: int) -> Mark:
        if sequence == self.first.sequence:
            return self.first
        return self.extent.last if sequence == self.end else self.loaded().at(sequence)

    def until(self, sequence: int) -> Segment:
        """In memory: the record will be rewritten."""
        part = self.loaded().until(sequence)
        block = part.block
        copied = Block(block.journal_name, block.start, block.data.copy(), block.index.copy())
        return segment(copied, part.first)

    def whole(self, sequence: int) -> tuple[int, int]:
        return (sequence, sequence) if sequence in (self.first.sequence, self.end) else self.loaded().whole(sequence)

    def last_commit_within(self, low: int, high: int) -> int | None:
        last = self.extent.last_commit
        if last is None or last <= low:
            return None
        return last if last <= high else self.loaded().last_commit_within(low, high)

    def first_commit_after(self, low: int) -> int | None:
        last = self.extent.last_commit
        return None if last is None or last <= low else self.loaded().first_commit_after(low)

    def commits_within(self, low: int, high: int) -> int:
        if low <= self.first.sequence and self.end <= high:
            return self.extent.commits
        return self.loaded().commits_within(low, high) if self.extent.commits else 0

    def schemas(self, low: int, high: int, seen: Collection[int] = ()) -> list[tuple[int, int]]:
        return [] if all(one in seen for one in self.extent.schemas) else self.loaded().schemas(low, high)

    def numbers(self) -> tuple[int, ...]:
        return self.extent.schemas

    def statements_within(self, low: int, high: int) -> list[int]:
        has_some = self.extent.last.statements > self.first.statements
        return self.loaded().statements_within(low, high) if has_some else []

    def position(self, sequence: int) -> EntryPosition:
        return self.block.position(sequence - self.first.sequence - 1)
