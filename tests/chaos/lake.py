"""A lake in memory: what the real one keeps in one Delta commit, rows and the version applied, changes in one step.

Merges net changes as Spark does, and reads with `after`, so a batch that comes again, with the same end or another,
adds only what is new. A row that was lost or came twice shows: in tables with a key by their values, in tables without
by their counts.
"""

from __future__ import annotations

import datetime
from collections import Counter
from typing import Any

from cdc_core.client.connector import Connector
from cdc_core.schema.table import TableSchema
from cdc_core.session.claim import Claim

Row = tuple[Any, ...]


class MemoryLake:
    """The mutable state is `tables`: each one's rows, counted, and `applied`: each one's version."""

    def __init__(self) -> None:
        self.tables: dict[str, Counter[Row]] = {}
        self.applied: dict[str, int] = {}

    @property
    def end(self) -> int:
        """The version of the newest batch that any table has; -1 before the first."""
        return max(self.applied.values(), default=-1)

    def merge(self, claim: Claim, schema: TableSchema, connector: Connector) -> None:
        """One table of a claim; nothing if the read fails."""
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
    """As plain values that the lake's columns and MySQL's have in common."""
    return tuple(_plain(value) for value in row.values())


def _plain(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(microseconds=1)
    return value
