"""Groups as SQL: the common part, and the interface for the dialect of each target."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cdc_core.canal.mirror.columns import Values
from cdc_core.canal.mirror.work import RowGroup

Kinds = Mapping[str, str]  # types of the target's columns, by their names in lower case
NO_ROW = "a row that the source changes is missing; insert it, or give the table a primary key at the source"


class Untranslatable(Exception):
    """Why a statement cannot be put into the target's language."""


class Unfit(Untranslatable):
    """Why rows are not written that the target would take, but not as they are."""


@dataclass(frozen=True, slots=True)
class TargetDialect:
    """`quoted` writes a name, `literal` a value, `tuples` those of rows, `constant` one that a column of a kind is
    compared with. `replaces(key, columns)` ends an INSERT that replaces the row of the same key, and `rows` are those
    that one such statement may have. `same` is the condition for a column's value, where NULLs are equal;
    `one(table, where)` is that for a single row of those."""

    quoted: Callable[[str], str]
    literal: Callable[[Any], str]
    tuples: Callable[[Sequence[Values]], str]
    constant: Callable[[Any, str], str]
    replaces: Callable[[tuple[str, ...], tuple[str, ...]], str]
    rows: Callable[[RowGroup], Sequence[Values]]
    same: Callable[[str, Any, str], str]
    one: Callable[[str, str], str]

    def statement(self, group: RowGroup, kinds: Kinds) -> str:
        table = self.table(group)
        if group.kind == "insert":
            return f"INSERT INTO {table} ({self._names(group.columns)}) VALUES {self.tuples(group.rows)}"  # noqa: S608
        if group.kind == "upsert":
            values = self.tuples(self.rows(group))
            ending = self.replaces(group.key, group.columns)
            return f"INSERT INTO {table} ({self._names(group.columns)}) VALUES {values} {ending}"  # noqa: S608
        if group.kind == "delete" and group.key:
            return f"DELETE FROM {table} WHERE ({self._names(group.key)}) IN ({self._constants(group, kinds)})"  # noqa: S608
        chosen = [(name, group.before[name]) for name in group.key or group.before]
        where = self.one(table, self.where(chosen, kinds))
        if group.kind == "delete":
            return f"DELETE FROM {table} WHERE {where}"  # noqa: S608
        return f"UPDATE {table} SET {self.sets(group)} WHERE {where}"  # noqa: S608

    def table(self, group: RowGroup) -> str:
        return ".".join(map(self.quoted, group.table))

    def where(self, chosen: Iterable[tuple[str, Any]], kinds: Kinds) -> str:
        return " AND ".join(self.same(name, value, kinds.get(name.lower(), "")) for name, value in chosen)

    def sets(self, group: RowGroup) -> str:
        pairs = zip(group.columns, group.rows[0], strict=True)
        return ", ".join(f"{self.quoted(name)} = {self.literal(value)}" for name, value in pairs)

    def _names(self, names: Iterable[str]) -> str:
        return ", ".join(map(self.quoted, names))

    def _constants(self, group: RowGroup, kinds: Kinds) -> str:
        of_key = [kinds.get(name.lower(), "") for name in group.key]
        return ", ".join([f"({', '.join(map(self.constant, row, of_key))})" for row in group.rows])
