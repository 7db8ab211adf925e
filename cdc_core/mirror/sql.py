"""Groups as SQL: what is the same for all kinds of targets, and what each says in its own way."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from cdc_core.mirror.work import Group

Rows = Iterable[tuple[Any, ...]]


class Untranslatable(Exception):
    """Why a statement cannot be put into the target's language."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """`quoted` writes a name, `literal` a value. `replaces(key, columns)` ends an INSERT that replaces the row of the
    same key, and `rows` are those that one such statement may have. `same` is the operator to which NULLs are equal;
    `one(table, where)` is the condition for a single row of those."""

    quoted: Callable[[str], str]
    literal: Callable[[Any], str]
    replaces: Callable[[tuple[str, ...], tuple[str, ...]], str]
    rows: Callable[[Group], Rows]
    same: str
    one: Callable[[str, str], str]

    def statement(self, group: Group) -> str:
        table = ".".join(map(self.quoted, group.table))
        if group.kind == "insert":
            return f"INSERT INTO {table} ({self._names(group.columns)}) VALUES {self._tuples(group.rows)}"  # noqa: S608
        if group.kind == "upsert":
            values = self._tuples(self.rows(group))
            ending = self.replaces(group.key, group.columns)
            return f"INSERT INTO {table} ({self._names(group.columns)}) VALUES {values} {ending}"  # noqa: S608
        if group.kind == "delete" and group.key:
            return f"DELETE FROM {table} WHERE ({self._names(group.key)}) IN ({self._tuples(group.rows)})"  # noqa: S608
        chosen = [(name, group.before[name]) for name in group.key or group.before]
        where = self.one(table, self._pairs(chosen, self.same, " AND "))
        if group.kind == "delete":
            return f"DELETE FROM {table} WHERE {where}"  # noqa: S608
        sets = self._pairs(zip(group.columns, group.rows[0], strict=True), "=", ", ")
        return f"UPDATE {table} SET {sets} WHERE {where}"  # noqa: S608

    def _names(self, names: Iterable[str]) -> str:
        return ", ".join(map(self.quoted, names))

    def _pairs(self, pairs: Iterable[tuple[str, Any]], operator: str, between: str) -> str:
        return between.join(f"{self.quoted(name)} {operator} {self.literal(value)}" for name, value in pairs)

    def _tuples(self, rows: Rows) -> str:
        literal = self.literal
        return ", ".join([f"({', '.join(map(literal, row))})" for row in rows])
