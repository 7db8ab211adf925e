"""A Flight server for the Spark tests. It nets changes row by row in Python, a second reading of the contract."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from cdc_core.contract.claim import Claim, TableRange
from cdc_core.errors import RangeGone
from cdc_core.position import EntryPosition
from cdc_core.schema.column_type import ColumnType
from cdc_core.schema.table import Column, TableSchema

JOURNAL = "mysql-bin.000001"
Row = tuple[Any, ...]


@dataclass(frozen=True)
class Change:
    """Without `before` it is an insert, without `after` a delete."""

    position: int
    before: Row | None
    after: Row | None


@dataclass(frozen=True)
class Table:
    """A table definition with the Arrow types of its columns."""

    name: str
    fields: pa.Schema
    key: tuple[str, ...] = ()
    comment: str = ""

    @property
    def schema(self) -> TableSchema:
        columns = tuple(_column(field) for field in self.fields)
        return TableSchema("shop", self.name, columns, self.key, self.comment)


def _column(field: pa.Field) -> Column:
    """One whose values have that Arrow type; an INT for those that the tests need no definition of."""
    kind, comment = field.type, f"the {field.name}"
    if pa.types.is_decimal(kind) and kind.scale:
        return Column(field.name, ColumnType.NEWDECIMAL, kind.precision << 8 | kind.scale, comment=comment)
    if pa.types.is_decimal(kind):
        return Column(field.name, ColumnType.LONGLONG, 0, unsigned=True, comment=comment)
    code, meta, charset = _CODES.get(kind, (ColumnType.LONG, 0, 0))
    return Column(field.name, code, meta, charset=charset, comment=comment)


_BINARY, _UTF8 = 63, 45
_CODES = {
    pa.int8(): (ColumnType.TINY, 0, 0),
    pa.int64(): (ColumnType.LONGLONG, 0, 0),
    pa.bool_(): (ColumnType.BIT, 1, 0),
    pa.float32(): (ColumnType.FLOAT, 4, 0),
    pa.float64(): (ColumnType.DOUBLE, 8, 0),
    pa.date32(): (ColumnType.DATE, 0, 0),
    pa.timestamp("us"): (ColumnType.DATETIME2, 6, 0),
    pa.timestamp("us", "UTC"): (ColumnType.TIMESTAMP2, 6, 0),
    pa.string(): (ColumnType.VARCHAR, 1000, _UTF8),
    pa.binary(): (ColumnType.VARCHAR, 1000, _BINARY),
}


class Feed(flight.FlightServerBase):
    """Serves the changes put into it, by table, within the range of a claim: net, or every image."""

    def __init__(self, port: int = 0, token: str = "") -> None:
        super().__init__(f"grpc://127.0.0.1:{port}")
        self.url = f"grpc://127.0.0.1:{self.port}"
        self.token = token
        self.tables: dict[str, Table] = {}
        self.changes: dict[str, list[Change]] = {}
        self.claims: dict[int, Claim] = {}
        self.ready: dict[str, tuple[Table, pa.Table, dict[str, Any]]] = {}  # net changes lying ready, by table
        self.asked: list[dict[str, Any]] = []
        self._kept: dict[str, pa.Table] = {}

    def put(self, table: Table, changes: Sequence[Change]) -> None:
        self.tables[table.schema.name] = table
        self.changes.setdefault(table.schema.name, []).extend(changes)

    def claim(self, batch_id: int, start: int, end: int, epoch: int = 1, destination: str = "d") -> Claim:
        ranges = []
        for name, table in self.tables.items():
            rows = [c for c in self.changes[name] if start < c.position <= end]
            counts = Counter("i" if c.before is None else "d" if c.after is None else "u" for c in rows)
            if rows:
                ranges.append(TableRange(table.schema, counts["i"], counts["u"], counts["d"]))
        places = EntryPosition(JOURNAL, start), EntryPosition(JOURNAL, end)
        claim = Claim(destination, 1, batch_id, *places, tuple(ranges), 1, 1, 1, (), epoch, "test", 0.0)
        self.claims[batch_id] = claim
        return claim

    def get_flight_info(self, _context: Any, descriptor: flight.FlightDescriptor) -> flight.FlightInfo:
        asked = json.loads(descriptor.command)
        self.asked.append(asked)
        if asked["batch_id"] not in self.claims:
            gone = RangeGone("the claim is gone", hint="Claim again.").as_dict()
            raise flight.FlightServerError("the claim is gone", extra_info=json.dumps(gone).encode())
        table, rows, plan = self.ready.get(asked["table"]) or self._net(asked)
        metadata = {"sluice.table": json.dumps(table.schema.to_dict()), "sluice.plan": json.dumps(plan)}
        size = max(1, -(-rows.num_rows // asked["splits"]))
        endpoints = []
        for low in range(0, rows.num_rows, size):
            ticket = f"{asked['batch_id']}/{asked['mode']}/{asked['table']}/{asked['after']}/{low}"
            self._kept[ticket] = rows.slice(low, size)
            endpoints.append(flight.FlightEndpoint(ticket, [self.url]))
        schema = rows.schema.with_metadata(metadata)
        return flight.FlightInfo(schema, descriptor, endpoints, rows.num_rows, -1)

    def do_get(self, _context: Any, ticket: flight.Ticket) -> flight.RecordBatchStream:
        return flight.RecordBatchStream(self._kept[ticket.ticket.decode()])

    def _net(self, asked: dict[str, Any]) -> tuple[Table, pa.Table, dict[str, Any]]:
        table, claim = self.tables[asked["table"]], self.claims[asked["batch_id"]]
        after = asked["after"] or 0
        changes = [
            c
            for c in self.changes[asked["table"]]
            if claim.start.position < c.position <= claim.end.position
            and EntryPosition(JOURNAL, c.position).version() > after
        ]
        inserts = sum(c.before is None for c in changes)
        deletes = sum(c.after is None for c in changes)
        if asked["mode"] == "changes":
            updates = len(changes) - inserts - deletes
            raw = {"raw_inserts": inserts, "raw_deletes": deletes, "raw_updates": updates}
            images = _images(table, changes)
            return table, images, {"rows": images.num_rows} | raw
        raw = {"raw_inserts": inserts, "raw_deletes": deletes, "raw_updates": len(changes) - inserts - deletes}
        rows, counts = _by_key(table, changes) if table.key else _by_row(table, changes)
        plan = {"rows": rows.num_rows, "insert_only": len(changes) == inserts} | raw | counts
        return table, rows, plan


def _images(table: Table, changes: Sequence[Change]) -> pa.Table:
    """Every image, in order: mode `changes`."""
    rows: list[Row] = []
    for number, change in enumerate(changes):
        names = ("update_before", "update_after") if change.before and change.after else ("delete", "insert")
        for row, name in zip((change.before, change.after), names, strict=True):
            if row is not None:
                rows.append((*row, name, 1, change.position, number, 1_000_000 * change.position))
    system = [("_sluice_op", pa.string()), ("_sluice_journal", pa.int32())]
    system += [("_sluice_position", pa.int64()), ("_sluice_row", pa.int32())]
    system += [("_sluice_timestamp", pa.timestamp("us", "UTC"))]
    return _arrow(rows, pa.schema([*table.fields, *(pa.field(*one) for one in system)]))


def _by_key(table: Table, changes: Sequence[Change]) -> tuple[pa.Table, dict[str, Any]]:
    where = [table.fields.names.index(name) for name in table.key]
    last: dict[Row, Row | None] = {}
    there: dict[Row, bool] = {}  # before the range
    for change in changes:
        for row, after in ((change.before, None), (change.after, change.after)):
            if row is not None:
                key = tuple(row[i] for i in where)
                there.setdefault(key, after is None)
                last[key] = after
    rows = []
    for key, row in last.items():
        bare: list[Any] = [None] * len(table.fields)
        for at, value in zip(where, key, strict=True):
            bare[at] = value
        rows.append((*(row if row is not None else bare), 1 if row is not None else 2))
    schema = table.fields.append(pa.field("_sluice_op", pa.int8()))
    keys = [key[0] for key in last if len(key) == 1 and isinstance(key[0], int)]
    upserts = sum(row is not None for row in last.values())
    counts = {"upserts": upserts, "deletes": len(last) - upserts}
    counts["gained"] = sum(row is not None and not there[key] for key, row in last.items())
    counts["lost"] = sum(row is None and there[key] for key, row in last.items())
    bounds = {"min_key": min(keys), "max_key": max(keys)} if keys else {"min_key": None, "max_key": None}
    return _arrow(rows, schema), counts | bounds


def _by_row(table: Table, changes: Sequence[Change]) -> tuple[pa.Table, dict[str, Any]]:
    copies: Counter[str] = Counter()  # by text: 0.0 and -0.0 are two rows
    rows_by_text = {}
    for change in changes:
        for row, sign in ((change.before, -1), (change.after, 1)):
            if row is not None:
                copies[repr(row)] += sign
                rows_by_text[repr(row)] = row
    rows = [(*rows_by_text[text], count) for text, count in copies.items() if count]
    schema = table.fields.append(pa.field("_sluice_count", pa.int64()))
    counts = {"upserts": sum(r[-1] > 0 for r in rows), "deletes": sum(r[-1] < 0 for r in rows)}
    return _arrow(rows, schema), counts | {"min_key": None, "max_key": None}


def _arrow(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(schema)]
    return pa.Table.from_arrays(columns, schema=schema)


@contextmanager
def feed(port: int = 0) -> Iterator[Feed]:
    server = Feed(port)
    try:
        yield server
    finally:
        server.shutdown()
