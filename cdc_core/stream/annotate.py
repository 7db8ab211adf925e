"""The stage that gives every event its `kind`, `schema`, `rows` and `row_base` in a block's index.

Fails closed: an event that is not understood is a DecodeError with its place and a remedy; no event is skipped. Rows of
one table that cannot be read get a definition with a defect, which stops that table where they are read.
Does not promise whole transactions: the ring drops the rows of one whose end never comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import structlog

from cdc_core.binlog import query_event, table_map
from cdc_core.binlog.block import ENDS, Block, Kind
from cdc_core.binlog.events import HEADER, REFUSALS, TREATMENT, Treatment, name_of
from cdc_core.binlog.query_event import Query
from cdc_core.binlog.statements import Meaning, meaning, target
from cdc_core.errors import DecodeError, RowsWithoutTable, SchemaError
from cdc_core.position import EntryPosition
from cdc_core.schema.ddl import Ddl
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.schema.sql_text import shown, without_literals, without_values
from cdc_core.schema.table import Defect, TableSchema
from cdc_core.stream.ddl_events import DdlReader
from cdc_core.stream.definitions import FILTERED, Definitions
from cdc_core.stream.group import part
from cdc_core.stream.online_ddl import base_of
from cdc_core.stream.scan import STATE, TABLE, Stop, scan

log = structlog.get_logger(__name__)

_TABLE_IDS = 256  # of one statement, at first
_DAMAGED = "Check the source's binlog with mysqlbinlog --verify-binlog-checksum; reconnect if it is sound."
_UNFIT = "Check it with mysqlbinlog --verify-binlog-checksum, then reload the table from the source (sluice copy)."
_NOT_AT_START = "Start this destination at a transaction's start, or reload the tables (sluice copy)."
_WITHIN = (Meaning.SAVEPOINT, Meaning.ROLLBACK_TO, Meaning.XA_PART)
_ENDS = (Meaning.COMMIT, Meaning.ROLLBACK, Meaning.XA_COMMIT, Meaning.XA_ROLLBACK)


class Annotator:
    """Carries from block to block: the open transaction, the table ids of its open statement, known definitions.

    `resolve` completes a definition parsed from a TABLE_MAP that ends at a position. `captured(database, table)` is the
    filter. `ddl` reads statements by the same filter, and knows the helper tables of online schema changes.
    """

    def __init__(
        self,
        registry: SchemaRegistry,
        resolve: Callable[[TableSchema, EntryPosition], TableSchema],
        captured: Callable[[str, str], bool],
        ddl: DdlReader | None = None,
    ) -> None:
        self._registry, self._resolve = registry, resolve
        self._ddl = ddl or DdlReader(captured)
        self._definitions = Definitions()
        self._states = np.zeros(1, STATE)
        self._tables = np.zeros(_TABLE_IDS, TABLE)
        self._row = 0  # of the block that is annotated: the events before it are done

    def __repr__(self) -> str:
        return f"<Annotator definitions={len(self._definitions)} in_transaction={bool(self._state['open'])}>"

    @property
    def _state(self) -> Any:
        """The one record of `_states`."""
        return self._states[0]

    def reset(self) -> None:
        self._end_transaction()
        self._state["end"] = 0

    def _end_transaction(self) -> None:
        self._state["open"] = self._state["captured"] = self._state["tables"] = 0

    def forget(self) -> bool:
        """Forgets the numbers of all definitions: those that are met again are asked for again. Not within a statement,
        whose next rows may lie in the next block. Whether that was done."""
        if self._state["tables"]:
            return False
        self._definitions.clear()
        return True

    def push(self, block: Block) -> Iterator[Block]:
        """The block itself, its index filled in place. Raises as `annotate` does, after the transactions before that
        event's: what precedes it in its own is no progress, and comes again at each try."""
        try:
            self.annotate(block)
        except Exception:
            ends = np.flatnonzero(np.isin(block.index["kind"][: self._row], ENDS))
            if len(ends):
                yield part(block, 0, int(ends[-1]) + 1)
            raise
        yield block

    def annotate(self, block: Block) -> None:
        """Fills the index of the block in place. Raises DecodeError or SchemaError at an event that it cannot read: the
        index is filled for the events before it, and `reset` is due."""
        data, index = block.data, block.index
        self._row = 0
        while self._row < len(index):
            stop, self._row = scan(data, index, self._row, self._states, self._tables, self._definitions.known)
            if stop == Stop.UNSEEN_TABLE:
                self._define(block, self._row)
            elif stop == Stop.STATEMENT:
                self._statement(block, self._row)
                self._row += 1
            elif stop == Stop.UNREADABLE:
                self._mark_unreadable(index[self._row])
                self._row += 1
            elif stop == Stop.FULL:
                self._tables = np.concatenate([self._tables, np.zeros_like(self._tables)])
            elif stop != Stop.DONE:
                raise _failure(Stop(stop), int(index[self._row]["type"]), block.place(self._row))

    def _define(self, block: Block, row: int) -> None:
        """Adds the definition that a TABLE_MAP event contains."""
        event, place = block.index[row], block.place(row)
        body = block.data[event["offset"] + HEADER + 8 : event["offset"] + event["length"]]
        try:
            names = table_map.names_in(body.tobytes())
        except DecodeError as error:
            error.place = place
            raise
        schema_id = self._schema_id(names, body.tobytes(), block.position(row))
        layout = np.zeros(0, np.int32) if schema_id == FILTERED else self._registry.row_layout(schema_id)
        forgotten_with = (names[0], base_of(names[1]))  # a helper is one as long as its table is there
        self._definitions.add(body, schema_id, layout, forgotten_with)

    def _schema_id(self, names: tuple[str, str], body: bytes, end: EntryPosition) -> int:
        """One that cannot be read has a defect: its table stops, the others go on."""
        if not self._ddl.captures(*names, end):
            return FILTERED
        try:
            schema = self._resolve(table_map.parse(body, bool(self._state["mariadb"])), end)
            return FILTERED if schema.is_sequence else self._registry.intern(schema)
        except (DecodeError, SchemaError) as error:
            where = f" ({error.place})" if error.place else ""
            return self._registry.intern(TableSchema(*names, (), defect=Defect(error.message + where, error.hint)))

    def _mark_unreadable(self, event: Any) -> None:
        """Gives a rows event that does not fit its definition one with a defect."""
        schema = self._registry.get(int(event["schema"]))
        reason = f"the rows of an event do not fit the {len(schema.columns)} columns of {schema.name}"
        event["schema"] = self._registry.intern(replace(schema, defect=Defect(reason, _UNFIT)))

    def _statement(self, block: Block, row: int) -> None:
        """Annotates a QUERY event that is not an ordinary start or end of a transaction."""
        event, place = block.index[row], block.place(row)
        load = bool(TREATMENT[event["type"]] == Treatment.LOAD)
        body = block.data[event["offset"] + HEADER : event["offset"] + event["length"]].tobytes()
        query = query_event.parse(body, load=load, mariadb=bool(self._state["mariadb"]))
        text = query.text
        what = Meaning.CHANGE if load else meaning(text, query.dialect)
        if what is Meaning.CHANGE:
            self._check_change(query, block, row)
        elif what in (Meaning.ROLLBACK, Meaning.ROLLBACK_TO) and self._state["captured"]:
            raise DecodeError(
                f"{text[:80]!r} takes back changed rows of its transaction",
                place=place,
                hint="Report this: they should have been left out before. Start this destination after it, "
                "then compare with sluice verify.",
            )
        done = what is Meaning.DDL and not self._state["undone"]
        found = self._read(query, block, row) if done else None
        changes = found is not None and bool(found.effects)
        tells = done and not changes and self._ddl.tells(query, block.position(row))
        if what is Meaning.DDL:
            self._definitions.forget(text)  # columns may have other names now, after the same TABLE_MAP
            self._state["tables"] = 0
        event["kind"] = kind = self._kind(what, changes=changes, tells=tells)
        event["schema"], event["rows"] = self._concerned(found) if found and kind is Kind.DDL else -1, 0

    def _read(self, query: Query, block: Block, row: int) -> Ddl:
        """A DDL statement, with what it does to captured tables."""
        found = self._ddl.met(query, block.position(row))
        if not found.understood:
            log.warning(
                "a DDL statement was not understood",
                place=block.place(row),
                statement=without_values(shown(query.text, 200), query.dialect),
            )
        return found

    def _concerned(self, found: Ddl) -> int:
        """Returns the number of the names of the tables that a statement concerns, -1 if they are not known."""
        tables = found.concerned
        return self._registry.intern(TableSchema.of_statement(tables)) if tables else -1

    def _kind(self, what: Meaning, *, changes: bool, tells: bool) -> Kind:
        """The kind of a statement. It begins or ends the transaction; CREATE ... SELECT inside one does neither."""
        if what is Meaning.BEGIN:
            self._state["open"] = 1
            return Kind.BEGIN
        if what in _WITHIN or (self._state["open"] and what not in _ENDS):
            return Kind.DDL_WITHIN if changes else Kind.OTHER
        self._end_transaction()
        if changes:
            return Kind.DDL
        return Kind.DDL_UNSHOWN if tells else Kind.COMMIT

    def _check_change(self, query: Query, block: Block, row: int) -> None:
        """Raises DecodeError for a statement-format change, unless it is to one table that the filter leaves out."""
        to = target(query.text, query.database, query.dialect)
        if to is not None and not self._ddl.captures(*to, block.position(row)):
            return
        raise DecodeError(
            f"statement-format change: {without_literals(query.text[:1000], query.dialect)[:80]!r}",
            place=block.place(row),
            hint="SET GLOBAL binlog_format=ROW (sessions may override it), then reload its tables (sluice copy).",
        )


def _failure(stop: Stop, event_type: int, place: str) -> DecodeError:
    name = name_of(event_type)
    if stop is Stop.BAD_REFUSED:
        what, remedy = REFUSALS[event_type]
        return DecodeError(f"{what}: event {name}", place=place, hint=remedy)
    message, hint = {
        Stop.BAD_UNKNOWN: (
            f"unknown event {name}",
            "This server writes events that Sluice does not understand; leave them out at the source.",
        ),
        Stop.BAD_TABLE: (f"event {name} names a table that no TABLE_MAP of its statement describes", _NOT_AT_START),
        Stop.BAD_SHORT: (f"event {name} is too short", _DAMAGED),
        Stop.BAD_NESTING: (f"event {name} starts a transaction inside one with changed rows", _NOT_AT_START),
    }[stop]
    kind = RowsWithoutTable if stop is Stop.BAD_TABLE else DecodeError
    return kind(message, place=place, hint=hint)
