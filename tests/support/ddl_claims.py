"""DDL statements at the head of claims, for the tests of the lake."""

from __future__ import annotations

from dataclasses import replace

from cdc_core.contract.claim import Claim
from cdc_core.position import EntryPosition
from cdc_core.schema.ddl import ChangeKind, ColumnChange, Ddl, Effect, EffectKind
from cdc_core.schema.table import Column, TableSchema
from tests.support.spark_feed import JOURNAL

ID = Column("id", 8, 0, nullable=False, column_type="bigint")
WHAT = Column("what", 15, 160, charset=255, comment="the what", column_type="varchar(40)")


def schema(table: str, *columns: Column, key: tuple[str, ...] = ("id",), comment: str = "") -> TableSchema:
    """A table of the database `shop`."""
    return TableSchema("shop", table, columns or (ID, WHAT), key, comment)


def effect(kind: EffectKind, table: str, *, to: str | None = None, schema: TableSchema | None = None) -> Effect:
    """What happens to one table of `shop`. `to` is in `shop` too, unless it names its database."""
    target = None if to is None else (*to.split("."),) if "." in to else ("shop", to)
    return Effect(kind, "shop", table, to=target and (target[0], target[1]), schema=schema)


def alter(
    before: TableSchema, after: TableSchema | None, *changes: ColumnChange, kind: EffectKind = EffectKind.ALTER
) -> Effect:
    """An ALTER of one table."""
    return Effect(kind, before.database, before.table, None, changes, before, after)


def change(kind: ChangeKind, name: str = "", definition: str = "", *, to: str | None = None) -> ColumnChange:
    """One clause of an ALTER."""
    return ColumnChange(kind, name, to, definition)


def statement(position: int, *effects: Effect, text: str = "A STATEMENT") -> Ddl:
    """A statement whose event ends at `position`."""
    return Ddl(EntryPosition(JOURNAL, position), "shop", text, effects)


def with_ddl(claim: Claim, *statements: Ddl) -> Claim:
    """The claim with these statements at its head."""
    return replace(claim, ddl=statements)
