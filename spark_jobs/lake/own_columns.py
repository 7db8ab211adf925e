"""The columns that Sluice adds to a merged table, after the source's: whether a row is deleted, and its last change.

A property of the table says which it has, and whether deleted rows stay in it. Readers of its rows take the living
ones; a row from before the column, or of a repair, has NULL there and lives. `TableState.columns` has the source's
columns alone.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from deltalake import DeltaTable

from cdc_core.errors import TableStopped
from spark_jobs.lake.sql import literal, quote, table_at
from spark_jobs.lake.types import LakeColumn

OWN = "sluice.own_columns"
DELETED, POSITION, COMMIT_TIME = "_sluice_deleted", "_sluice_position", "_sluice_commit_time"
LAST_OP = "_sluice_op"
_THEN = "in defs.yaml (`deletes`, `columns`); then reload it by the job copy, which knows that file."
_TYPES = {DELETED: "boolean", POSITION: "string", COMMIT_TIME: "timestamp", LAST_OP: "string"}


@dataclass(frozen=True, slots=True)
class Own:
    """`names` of the columns, in their order. `soft`: a delete leaves its row, with `DELETED` set. Falsy without
    any."""

    soft: bool = False
    names: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.names)

    @classmethod
    def made(cls, names: Iterable[str], *, soft: bool) -> Own:
        """Returns these columns, and the columns that soft deletes need."""
        wanted = {*names} | ({DELETED} if soft else set())
        return cls(soft, tuple(name for name in _TYPES if name in wanted))

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Own:
        """Returns the columns that a table's properties name."""
        node = json.loads(properties.get(OWN, "{}"))
        return cls(bool(node.get("soft")), tuple(node.get("names", ())))

    @classmethod
    def of_table(cls, table: DeltaTable) -> Own:
        """Returns the columns of Sluice's in a table that delta-rs has opened."""
        return cls.of(table.metadata().configuration).present([field.name for field in table.schema().fields])

    def present(self, there: Collection[str]) -> Own:
        """Returns it without the columns that a run died before adding."""
        return replace(self, names=tuple(name for name in self.names if name in there))

    @property
    def columns(self) -> tuple[LakeColumn, ...]:
        return tuple(LakeColumn(name, _TYPES[name]) for name in self.names)

    @property
    def note(self) -> dict[str, str]:
        """Returns the property that names the columns."""
        return {OWN: json.dumps({"soft": self.soft, "names": list(self.names)})}

    @property
    def living(self) -> str:
        """Returns the condition in SQL for rows that are not deleted, for Spark and for delta-rs."""
        return f"{DELETED} IS NOT TRUE" if DELETED in self.names else "true"

    def check(self, table: str, key: Sequence[str], columns: Iterable[str]) -> None:
        """Raises TableStopped for a source table, with these columns, that cannot have them."""
        if self and not key:
            hint = f"Give it a primary key, or exempt it {_THEN}"
            raise TableStopped("soft deletes and columns of its last change need a primary key", place=table, hint=hint)
        for name in columns:
            if name.lower() in self.names:
                hint = f"Rename it at the source, or exempt the table {_THEN}"
                raise TableStopped(f"column {name!r} has the name of a column that Sluice adds", place=table, hint=hint)

    def last_change(self, op: str, place: str | None = None, time: str | None = None) -> dict[str, str]:
        """Returns the values in SQL for rows that `op` changed without images of theirs. `place`, and `time` in SQL,
        are None if the change has no single place in the binlog."""
        values = {
            DELETED: "true" if op == "delete" else "false",
            POSITION: literal(place) if place is not None else "CAST(NULL AS STRING)",
            COMMIT_TIME: time or "CAST(NULL AS TIMESTAMP)",
            LAST_OP: literal(op),
        }
        return {name: values[name] for name in self.names}


NO_OWN = Own()


def living_at(path: str, version: int, own: Own) -> str:
    """Returns the rows of a version of a table that are not deleted, for FROM."""
    table = table_at(path, version)
    return f"(SELECT * FROM {table} WHERE {own.living})" if DELETED in own.names else table  # noqa: S608


def living_now(path: str, own: Own) -> str:
    """Returns the same of the table as it is."""
    table = f"delta.{quote(path)}"
    return f"(SELECT * FROM {table} WHERE {own.living})" if DELETED in own.names else table  # noqa: S608
