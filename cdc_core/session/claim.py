"""A claim: what getWithoutAck hands out. Plain values with a JSON form, shared by service, clients and Spark."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from cdc_core.position import EntryPosition
from cdc_core.schema.table import TableSchema


@dataclass(frozen=True, slots=True)
class TableRange:
    """One table's share of a claim: row counts by operation, and the one schema version that all its rows have."""

    schema: TableSchema
    inserts: int
    updates: int
    deletes: int

    @property
    def name(self) -> str:
        return self.schema.name

    @property
    def rows(self) -> int:
        return self.inserts + self.updates + self.deletes


@dataclass(frozen=True, slots=True)
class Claim:
    """A contiguous range, from `start` (exclusive) to `end` (inclusive of the event that ends there).

    It ends at a transaction's end unless `partial`: then one transaction alone exceeds the limit, and an ack moves
    the store but not the cursor. `execute_times` is a histogram of commit times: ((second, rows), ...).
    `batch_id` rises for ever, also across restarts of the service. `lease_deadline` is in seconds since the epoch.
    Positions of epochs before `moved` are another server's. An epoch in `seamless`, ((epoch, version), ...), tells
    nothing again of the one before: it began at another server behind what that one's cursor had, at that version.
    """

    destination: str
    client_id: int
    batch_id: int
    start: EntryPosition
    end: EntryPosition
    tables: tuple[TableRange, ...]
    transactions: int
    events: int
    nbytes: int
    execute_times: tuple[tuple[int, int], ...]
    epoch: int
    owner: str
    lease_deadline: float
    partial: bool = False
    moved: int = 0
    seamless: tuple[tuple[int, int], ...] = ()

    @property
    def rows(self) -> int:
        return sum(table.rows for table in self.tables)

    def to_dict(self) -> dict[str, Any]:
        fields = asdict(self)
        fields["start"], fields["end"] = self.start.to_dict(), self.end.to_dict()
        fields["tables"] = [{**asdict(t), "schema": t.schema.to_dict()} for t in self.tables]
        return fields

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Claim:
        tables = tuple(TableRange(**{**t, "schema": TableSchema.from_dict(t["schema"])}) for t in fields["tables"])
        times = tuple((int(second), int(rows)) for second, rows in fields["execute_times"])
        start, end = EntryPosition.from_dict(fields["start"]), EntryPosition.from_dict(fields["end"])
        seamless = tuple((int(epoch), int(left)) for epoch, left in fields.get("seamless", ()))
        known = {"start": start, "end": end, "tables": tables, "execute_times": times, "seamless": seamless}
        return cls(**{**fields, **known})
