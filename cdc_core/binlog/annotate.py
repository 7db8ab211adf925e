"""Marks every event's `kind`, `schema`, `rows` and `row_base` in a block's index.

Promises: what it does not understand stops it (DecodeError with journal, offset and remedy); nothing is skipped.
Does not promise whole transactions: rows of one whose end never comes are its caller's to drop.
A TABLE_MAP not seen before is parsed once, by its bytes; a DDL statement makes it forget, since names may have changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from cdc_core.binlog import scan, table_map
from cdc_core.binlog.events import HEADER, LOAD, REFUSALS, TREATMENT, name_of
from cdc_core.binlog.statements import Meaning, meaning, target
from cdc_core.errors import DecodeError, RowsWithoutTable, SchemaError
from cdc_core.position import EntryPosition
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.schema.table import TableSchema
from cdc_core.source.block import Kind

_DAMAGED = "Check the source's binlog with mysqlbinlog --verify-binlog-checksum; reconnect if it is sound."
_LOST = "Start this destination at a transaction's start, or take a new snapshot."


def nothing(position: EntryPosition, database: str, sql: str) -> None:
    """The `on_ddl` of those who do not listen."""


class Annotator:
    """Holds what is carried from block to block: the open transaction, the statement's table ids, known definitions.

    `resolve` completes a parsed definition; `accept(database, table)` is the filter; `on_ddl(position, database, sql)`
    hears every CREATE, ALTER, DROP, RENAME and TRUNCATE (position: where its event ends).
    """

    def __init__(
        self,
        registry: SchemaRegistry,
        resolve: Callable[[TableSchema], TableSchema],
        accept: Callable[[str, str], bool],
        on_ddl: Callable[[EntryPosition, str, str], None] = nothing,
    ) -> None:
        self._registry, self._resolve, self._accept, self._on_ddl = registry, resolve, accept, on_ddl
        self._state = np.zeros(scan.PLACES, np.int64)
        self._maps = np.zeros(256, scan.MAP)
        self._end = 0  # of the last block
        self.forget()

    def __repr__(self) -> str:
        return f"<Annotator definitions={self._known} in_transaction={bool(self._state[scan.IN_TRANSACTION])}>"

    def reset(self) -> None:
        """A new file or connection: no transaction is open, no table id is known."""
        self._state[: scan.MARIADB] = 0
        self._state[scan.END] = 0
        self._end = 0

    def forget(self) -> None:
        """Ask for every definition again when it is next met. Inside a transaction its table ids stay unknown."""
        self._known = 0
        self._arena = np.zeros(0, np.uint8)
        self._layouts = np.zeros(0, np.int32)
        self._entries = np.zeros(64, scan.ENTRY)
        self._entries["columns"] = -1
        self._state[scan.MAPS] = 0

    def annotate(self, journal_name: str, data: npt.NDArray[np.uint8], index: npt.NDArray[np.void]) -> None:
        """Fills the index in place. After an error the block is not to be used and `reset` is due."""
        code, at = scan.DONE, 0
        while at < len(index):
            code, at = scan.scan(data, index, at, self._state, self._maps, self._entries, self._arena, self._layouts)
            if code == scan.UNSEEN_TABLE:
                self._learn(data, index[at], self._start(journal_name, index, at))
            elif code == scan.STATEMENT:
                self._statement(journal_name, data, index[at], self._start(journal_name, index, at))
                at += 1
            elif code == scan.FULL:
                self._maps = np.concatenate([self._maps, np.zeros_like(self._maps)])
            elif code != scan.DONE:
                raise _failure(code, int(index[at]["type"]), self._start(journal_name, index, at))
        self._end = int(index["end"][-1]) if len(index) else self._end

    def _start(self, journal_name: str, index: npt.NDArray[np.void], at: int) -> str:
        """Where an event, or the one that it came in, starts: the place that errors name."""
        first = int(np.searchsorted(index["end"], index["end"][at]))
        before = int(index["end"][first - 1]) if first else self._end
        return f"{journal_name}:{before or int(index['end'][at]) - int(index['length'][at])}"

    def _learn(self, data: npt.NDArray[np.uint8], event: Any, place: str) -> None:
        """Interns the body of a TABLE_MAP event."""
        body = data[event["offset"] + HEADER + 8 : event["offset"] + event["length"]]
        try:
            number = self._number(body.tobytes())
        except (DecodeError, SchemaError) as error:
            error.place = f"{place} ({error.place})" if error.place else place
            raise
        layout = self._registry.layout(number) if number >= 0 else np.zeros(0, np.int32)
        entry = np.zeros((), scan.ENTRY)
        entry["hash"] = scan.hash_bytes(body, 0, len(body))
        entry["start"], entry["length"], entry["schema"] = len(self._arena), len(body), number
        entry["layout"], entry["columns"] = len(self._layouts), len(layout)
        self._arena = np.concatenate([self._arena, body])
        self._layouts = np.concatenate([self._layouts, layout])
        self._place(entry)

    def _number(self, body: bytes) -> int:
        if not self._accept(*table_map.names_in(body)):
            return -1
        schema = self._resolve(table_map.parse(body, bool(self._state[scan.MARIADB])))
        return -1 if schema.is_sequence else self._registry.intern(schema)

    def _place(self, entry: npt.NDArray[np.void]) -> None:
        """Puts an entry into the open-addressing table; the table ids of the open statement follow when it grows."""
        self._known += 1
        if 2 * self._known > len(self._entries):
            old, self._entries = self._entries, np.zeros(2 * len(self._entries), scan.ENTRY)
            self._entries["columns"] = -1
            moved = {at: self._insert(old[at]) for at in np.flatnonzero(old["columns"] >= 0).tolist()}
            for known in self._maps[: self._state[scan.MAPS]]:
                known["entry"] = moved[int(known["entry"])]
        self._insert(entry)

    def _insert(self, entry: Any) -> int:
        mask = len(self._entries) - 1
        at = int(entry["hash"]) & mask
        while self._entries["columns"][at] >= 0:
            at = at + 1 & mask
        self._entries[at] = entry
        return at

    def _statement(self, journal_name: str, data: npt.NDArray[np.uint8], event: Any, place: str) -> None:
        """A QUERY event that is not a transaction's ordinary start or end."""
        database, text = _query(data, event)
        what = Meaning.CHANGE if TREATMENT[event["type"]] == LOAD else meaning(text)
        event["schema"], event["rows"] = -1, 0
        if what is Meaning.CHANGE:
            self._check_change(text, database, place)
        elif what in (Meaning.ROLLBACK, Meaning.ROLLBACK_TO) and self._state[scan.KEPT]:
            raise DecodeError(
                f"{text[:80]!r} takes back changed rows of its transaction",
                place=place,
                hint="Report this: they should have been left out before. Start this destination behind it, "
                "then compare with sluice verify.",
            )
        elif what is Meaning.DDL:
            self._on_ddl(EntryPosition(journal_name, int(event["end"]), int(event["timestamp"]) * 1000), database, text)
            self.forget()
        event["kind"] = self._kind(what)

    def _kind(self, what: Meaning) -> Kind:
        """And moves the transaction on. A statement inside a transaction (CREATE ... SELECT) does not end it."""
        if what is Meaning.BEGIN:
            self._state[scan.IN_TRANSACTION] = 1
            return Kind.BEGIN
        stays = (Meaning.SAVEPOINT, Meaning.ROLLBACK_TO, Meaning.XA_PART)
        ends = what in (Meaning.COMMIT, Meaning.ROLLBACK, Meaning.XA_COMMIT, Meaning.XA_ROLLBACK)
        if what in stays or (self._state[scan.IN_TRANSACTION] and not ends):
            return Kind.OTHER
        self._state[: scan.MARIADB] = 0
        return Kind.COMMIT

    def _check_change(self, text: str, database: str, place: str) -> None:
        """Statement-format changes are let through only when they write to one table and that is filtered out."""
        to = target(text, database)
        if to is not None and not self._accept(*to):
            return
        raise DecodeError(
            f"statement-format change: {text[:80]!r}",
            place=place,
            hint="SET GLOBAL binlog_format=ROW (sessions may override it), then take a new snapshot of its tables.",
        )


def _query(data: npt.NDArray[np.uint8], event: Any) -> tuple[str, str]:
    """Default database and text of a QUERY or EXECUTE_LOAD_QUERY event."""
    body = data[event["offset"] + HEADER : event["offset"] + event["length"]].tobytes()
    at = (26 if TREATMENT[event["type"]] == LOAD else 13) + int.from_bytes(body[11:13], "little")
    stop = at + body[8]
    return body[at:stop].decode(errors="replace"), body[stop + 1 :].decode(errors="replace")


def _failure(code: int, event_type: int, place: str) -> DecodeError:
    name = name_of(event_type)
    if code == scan.BAD_REFUSED:
        what, remedy = REFUSALS[event_type]
        return DecodeError(f"{what}: event {name}", place=place, hint=remedy)
    message, hint = {
        scan.BAD_UNKNOWN: (
            f"unknown event {name}",
            "This server writes events that are not understood; leave them out at the source.",
        ),
        scan.BAD_TABLE: (f"event {name} names a table that no TABLE_MAP of its statement describes", _LOST),
        scan.BAD_ROWS: (f"the rows of event {name} do not add up to its length", _DAMAGED),
        scan.BAD_SHORT: (f"event {name} is too short", _DAMAGED),
        scan.BAD_NESTING: (f"event {name} starts a transaction inside one with changed rows", _LOST),
    }[code]
    kind = RowsWithoutTable if code == scan.BAD_TABLE else DecodeError
    return kind(message, place=place, hint=hint)
