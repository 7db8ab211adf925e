"""A claim's events as the bytes of Canal's entries, a window at a time.

One piece is the `messages` fields of one window, as `Messages` has them. A table that cannot be read raises
TableStopped, unless `table_error` says that its rows are left out, as Canal's `filter.table.error` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import structlog

from cdc_core.binlog.block import Block, BlockSlice, Kind
from cdc_core.binlog.damage import damaged
from cdc_core.canal.entries import transactions
from cdc_core.canal.entries.cells import Template, cells, check, template
from cdc_core.canal.entries.gtid_sets import ExecutedTexts
from cdc_core.canal.entries.heads import ENTRY, named_table, written
from cdc_core.canal.entries.kinds import EntryType
from cdc_core.canal.entries.options import Options
from cdc_core.canal.entries.room import Room, Rooms, fresh
from cdc_core.canal.entries.rows import EVENT_TYPE, TableEntries
from cdc_core.canal.entries.sequence import BEGIN, BEGUN, CLOSED, END, PENDING, ROWS, STATEMENT, sequence
from cdc_core.canal.entries.sequence import Sequence as Marked
from cdc_core.canal.entries.statements import StatementEntry, statements
from cdc_core.canal.entries.window import Window, gathered, windows
from cdc_core.compiled.kernel import Bytes, Longs
from cdc_core.errors import DecodeError, SchemaError, TableStopped
from cdc_core.position import EntryPosition, journal_number
from cdc_core.rows.chunks import Chunk
from cdc_core.rows.images import RowImages, walk
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.stream.ddl_events import DdlReader

log = structlog.get_logger(__name__)
_ANEW = "Then reload the table from the source, or set canal.instance.filter.table.error = true to leave its rows out."


_PARTS = 4  # ends of claims inside a transaction that are remembered: a client may have several batches of it
_Part = tuple[tuple[BlockSlice, ...], int]  # the events that the next claim needs again, and the transaction's state


@dataclass(frozen=True, slots=True)
class _Group:
    """Entries of one kind in the order of their events, and what writes their store values at their places."""

    entries: npt.NDArray[np.void]
    write: Callable[[Longs, Bytes], None]


class Encoder:
    """Encodes the claims of one client. `reader` reads DDL statements; `rooms` are what encoders share. Any thread may
    call."""

    def __init__(
        self, registry: SchemaRegistry, reader: DdlReader, options: Options, rooms: Rooms | None = None
    ) -> None:
        self.registry = registry
        self._reader, self._options = reader, options
        self._templates: dict[int, Template] = {}
        self._known = np.zeros(0, np.bool_)
        self._rooms = rooms or Rooms()
        self._parts: dict[EntryPosition | None, _Part] = {}  # by where a claim ended inside a transaction

    def __repr__(self) -> str:
        return f"<Encoder tables={len(self._templates)}>"

    def pieces(
        self, slices: Sequence[BlockSlice], before: object = None, space: Callable[[int], Bytes] = fresh
    ) -> Iterator[Bytes]:
        """The entries of whole transactions, or of the next part of one. `before`: the GTIDs that lie before them, in
        GTID mode. `space` gives the memory for a piece. Raises DecodeError, TableStopped, SchemaError."""
        executed = ExecutedTexts(before)
        carried, state = self._parts.get(_start(slices), ((), CLOSED))
        for parts in windows(slices):
            with self._rooms.room() as room:
                window = gathered(carried + parts, room)
                marked = sequence(window, self._wanted(), self._shown(window), self._options, state)
                piece = self._piece(window, marked, executed, room, space)
            if len(piece):
                yield piece
            carried, state = _carried(window, marked), BEGUN if marked.state == BEGUN else CLOSED
        if carried or state == BEGUN:
            self._parts.pop(_end(slices), None)
            self._parts[_end(slices)] = tuple(map(_alone, carried)), state
            while len(self._parts) > _PARTS:
                del self._parts[next(iter(self._parts))]

    def _shown(self, window: Window) -> npt.NDArray[np.bool_]:
        """By event, whether the client gets a DDL statement that stands inside a transaction."""
        shown = np.zeros(len(window.index), np.bool_)
        for event in np.flatnonzero(window.index["kind"] == Kind.DDL_WITHIN).tolist():
            shown[event] = any(statements(window, event, self._reader, self._options))
        return shown

    def _wanted(self) -> npt.NDArray[np.bool_]:
        """By number, whether the client gets a definition's rows."""
        count = len(self.registry)
        if count > len(self._known):
            new = map(self.registry.find, range(len(self._known), count))
            found = [one is not None and self._options.wanted(one.database, one.table) for one in new]
            self._templates = {n: made for n, made in self._templates.items() if self.registry.find(n) is not None}
            self._known = np.concatenate([self._known, np.array(found, np.bool_)])
        return self._known

    def _piece(
        self, window: Window, marked: Marked, executed: ExecutedTexts, room: Room, space: Callable[[int], Bytes]
    ) -> Bytes:
        names = [b""]  # none, then one for each table
        groups = [
            _transactions(window, marked),
            *self._tables(window, marked, names, room),
            self._statements(window, marked, names),
        ]
        entries = np.concatenate([group.entries for group in groups])
        sources = np.repeat(np.arange(len(groups)), [len(group.entries) for group in groups])
        order = np.argsort(entries["event"], kind="stable")
        entries, sources = entries[order], sources[order]
        out = written(window, marked, entries, names, executed, space)
        for number, group in enumerate(groups):
            group.write(entries["at"][sources == number], out)
        return out

    def _tables(self, window: Window, marked: Marked, names: list[bytes], room: Room) -> Iterator[_Group]:
        rows = np.flatnonzero(marked.codes == ROWS)
        numbers = window.index["schema"][rows]
        for number in np.unique(numbers).tolist():
            events = rows[numbers == number]
            try:
                entries = self._entries(window, number, events, room)
            except (TableStopped, DecodeError, SchemaError) as error:
                if not self._options.table_error:
                    raise TableStopped(error.message, place=error.place, hint=f"{error.hint} {_ANEW}") from error
                log.warning("rows left out of the entries", **error.as_dict())
                continue
            schema = self.registry.get(number)
            names.append(named_table(schema.database, schema.table))
            yield _Group(_of_rows(window, events, len(names) - 1, entries.stores), entries.write)

    def _statements(self, window: Window, marked: Marked, names: list[bytes]) -> _Group:
        events = np.flatnonzero(marked.codes == STATEMENT).tolist()
        reading = (statements(window, event, self._reader, self._options) for event in events)
        found = [one for ones in reading for one in ones]

        def write(places: Longs, out: Bytes) -> None:
            for one, place in zip(found, places.tolist(), strict=True):
                out[place : place + len(one.store)] = np.frombuffer(one.store, np.uint8)

        return _Group(_of_statements(found, names), write)

    def _entries(self, window: Window, number: int, events: Longs, room: Room) -> TableEntries:
        made = self._templates.get(number)
        if made is None:
            schema = self.registry.get(number)
            if schema.defect:
                raise TableStopped(schema.defect.reason, place=window.place(int(events[0])), hint=schema.defect.hint)
            made = self._templates[number] = template(schema, self._options)
        journals = np.array([journal_number(name) for name in window.journals], np.int32)
        chunk = Chunk(
            window.data,
            window.index[events],
            journals[window.facts["journal"][events]],
            np.zeros(len(events), np.int64),
            window.parts,
        )
        images = walk(chunk, self.registry.row_layout(number))
        if images.astray:
            raise _lacks_document(made, chunk, images)
        entries = TableEntries(chunk, images, cells(made, chunk, images), room)
        if entries.damaged:
            check(made, chunk, images)
            raise damaged("a rows event", "a value cannot be printed", chunk.place(0))
        return entries


def _carried(window: Window, marked: Marked) -> tuple[BlockSlice, ...]:
    """The events of the open transaction that the next window needs again."""
    begin = marked.begin if marked.state == PENDING else -1
    return tuple(window.part(event) for event in (marked.gtid, begin, marked.text) if event >= 0)


def _alone(one: BlockSlice) -> BlockSlice:
    """An event in its own block."""
    block, index = one.block, one.index.copy()
    first, last = int(index["offset"][0]), int(index["offset"][-1]) + int(index["length"][-1])
    index["offset"] -= first
    data = block.data[first:last].copy()
    return BlockSlice(Block(block.journal_name, block.start_of(one.low), data, index), 0, len(index))


def _start(slices: Sequence[BlockSlice]) -> EntryPosition | None:
    if not slices:
        return None
    block, low = slices[0].block, slices[0].low
    return EntryPosition(block.journal_name, int(block.index["end"][low - 1]) if low else block.start)


def _end(slices: Sequence[BlockSlice]) -> EntryPosition:
    block, high = slices[-1].block, slices[-1].high
    return EntryPosition(block.journal_name, int(block.index["end"][high - 1]))


def _transactions(window: Window, marked: Marked) -> _Group:
    events = np.flatnonzero((marked.codes == BEGIN) | (marked.codes == END))
    codes = marked.codes[events]
    entries = np.zeros(len(events), ENTRY)
    entries["event"] = events
    entries["entry_type"] = np.where(codes == BEGIN, EntryType.TRANSACTIONBEGIN, EntryType.TRANSACTIONEND)
    entries["store"] = transactions.sizes(window, events, codes)
    return _Group(entries, lambda places, out: transactions.write(window, events, codes, places, out))


def _of_rows(window: Window, events: Longs, name: int, stores: Longs) -> npt.NDArray[np.void]:
    entries = np.zeros(len(events), ENTRY)
    entries["event"], entries["entry_type"], entries["name"] = events, EntryType.ROWDATA, name
    entries["event_type"] = EVENT_TYPE[window.index["type"][events]]
    entries["rows"], entries["store"] = window.index["rows"][events], stores
    return entries


def _of_statements(found: Sequence[StatementEntry], names: list[bytes]) -> npt.NDArray[np.void]:
    """Statements' entries, whose tables' names are added to `names`."""
    entries = np.zeros(len(found), ENTRY)
    for entry, one in zip(entries, found, strict=True):
        names.append(named_table(one.database, one.table))
        entry["event"], entry["entry_type"], entry["event_type"] = one.event, EntryType.ROWDATA, one.event_type
        entry["name"], entry["store"] = len(names) - 1, len(one.store)
    return entries


def _lacks_document(made: Template, chunk: Chunk, images: RowImages) -> TableStopped:
    return TableStopped(
        f"a partial JSON update of {made.schema.name} lacks the document that it changes",
        place=chunk.place(int(images.event[images.first_astray()])),
        hint="SET GLOBAL binlog_row_image=FULL, or binlog_row_value_options='' (sessions may override them).",
    )
