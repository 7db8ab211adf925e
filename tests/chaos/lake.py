"""A lake in memory. As in one Delta commit, the rows and the applied version of a table change in one step.

It merges net changes as Spark does and reads with `after`, so a batch that comes again adds only what is new, whatever
its end. A row that was lost or came twice shows by its values in a table with a key, and by its count in one without.
"""

from __future__ import annotations

import datetime
from collections import Counter
from typing import Any

from cdc_core.client.connector import Connector
from cdc_core.contract.claim import Claim
from cdc_core.schema.table import TableSchema

Row = tuple[Any, ...]


class MemoryLake:
    """The mutable state is `tables`, the counted rows of each, and `applied`, the version of each."""

    def __init__(self) -> None:
        self.tables: dict[str, Counter[Row]] = {}
        self.applied: dict[str, int] = {}

    @property
    def end(self) -> int:
        """The version of the newest batch that any table has; -1 before the first."""
        return max(self.applied.values(), default=-1)

    def merge(self, claim: Claim, schema: TableSchema, connector: Connector) -> None:
        """Merges one table of a claim; changes nothing if the read fails."""
        name, end = schema.name, claim.end.version()
        applied = self.applied.get(name)
        if applied is not None and applied >= end:
            return
        changes = connector.changes(claim, name, after=applied, splits=2).read_all()
        rows = self.tables.get(name, Counter())
        listed = changes.to_pylist()
        merged = _keyed(rows, schema, listed) if schema.primary_key else _counted(rows, listed)
        self.tables[name], self.applied[name] = merged, end


def _keyed(rows: Counter[Row], schema: TableSchema, changes: list[dict[str, Any]]) -> Counter[Row]:
    names = [column.name for column in schema.columns]
    at = [names.index(name) for name in schema.primary_key]
    by_key = {tuple(row[i] for i in at): row for row in rows}
    for change in changes:
        op = change.pop("_sluice_op")
        key = tuple(change[name] for name in schema.primary_key)
        if op == 1:
            by_key[key] = values(change)
        else:
            by_key.pop(key, None)
    return Counter(by_key.values())


def _counted(rows: Counter[Row], changes: list[dict[str, Any]]) -> Counter[Row]:
    merged = Counter(rows)
    for change in changes:
        merged[values({k: v for k, v in change.items() if k != "_sluice_count"})] += change["_sluice_count"]
    assert min(merged.values(), default=0) >= 0, "a row was taken away that is not there"
    return +merged


def values(row: dict[str, Any]) -> Row:
    """The row in plain values, which columns of the lake and of MySQL have in common."""
    return tuple(_plain(value) for value in row.values())


def _plain(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(microseconds=1)
    return value
