"""Definitions of tables as of a position: values that the decoder, the doors and Spark share.

A definition comes from a TABLE_MAP event (`binlog.table_map`). `schema.information_schema` adds what the event lacks:
comments, and names where row metadata is MINIMAL.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from operator import attrgetter
from typing import Any

from cdc_core.errors import SchemaError
from cdc_core.schema.column_rule import Cast, ColumnRule, Mask, ZeroDates
from cdc_core.schema.column_type import ColumnType
from cdc_core.schema.names import full_name

PRIMARY = "PRIMARY"  # the name of a primary key's index
DATED = (  # types whose values may be zero, partial or impossible dates

    ColumnType.TIMESTAMP, ColumnType.DATE, ColumnType.DATETIME, ColumnType.NEWDATE, ColumnType.TIMESTAMP2,
    ColumnType.DATETIME2,
)  # fmt: skip
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
    default_expression: bool = False  # `default` is an expression, which only the server can evaluate
    hidden: bool = False  # logged, but in no SELECT: MariaDB's columns for unique keys over long values
    generated: bool | None = False  # from other columns; None: not known
    as_text: bool = False  # a date or time is read as text: `sluice.zero.dates=string`
    default_as_written: bool = False  # `default` is what a statement says; the catalogue may show a constant instead
    rule: ColumnRule | None = None  # what a rule of the lake makes of it: `cdc_core.rules`

    @property
    def source_name(self) -> str:
        """Its name at the source; "" for a computed column."""
        return self.rule.source if self.rule else self.name

    @property
    def mask(self) -> Mask | None:
        """What its values are masked with."""
        return self.rule.mask if self.rule else None

    @property
    def cast(self) -> Cast | None:
        """The type that its values have instead."""
        return self.rule.cast if self.rule else None

    @property
    def changes_values(self) -> bool:
        """Whether the lake's values are not the source's, so that no statement of SQL compares them."""
        return self.rule is not None and self.rule.changes_values

    def zero_dates(self, otherwise: ZeroDates) -> ZeroDates:
        """What zero dates of it do, where a rule says so."""
        return self.rule.zero_dates or otherwise if self.rule else otherwise

    @property
    def is_computed(self) -> bool:
        """Whether a rule computes its values: no row image has it, and no SELECT."""
        return self.rule is not None and bool(self.rule.expression)

    @property
    def is_address(self) -> bool:
        """MariaDB's UUID, INET4 or INET6: stored like BINARY, text in SELECT. Only the declared type says so."""
        return self.type_code == ColumnType.STRING and _ADDRESSES.get(self.column_type.lower()) == self.meta


_AS_WRITTEN, _RULE = "default_as_written", "rule"  # in the schema history alone; where rules are applied alone
_WHERE = "where"  # where rules are applied alone
_COLUMN_FIELDS = tuple(name for name in Column.__dataclass_fields__ if name not in (_AS_WRITTEN, _RULE))
_VALUES = attrgetter(*_COLUMN_FIELDS)
_SEQUENCE = (
    "next_not_cached_value", "minimum_value", "maximum_value", "start_value", "increment", "cache_size", "cycle_option",
    "cycle_count",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Defect:
    """Why no row of a definition can be read, and what to do."""

    reason: str
    hint: str


@dataclass(frozen=True, slots=True)
class TableSchema:
    """One version of one table's definition. One with a `defect` stands for rows that cannot be read: it may have no
    columns, and its table stops at the first of them. `key_index` is the index of the key, where the catalogue was
    asked: one that is not PRIMARY is the UNIQUE one that the server takes in its place. `others`: further tables,
    `database.table`, of a statement that concerns several. `where`: the condition of the rows that a lake sees, in
    names of the source (`cdc_core.rules.conditions`); "" for all."""

    database: str
    table: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()
    comment: str = ""
    collation: str = ""  # of text columns that are added without one; empty where it is not known
    defect: Defect | None = None
    key_index: str = field(default=PRIMARY, compare=False)
    others: tuple[str, ...] = ()
    where: str = ""

    @classmethod
    def of_statement(cls, tables: Sequence[tuple[str, str]]) -> TableSchema:
        """Returns a definition without columns, which stands for the tables that a statement concerns."""
        (first, *others) = tables
        return cls(*first, (), others=tuple(full_name(*one) for one in others))

    @property
    def name(self) -> str:
        return full_name(self.database, self.table)

    @property
    def all_names(self) -> tuple[str, ...]:
        return (self.name, *self.others)

    @property
    def is_sequence(self) -> bool:
        """A SEQUENCE of MariaDB: its events are INSERTs that replace its one row (MariaDB, "Sequence Overview")."""
        return tuple(column.name for column in self.columns) == _SEQUENCE

    @property
    def version(self) -> str:
        """A fingerprint of what matters to rows. A restart keeps it, any change of a column changes it."""
        rows = [
            (c.name, c.type_code, c.meta, c.unsigned, c.charset, c.labels)
            + (("text",) if c.as_text else ())
            + ((c.rule.to_dict(),) if c.rule else ())
            for c in self.columns
        ]
        more = ([self.defect.reason] if self.defect else []) + ([{"where": self.where}] if self.where else [])
        text = json.dumps([self.database, self.table, rows, self.primary_key, *more])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def defaults_as_written(self) -> bool:
        """Whether a default of a column is not known as the catalogue has it."""
        return any(column.default_as_written for column in self.columns)

    @property
    def stored(self) -> tuple[Column, ...]:
        """The columns that row images have."""
        return tuple(column for column in self.columns if not column.is_computed)

    @property
    def selected(self) -> tuple[Column, ...]:
        """The columns of `shown` that the source has."""
        return tuple(column for column in self.shown if not column.is_computed)

    @property
    def shown(self) -> tuple[Column, ...]:
        """The columns that SELECT knows, and those that rules compute."""
        return tuple(column for column in self.columns if not column.hidden)

    def with_dates_as_text(self) -> TableSchema:
        """The same with each DATE, DATETIME and TIMESTAMP as text, so that zero dates are kept."""
        columns = (replace(c, as_text=True) if c.type_code in DATED else c for c in self.columns)
        return replace(self, columns=tuple(columns))

    def as_read(self, zero_dates: str) -> TableSchema:
        """As its rows are read with this `sluice.zero.dates`."""
        return self.with_dates_as_text() if zero_dates == "string" else self

    def to_dict(self) -> dict[str, Any]:
        columns = [_fields_of(column) for column in self.columns]
        own = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != _WHERE or self.where}
        defect = asdict(self.defect) if self.defect else None
        return own | {"columns": columns, "defect": defect, "version": self.version}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> TableSchema:
        columns = tuple(_column_of(column) for column in fields["columns"])
        key, comment = tuple(fields["primary_key"]), fields.get("comment", "")
        defect = Defect(**fields["defect"]) if fields.get("defect") else None
        collation, index = fields.get("collation", ""), fields.get("key_index", PRIMARY)
        others = tuple(fields.get("others", ()))
        where = fields.get(_WHERE, "")
        return cls(fields["database"], fields["table"], columns, key, comment, collation, defect, index, others, where)


def _fields_of(column: Column) -> dict[str, Any]:
    fields = dict(zip(_COLUMN_FIELDS, _VALUES(column), strict=True))
    if column.default_as_written:
        fields[_AS_WRITTEN] = True
    if column.rule:
        fields[_RULE] = column.rule.to_dict()
    return fields


def _column_of(fields: dict[str, Any]) -> Column:
    rule = ColumnRule.from_dict(fields[_RULE]) if fields.get(_RULE) else None
    return Column(**{"generated": None, **fields, "labels": tuple(fields.get("labels", ())), _RULE: rule})


def unsupported(column: Column, what: str, hint: str = "") -> SchemaError:
    """The error for a column that has no Arrow type; the caller, who knows the table, adds its name."""
    leave_out = "Leave the table out with canal.instance.filter.black.regex."
    return SchemaError(f"column {column.name}: {what}", hint=hint or leave_out)
