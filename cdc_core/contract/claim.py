"""A claim: the batch that getWithoutAck hands out. Values with a JSON form, for the service, clients and Spark."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from cdc_core.contract.fields import fields_of
from cdc_core.contract.reached import Reached
from cdc_core.position import EntryPosition
from cdc_core.schema.ddl import Ddl
from cdc_core.schema.names import full_name, split_name
from cdc_core.schema.table import TableSchema


@dataclass(frozen=True, slots=True)
class TableRange:
    """One table's part of a claim: rows by operation, and the one schema version of all of them."""

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
    the store but not the cursor. `execute_times`: ((second since the epoch, rows committed in it), ...).
    `batch_id` always rises, also across restarts of the service. `lease_deadline` is in seconds since the epoch.
    `moved` is the first epoch of the present source: positions of earlier epochs belong to another server.
    `seamless`: ((epoch, version), ...). Each of these epochs began at another server exactly after the cursor of the
    epoch before, which had that version: it repeats none of its rows.
    `ddl`: the DDL statements of captured tables in the range, in order; all may be followed before its rows, and those
    of different tables in any order. A range ends before a DDL that follows rows of a table that it may concern.
    `stopped`: the client's stopped tables when the claim was handed out. Its owner leaves their changes out.
    `reached`: what a lake must have before it takes the claim; None of a service that does not say it.
    `identity`: that of the destination at its service; "" of a service that does not say it.
    `snapshots`: ((table, id), ...), the client's open snapshots when the claim was handed out. Its owner keeps the
    changes of those tables for them.
    `rules`: the fingerprint of the rules by which its definitions and rows are seen; "" without rules.
    `moments`: when its first row was received, decoded, stored and claimed, in seconds since the epoch; None for a
    moment that is not known, none of them of a service that does not say it.
    `captured`: the filter by which the range was read, the expressions of tables to capture and of those to leave out;
    None of a service that does not say it.
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
    ddl: tuple[Ddl, ...] = ()
    stopped: tuple[str, ...] = ()
    reached: Reached | None = None
    identity: str = ""
    snapshots: tuple[tuple[str, str], ...] = ()
    rules: str = ""
    captured: tuple[str, str] | None = None
    moments: tuple[float | None, ...] = ()

    @property
    def table_names(self) -> tuple[str, ...]:
        """The tables that the claim changes, by its rows or its DDL."""
        return tuple(sorted({table.name for table in self.tables} | self.redefined))

    @property
    def redefined(self) -> frozenset[str]:
        """The tables that the claim's DDL names; of a dropped database, a name without a table."""
        effects = [effect for ddl in self.ddl for effect in ddl.effects]
        renamed = {full_name(*effect.to) for effect in effects if effect.to}
        return frozenset({effect.name for effect in effects} | renamed)

    def redefines(self, table: str) -> bool:
        """Whether a DDL statement of the claim is on the table or its database."""
        return is_redefined(table, self.redefined)

    @property
    def rows(self) -> int:
        return sum(table.rows for table in self.tables)

    def to_dict(self) -> dict[str, Any]:
        plain = fields_of(self)
        tables = [fields_of(table) | {"schema": table.schema.to_dict()} for table in self.tables]
        ddl = [one.to_dict() for one in self.ddl]
        for name in ("snapshots", "rules", "moments"):
            if not plain[name]:
                plain.pop(name)  # seldom there, and clients of before do not know it
        return plain | {
            "start": self.start.to_dict(),
            "end": self.end.to_dict(),
            "tables": tables,
            "ddl": ddl,
            "reached": self.reached.to_dict() if self.reached else None,
        }

    @classmethod
    def from_dict(cls, node: dict[str, Any]) -> Claim:
        tables = tuple(TableRange(**{**t, "schema": TableSchema.from_dict(t["schema"])}) for t in node["tables"])
        times = tuple((int(second), int(rows)) for second, rows in node["execute_times"])
        start, end = EntryPosition.from_dict(node["start"]), EntryPosition.from_dict(node["end"])
        seamless = tuple((int(epoch), int(left)) for epoch, left in node.get("seamless", ()))
        ddl = tuple(Ddl.from_dict(one) for one in node.get("ddl", ()))
        known = {"start": start, "end": end, "tables": tables, "execute_times": times, "seamless": seamless, "ddl": ddl}
        reached = Reached.from_dict(node["reached"]) if node.get("reached") else None
        snapshots = tuple((str(table), str(name)) for table, name in node.get("snapshots", ()))
        stopped = tuple(node.get("stopped", ()))
        regex, black = node.get("captured") or ("", "")
        known |= {"snapshots": snapshots, "captured": (regex, black) if regex or black else None}
        known |= {"moments": tuple(node.get("moments", ()))}
        return cls(**{**node, **known, "reached": reached, "stopped": stopped})


def is_redefined(table: str, redefined: Collection[str]) -> bool:
    """Whether the table, or its database as a whole, is among those that DDL names."""
    return table in redefined or full_name(split_name(table)[0], "") in redefined
