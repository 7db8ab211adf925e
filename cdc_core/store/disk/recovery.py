"""What volumes hold when their directory is opened again: each is read once, by its heads or as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from cdc_core.store.disk.numbers import SchemaNumbers
from cdc_core.store.disk.record import Record
from cdc_core.store.disk.stored import Shelf, StoredSegment
from cdc_core.store.disk.volume import Volume
from cdc_core.store.segment import Segment


@dataclass(slots=True)
class Held:
    """A volume, and its records in the order of writing."""

    volume: Volume
    records: list[Record] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Found:
    """What a volume has, with the offsets. `checked`: its bytes were compared with their checksums just now."""

    volume: Volume
    records: Sequence[tuple[int, Record]]
    checked: bool


def look(volume: Volume) -> Found:
    """Only a volume that nobody completed is read as a whole."""
    heads = volume.heads()
    return Found(volume, list(volume.scan()) if heads is None else heads, heads is None)


def lineage(found: Iterable[Found], shelf: Shelf, numbers: SchemaNumbers, limit: int | None) -> list[StoredSegment]:
    """The records that follow each other without a gap, up to the first that is not sound, has a definition that was
    not kept, or ends after the sequence `limit`. One with a retired definition was removed, and what lies before it:
    their removal was not durable."""
    kept: list[StoredSegment] = []
    for one in found:
        for at, record in one.records:
            first, last = record.extent.first.sequence, record.extent.last.sequence
            while kept and kept[-1].first.sequence >= first:
                kept.pop()
            unknown = any(number >= numbers.count for number in record.extent.schemas)
            gap = kept and kept[-1].end != first
            if unknown or gap or (limit is not None and last > limit):
                return kept
            if not all(map(numbers.is_known, record.extent.schemas)):
                kept.clear()
                continue
            kept.append(StoredSegment(one.volume, at, record, shelf, checked=one.checked))
    return kept


def whole(kept: list[StoredSegment]) -> list[StoredSegment | Segment]:
    """The segments up to the last transaction end. A last one that goes on after it comes in memory, and leaves
    `kept`."""
    while kept and not kept[-1].extent.commits:
        kept.pop()
    parts: list[StoredSegment | Segment] = list(kept)
    if kept and kept[-1].extent.committed < kept[-1].events:
        last = kept.pop()
        parts[-1] = last.until(last.first.sequence + last.extent.committed)
    return parts


def cut(found: Iterable[Found], kept: Sequence[StoredSegment]) -> list[Held]:
    """Removes what lies after the kept segments."""
    number, size = (kept[-1].volume.number, kept[-1].at_byte + kept[-1].record.size) if kept else (0, 0)
    held = []
    for one in found:
        if one.volume.number > number:
            one.volume.remove()
            continue
        if one.volume.number == number and one.volume.size > size:
            one.volume.cut(size)
        held.append(Held(one.volume, [record for at, record in one.records if at < one.volume.size]))
    return held
