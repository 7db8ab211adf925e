"""Claims of made-up tables, and a Flight door that serves their rows as the service does."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import flight

from cdc_core.contract.claim import Claim, TableRange
from cdc_core.position import EntryPosition
from cdc_core.schema.table import Column, TableSchema
from spark_jobs.lake.types import OP

DESTINATION = "warming"
_JOURNAL = "warming.000001"
_APART = 1_000_000  # between the keys of two claims
_NAMES = ("id", "name", "price", "changed", "seen", "size")


def table_of(table: int) -> TableSchema:
    """One of the tables, from 0. Each has its columns in another order, so that Spark compiles code for each."""
    columns = tuple(Column(name, 3, 0) for name in _order(table))
    return TableSchema(DESTINATION, f"scratch{table}", columns, ("id",), "made to warm Spark")


def _order(table: int) -> tuple[str, ...]:
    at = 1 + table % (len(_NAMES) - 1)
    return (_NAMES[0], *_NAMES[at:], *_NAMES[1:at])


def claim_of(number: int, table: int, inserts: int, updates: int, deletes: int) -> Claim:
    """The claim of that number, from 1, with so many changes of one table."""
    places = EntryPosition(_JOURNAL, 1000 * number), EntryPosition(_JOURNAL, 1000 * number + 1000)
    ranges = (TableRange(table_of(table), inserts, updates, deletes),)
    return Claim(DESTINATION, 1, number, *places, ranges, 1, 1, 1, (), 1, DESTINATION, 0.0)


class Door(flight.FlightServerBase):  # type: ignore[misc]
    """Hands out the rows of each claim that it was offered, on the loopback address. It knows no source."""

    def __init__(self) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self.url = f"grpc://127.0.0.1:{self.port}"
        self._claims: dict[int, TableRange] = {}

    def offer(self, claim: Claim) -> None:
        (self._claims[claim.batch_id],) = claim.tables

    def get_flight_info(self, _context: Any, descriptor: flight.FlightDescriptor) -> flight.FlightInfo:
        number = json.loads(descriptor.command)["batch_id"]
        share = self._claims[number]
        rows = self.rows(share, number)
        keys = pc.min_max(rows["id"]).as_py()
        plan = {
            "rows": share.rows, "upserts": share.inserts + share.updates, "deletes": share.deletes,
            "raw_inserts": share.inserts, "raw_updates": share.updates, "raw_deletes": share.deletes,
            "insert_only": share.rows == share.inserts, "gained": share.inserts, "lost": share.deletes,
            "min_key": keys["min"], "max_key": keys["max"],
        }  # fmt: skip
        told = {"sluice.table": json.dumps(share.schema.to_dict()), "sluice.plan": json.dumps(plan)}
        endpoint = flight.FlightEndpoint(json.dumps(number), [self.url])
        return flight.FlightInfo(rows.schema.with_metadata(told), descriptor, [endpoint], share.rows, -1)

    def do_get(self, _context: Any, ticket: flight.Ticket) -> flight.RecordBatchStream:
        number = json.loads(ticket.ticket)
        return flight.RecordBatchStream(self.rows(self._claims[number], number))

    def rows(self, share: TableRange, number: int) -> pa.Table:
        """New keys; then the first keys of the claim before, with other values; then its next keys, which go."""
        first, before = number * _APART, (number - 1) * _APART
        starts = ((first, share.inserts), (before, share.updates), (before + share.updates, share.deletes))
        keys = pa.array([key for start, count in starts for key in range(start, start + count)], pa.int64())
        values: dict[str, pa.Array] = {
            "id": keys,
            "name": pc.cast(keys, pa.string()),
            "price": pc.cast(pc.cast(pc.add(keys, number), pa.int32()), pa.decimal128(12, 2)),
            "changed": pc.cast(keys, pa.timestamp("us")),
            "seen": pc.cast(keys, pa.timestamp("us", "UTC")),
            "size": pc.cast(keys, pa.float64()),
        }
        ops = pa.array([1] * (share.inserts + share.updates) + [2] * share.deletes, pa.int8())
        columns = {column.name: values[column.name] for column in share.schema.columns}
        return pa.table(columns | {OP: ops})
