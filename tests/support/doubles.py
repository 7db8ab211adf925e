"""Test doubles: blocks written by hand, a clock to turn, cursors that can be cut off.

An event has a header with its type, time and length, and padding. It does not decode.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from cdc_core.binlog.block import INDEX, Block, Kind
from cdc_core.schema.table import Column, TableSchema

GTID, BEGIN, WRITE, UPDATE, DELETE, XID = 33, 2, 30, 31, 32, 16


class Event(NamedTuple):
    """An event to write: its kind and type, and for a rows event its schema id and number of rows."""

    kind: Kind
    type: int
    schema: int = -1
    rows: int = 0
    length: int = 40


def transaction(*rows: int, schema: int = 0, type: int = WRITE, filtered: bool = False) -> list[Event]:
    """GTID, BEGIN, a rows event for each number in `rows`, COMMIT."""
    kind = Kind.FILTERED if filtered else Kind.ROWS
    body = [Event(kind, type, -1 if filtered else schema, 0 if filtered else count) for count in rows]
    return [Event(Kind.OTHER, GTID), Event(Kind.BEGIN, BEGIN), *body, Event(Kind.COMMIT, XID)]


def ddl(*, shown: bool = True, on: int = -1) -> list[Event]:
    """A DDL statement with its GTID; one that is not `shown` changes nothing in the lake. `on`: the schema id of the
    one table that it concerns."""
    return [Event(Kind.OTHER, GTID), Event(Kind.DDL if shown else Kind.DDL_UNSHOWN, BEGIN, on)]


def create_select(*rows: int) -> list[Event]:
    """CREATE ... SELECT: the statement inside the transaction, before its rows."""
    head, *body = transaction(*rows)[1:]
    return [Event(Kind.OTHER, GTID), head, Event(Kind.DDL_WITHIN, BEGIN), *body]


def block(
    events: Iterable[Event], start: int = 4, journal_name: str = "mysql-bin.000001", timestamp: int = 1_700_000_000
) -> Block:
    """The `events` one after the other from `start` on, of server 1 and within one second."""
    events = list(events)
    index = np.zeros(len(events), dtype=INDEX)
    index["length"] = [e.length for e in events]
    index["end"] = start + np.cumsum(index["length"].astype(np.int64))
    index["offset"] = np.cumsum(index["length"]) - index["length"]
    index["timestamp"] = timestamp
    for name in ("kind", "type", "schema", "rows"):
        index[name] = [getattr(e, name) for e in events]
    data = b"".join(
        struct.pack("<IBIIIH", timestamp, e.type, 1, e.length, int(end) & 0xFFFFFFFF, 0).ljust(e.length, b"\0")
        for e, end in zip(events, index["end"], strict=True)
    )
    return Block(journal_name, start, np.frombuffer(data, dtype=np.uint8), index)


def table(name: str = "shop.orders", columns: int = 1) -> TableSchema:
    """A table of so many INT columns, the first of which is its key."""
    database, _, table_name = name.partition(".")
    return TableSchema(database, table_name, tuple(Column(f"c{n}", 3, 0) for n in range(columns)), ("c0",))


@dataclass
class Tables:
    """A schema registry of fixed content: `get(id)` is the id-th table."""

    tables: list[TableSchema] = field(default_factory=lambda: [table()])

    def get(self, schema_id: int) -> TableSchema:
        return self.tables[schema_id]


@dataclass
class Clock:
    """A clock that stands still until it is turned."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now

    def turn(self, seconds: float) -> None:
        self.now += seconds
