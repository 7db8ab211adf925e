"""Definitions of tables as of a position: plain values, shared by decoder, doors and Spark.

A definition comes from a TABLE_MAP event (`binlog.table_map`), completed from information_schema
(`schema.information_schema`) with what the event does not say: comments, and names where row metadata is MINIMAL.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from typing import Any

_DATED = (7, 10, 12, 14, 17, 18)  # type codes
_ADDRESSES = {"uuid": 16, "inet4": 4, "inet6": 16}  # bytes


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `type_code` and `meta` are those of TABLE_MAP (the real type for ENUM, SET and JSON);
    `charset` is a collation id, 63 for binary; `labels` are those of ENUM or SET."""

    name: str
    type_code: int
    meta: int
    unsigned: bool = False
    nullable: bool = True
    charset: int = 0
    labels: tuple[str, ...] = ()
    comment: str = ""
    column_type: str = ""  # as declared, e.g. `decimal(12,2)`; empty when unknown
    default: str | None = None  # as the catalogue has it: a constant's text; None without one
    default_expression: bool = False  # `default` is to be evaluated, which only the server can
    hidden: bool = False  # in the log, but in no SELECT: what MariaDB keeps for a unique key over long values
    as_text: bool = False  # a date or moment told as the server prints it: `sluice.zero.dates=string`

    @property
    def is_address(self) -> bool:
        """MariaDB's UUID, INET4 or INET6: stored like BINARY, text in SELECT. Only the declared type tells."""
        return self.type_code == 254 and _ADDRESSES.get(self.column_type.lower()) == self.meta


_SEQUENCE = (
    "next_not_cached_value", "minimum_value", "maximum_value", "start_value", "increment", "cache_size", "cycle_option",
    "cycle_count",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TableSchema:
    """One version of one table's definition."""

    database: str
    table: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()
    comment: str = ""

    @property
    def name(self) -> str:
        return f"{self.database}.{self.table}"

    @property
    def is_sequence(self) -> bool:
        """A SEQUENCE of MariaDB's: its events say INSERT but replace its one row (MariaDB, "Sequence Overview")."""
        return tuple(column.name for column in self.columns) == _SEQUENCE

    @property
    def version(self) -> str:
        """A fingerprint of what matters to rows: the same after a restart, changed by any change of a column."""
        rows = [
            (c.name, c.type_code, c.meta, c.unsigned, c.charset, c.labels) + (("text",) if c.as_text else ())
            for c in self.columns
        ]
        text = json.dumps([self.database, self.table, rows, self.primary_key])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def shown(self) -> tuple[Column, ...]:
        """The columns that SELECT knows."""
        return tuple(column for column in self.columns if not column.hidden)

    def with_dates_as_text(self) -> TableSchema:
        """Each DATE, DATETIME and TIMESTAMP as text, so that none of their values is lost."""
        columns = (replace(c, as_text=True) if c.type_code in _DATED else c for c in self.columns)
        return replace(self, columns=tuple(columns))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"version": self.version}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> TableSchema:
        columns = tuple(Column(**{**c, "labels": tuple(c.get("labels", ()))}) for c in fields["columns"])
        return cls(
            fields["database"], fields["table"], columns, tuple(fields["primary_key"]), fields.get("comment", "")
        )
