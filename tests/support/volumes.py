"""Volumes written as the log would write them, and what they must give again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cdc_core.binlog.block import Block
from cdc_core.errors import StoreDamaged
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.store.disk.stored import StoredSegment
from cdc_core.store.disk.volumes import Volumes
from cdc_core.store.mark import Mark
from cdc_core.store.segment import Segment, segment
from tests.support.doubles import block, ddl, table, transaction

OWNER = {"source": "uuid-1"}
SMALL = 1500  # bytes of a volume: a few records


def registry(tables: int = 1) -> SchemaRegistry:
    """It knows `shop.t0` and so on."""
    made = SchemaRegistry()
    for number in range(tables):
        made.intern(table(f"shop.t{number}"))
    return made


def events_of(parts: Sequence[StoredSegment | Segment]) -> list[tuple[int, bytes]]:
    """Every event's end in the journal and its bytes."""
    return [
        (int(row["end"]), part.block.data[row["offset"] : row["offset"] + row["length"]].tobytes())
        for part in parts
        for row in part.block.index
    ]


class Writer:
    """Appends blocks as the log would place them. `parts` is the model: what an intact directory has."""

    def __init__(self, path: Path, volume_bytes: int = SMALL) -> None:
        self.registry = registry()
        self.volumes = Volumes(path, self.registry, volume_bytes)
        self.parts: list[Segment] = []
        self.volumes.open(OWNER)
        self.end = Mark()
        self.journal_end = 4

    def put(self, *rows: int, open_end: bool = False) -> StoredSegment:
        events = transaction(*rows) if rows else ddl()
        return self.put_block(block(events[: -1 if open_end else None], start=self.journal_end))

    def put_block(self, what: Block) -> StoredSegment:
        made = segment(what, self.end)
        stored = self.volumes.append(made)
        self.parts.append(made)
        self.end, self.journal_end = made.at(made.end), what.end
        return stored

    def drop_uncommitted(self) -> None:
        """As the log drops a transaction that the source lost: nothing is written."""
        while self.parts and not len(self.parts[-1].commits):
            gone = self.parts.pop()
            self.end, self.journal_end = gone.first, gone.block.start

    def committed(self) -> list[tuple[int, bytes]]:
        """What a later opening may give at most: the events up to the last transaction end."""
        return committed(self.parts)


def committed(parts: Sequence[Segment]) -> list[tuple[int, bytes]]:
    ends = [sum(p.events for p in parts[:n]) + int(one.commits[-1]) for n, one in enumerate(parts) if len(one.commits)]
    return events_of(parts)[: ends[-1] if ends else 0]


def opened(path: Path, volume_bytes: int = SMALL) -> tuple[Volumes, list[StoredSegment | Segment]]:
    volumes = Volumes(path, SchemaRegistry(), volume_bytes)
    return volumes, volumes.open(OWNER)


def goes_on(volumes: Volumes, parts: list[StoredSegment | Segment], path: Path) -> None:
    """What is written after the recovered segments is there with them."""
    end = parts[-1].at(parts[-1].end) if parts else Mark()
    if parts and isinstance(parts[-1], Segment):
        parts[-1] = volumes.append(parts[-1])
    parts.append(volumes.append(segment(block(transaction(7), start=parts[-1].block.end if parts else 4), end)))
    volumes.close()
    again, found = opened(path)
    assert events_of(found) == events_of(parts)
    again.close()


def sound(part: StoredSegment) -> bool:
    try:
        part.check()
    except StoreDamaged:
        return False
    return True
