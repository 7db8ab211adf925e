"""The bytes of a binlog through the whole decoder, as in the service: from framing to Arrow."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NoReturn

import numpy as np

from cdc_core.binlog.block import STATEMENTS, Block, BlockSlice, Kind
from cdc_core.binlog.xid import Xid
from cdc_core.errors import SourceUnavailable
from cdc_core.position import EntryPosition
from cdc_core.rows.net import RowsPlan, plan_net, read
from cdc_core.rows.system_columns import BASE
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.schema.table import TableSchema
from cdc_core.source.framing import Framer
from cdc_core.stream.annotate import Annotator
from cdc_core.stream.expand import Expander
from cdc_core.stream.group import Group
from cdc_core.stream.pipeline import Pipeline
from cdc_core.stream.settle import Settler
from tests.support.server_text import Row, shown

JOURNAL = "mysql-bin.000001"
MAGIC = b"\xfebin"
_IN_USE, _FLAGS = 1, 17  # a FORMAT_DESCRIPTION's flag of a journal that is being written, and where flags stand

Resolve = Callable[[TableSchema, EntryPosition], TableSchema]


def events_of(raw: bytes) -> list[bytes]:
    """The events of a binlog file, with their checksums if the file has them."""
    assert raw[:4] == MAGIC
    events, at = [], 4
    while at < len(raw):
        size = int.from_bytes(raw[at + 9 : at + 13], "little")
        events.append(raw[at : at + size])
        at += size
    events[0] = events[0][:_FLAGS] + bytes([events[0][_FLAGS] & ~_IN_USE]) + events[0][_FLAGS + 1 :]
    return events


@dataclass
class Decoded:
    """Annotated blocks and their definitions."""

    blocks: list[Block] = field(default_factory=list)
    registry: SchemaRegistry = field(default_factory=SchemaRegistry)

    def segments(self) -> list[list[BlockSlice]]:
        """The blocks, cut after each DDL statement."""
        segments: list[list[BlockSlice]] = [[]]
        for block in self.blocks:
            low = 0
            for row in np.flatnonzero(np.isin(block.index["kind"], STATEMENTS)).tolist():
                segments[-1].append(BlockSlice(block, low, row + 1))
                segments.append([])
                low = row + 1
            segments[-1].append(BlockSlice(block, low, len(block.index)))
        return segments

    def tables(self, slices: Sequence[BlockSlice]) -> list[str]:
        """The tables that have rows in the slices."""
        numbers: set[int] = set()
        for piece in slices:
            index = piece.block.index[piece.low : piece.high]
            numbers |= set(index["schema"][(index["kind"] == Kind.ROWS) & (index["rows"] > 0)].tolist())
        return sorted({self.registry.get(number).name for number in numbers})


def decoded(
    stream: bytes, resolve: Resolve, *, checksum: bool = True, journal: str = JOURNAL, block_bytes: int = 1 << 14
) -> Decoded:
    """What the decoder makes of a dump that starts at offset 4. Raises the errors of the decoder."""
    found = Decoded()
    annotator = Annotator(found.registry, resolve, lambda database, _: database != "mysql")
    pipeline = Pipeline(Expander(), Settler(_not_here, _not_here), annotator)
    for block in framed(stream, checksum=checksum, journal=journal, block_bytes=block_bytes):
        found.blocks.extend(pipeline.push(block))
    return found


def _not_here(what: Group | Xid, before: EntryPosition | None = None) -> NoReturn:
    """There is no source to read again from."""
    raise SourceUnavailable(f"{what} is read once", place=str(before or what), hint="None: this is a test.")


def framed(
    stream: bytes, *, checksum: bool = True, journal: str = JOURNAL, block_bytes: int = 1 << 14
) -> Iterator[Block]:
    """The blocks of a stream whose last packet may be incomplete."""
    framer, at = Framer(journal, 4, checksum=checksum, block_bytes=block_bytes, receive_buffer=1 << 15), 0
    while at < len(stream):
        space = framer.space()
        count = min(len(space), len(stream) - at)
        assert count, "the framing asks for bytes but has no room for them"
        space[:count] = stream[at : at + count]
        framer.received(count)
        at += count
        yield from framer.blocks(flush=False)
    yield from framer.blocks()


def rows_left(found: Decoded) -> dict[str, Counter[Row]]:
    """The rows that all changes leave behind, by table, in the text of the server. Rows older than a change of columns
    keep their shape unless written again."""
    keyed: dict[str, dict[Row, Row]] = {}
    keyless: dict[str, Counter[Row]] = {}
    for slices in found.segments():
        for table in found.tables(slices):
            plan = plan_net(slices, found.registry, table, splits=2)
            if plan.partial:
                _patch(plan, keyed.setdefault(table, {}))
            elif plan.schema.primary_key:
                _upsert(plan, keyed.setdefault(table, {}))
            else:
                _count(plan, keyless.setdefault(table, Counter()))
    return {name: Counter(rows.values()) for name, rows in keyed.items()} | keyless


def _rows(plan: RowsPlan) -> Iterator[tuple[Row, int]]:
    """The texts of each row, and the system column."""
    texts = [shown(column) for column in plan.schema.columns]
    for split in range(len(plan.splits)):
        for batch in read(plan, split):
            columns = [column.to_pylist() for column in batch.columns]
            for *values, mark in zip(*columns, strict=True):
                yield tuple(text(value) for text, value in zip(texts, values, strict=True)), mark


def _patch(plan: RowsPlan, into: dict[Row, Row]) -> None:
    """Applies images in order to the row before, as the merge does. A default is NULL here."""
    key, width = _key_of(plan), len(plan.schema.columns)
    texts = [shown(column) for column in plan.schema.columns]
    images = defaultdict(list)
    for split in range(len(plan.splits)):
        for batch in read(plan, split):
            for *values, operation, group, sequence in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                there = {i: v if i in key else v["value"] for i, v in enumerate(values) if v is not None}
                row = {i: texts[i](value) for i, value in there.items()}
                images[group].append((sequence, operation, row))
    for _, _, row in images.pop(-1, []):
        into.pop(tuple(row[k] for k in key), None)
    made = []
    for group in images.values():
        whole: dict[int, str | None] = dict.fromkeys(range(width))
        for _, operation, row in sorted(group, key=itemgetter(0)):
            if operation == BASE:  # the row of before, if these events began with it
                whole |= enumerate(into.pop(tuple(row[k] for k in key), ("?",) * width))
                row = {k: row[k] for k in key}
            whole |= row
        made.append(tuple(whole[i] for i in range(width)))
    into.update({tuple(row[k] for k in key): row for row in made})


def _key_of(plan: RowsPlan) -> list[int]:
    names = [column.name for column in plan.schema.columns]
    return [names.index(name) for name in plan.schema.primary_key]


def _upsert(plan: RowsPlan, into: dict[Row, Row]) -> None:
    key = _key_of(plan)
    for row, operation in _rows(plan):
        into.pop(tuple(row[k] for k in key), None)
        if operation == 1:
            into[tuple(row[k] for k in key)] = row


def _count(plan: RowsPlan, into: Counter[Row]) -> None:
    for row, copies in _rows(plan):
        into[row] += copies
        if not into[row]:
            del into[row]
