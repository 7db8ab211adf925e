"""What a batch does to the target, in groups that become one statement each.

Groups of one table keep their order; those of different tables may change places, since the target does not check
foreign keys meanwhile. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cdc_core.canal_protocol.declared import EventType
from cdc_core.client.canal.events import Row
from cdc_core.entries.java_types import JavaType
from cdc_core.mirror.rules import Rule

_MOST = 1000  # rows of a statement
Values = dict[str, Any]


@dataclass(slots=True)
class Group:
    """Rows of one kind for one table. `upsert`: by `columns`; `delete`: by `key`; `update` (a row whose image is not
    whole) and everything of a table without a key: one row a statement, each with `before`."""

    kind: str
    table: tuple[str, str]
    columns: tuple[str, ...]
    key: tuple[str, ...]
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    before: Values = field(default_factory=dict)


class Work:
    """Takes the rows of a batch; `groups` gives what is to be done."""

    def __init__(self) -> None:
        self.rows = 0
        self._done: list[Group] = []
        self._open: dict[tuple[str, str], Group] = {}

    def __repr__(self) -> str:
        return f"<Work rows={self.rows}>"

    def add(self, row: Row, rule: Rule) -> None:
        self.rows += 1
        database, table = rule.target
        place = database, table or row.header.table
        key = rule.key(row.key)
        before, after = (rule.columns(typed(values, row.types)) for values in (row.before, row.after))
        if row.kind is EventType.DELETE:
            self._delete(place, key, before)
        elif row.kind is EventType.INSERT:
            self._upsert(place, key, after)
        else:
            self._update(place, key, before, after)

    def groups(self) -> list[Group]:
        """All of it, in order."""
        self._done += self._open.values()
        self._open = {}
        return self._done

    def _upsert(self, place: tuple[str, str], key: tuple[str, ...], after: Values) -> None:
        self._join("upsert" if key else "insert", place, tuple(after), key, tuple(after.values()))

    def _delete(self, place: tuple[str, str], key: tuple[str, ...], before: Values) -> None:
        if key:
            self._join("delete", place, key, key, tuple(before[name] for name in key))
        else:
            self._alone("delete", place, key, before, {})

    def _update(self, place: tuple[str, str], key: tuple[str, ...], before: Values, after: Values) -> None:
        if not key:
            self._alone("update", place, key, before, after)
            return
        whole = set(before) <= set(after)
        if any(name in after and after[name] != before[name] for name in key):
            if not whole:
                self._alone("update", place, key, before, after)
                return
            self._delete(place, key, before)
        if whole and len(after) > len(key):
            self._upsert(place, key, after)
        else:
            self._alone("update", place, key, before, after)

    def _join(
        self, kind: str, place: tuple[str, str], columns: tuple[str, ...], key: tuple[str, ...], values: tuple[Any, ...]
    ) -> None:
        group = self._open.get(place)
        if group is None or (group.kind, group.columns) != (kind, columns) or len(group.rows) >= _MOST:
            self._close(place)
            group = self._open[place] = Group(kind, place, columns, key)
        group.rows.append(values)

    def _alone(self, kind: str, place: tuple[str, str], key: tuple[str, ...], before: Values, after: Values) -> None:
        self._close(place)
        self._done.append(Group(kind, place, tuple(after), key, [tuple(after.values())], before))

    def _close(self, place: tuple[str, str]) -> None:
        if (group := self._open.pop(place, None)) is not None:
            self._done.append(group)


def typed(values: Mapping[str, str | None], types: Mapping[str, int]) -> Values:
    """Canal's texts as values that the target takes: bytes for BLOB and BINARY, numbers for BIT, ENUM and SET."""
    return {name: _typed(value, types.get(name, 0)) for name, value in values.items()}


def _typed(value: str | None, java_type: int) -> Any:
    if value is None:
        return None
    if java_type == JavaType.BLOB:
        return value.encode("latin-1")
    return int(value) if java_type in (JavaType.BIT, JavaType.INTEGER) else value


def statement(group: Group) -> tuple[str, list[Any]]:
    """A group as SQL with its values."""
    table = ".".join(map(quoted, group.table))
    if group.kind in ("upsert", "insert"):
        marks = f"({', '.join(['%s'] * len(group.columns))})"
        sql = f"INSERT INTO {table} ({_list(group.columns)}) VALUES {', '.join([marks] * len(group.rows))}"  # noqa: S608
        if group.kind == "upsert":
            sets = ", ".join(f"{quoted(name)} = VALUES({quoted(name)})" for name in group.columns)
            sql += f" ON DUPLICATE KEY UPDATE {sets}"
        return sql, [value for row in group.rows for value in row]
    if group.kind == "delete" and group.key:
        marks = f"({', '.join(['%s'] * len(group.key))})"
        sql = f"DELETE FROM {table} WHERE ({_list(group.key)}) IN ({', '.join([marks] * len(group.rows))})"  # noqa: S608
        return sql, [value for row in group.rows for value in row]
    chosen = {name: group.before[name] for name in group.key or group.before}
    where = " AND ".join(f"{quoted(name)} <=> %s" for name in chosen)
    if group.kind == "delete":
        return f"DELETE FROM {table} WHERE {where} LIMIT 1", list(chosen.values())  # noqa: S608
    sets = ", ".join(f"{quoted(name)} = %s" for name in group.columns)
    return f"UPDATE {table} SET {sets} WHERE {where} LIMIT 1", [*group.rows[0], *chosen.values()]  # noqa: S608


def _list(names: Iterable[str]) -> str:
    return ", ".join(map(quoted, names))


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``").replace("%", "%%") + "`"
