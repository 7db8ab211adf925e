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
Values = Mapping[str, Any]


@dataclass(slots=True)
class Group:
    """Rows of one kind for one table. `upsert`: by `columns`; `delete`: by `key`; `update` (a row whose image is not
    whole) and everything of a table without a key: one row a statement, each with `before`."""

    kind: str
    table: tuple[str, str]
    columns: tuple[str, ...]
    key: tuple[str, ...]
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    before: Values = field(default_factory=dict[str, Any])


class Work:
    """Takes the rows of a batch; `groups` gives what is to be done."""

    def __init__(self) -> None:
        self.rows = 0
        self._done: list[Group] = []
        self._open: dict[tuple[str, str], Group] = {}
        self._types: Mapping[str, int] = {}
        self._special: set[str] = set()

    def __repr__(self) -> str:
        return f"<Work rows={self.rows}>"

    def add(self, row: Row, rule: Rule) -> None:
        self.rows += 1
        database, table = rule.target
        place = database, table or row.header.table
        key = rule.key(row.key)
        if row.types is not self._types:  # the rows of one event share them
            self._types = row.types
            self._special = {name for name, java_type in row.types.items() if java_type in _SPECIAL}
        before, after = row.before, row.after
        if self._special:
            before, after = typed(before, row.types), typed(after, row.types)
        before, after = rule.columns(before), rule.columns(after)
        if row.kind is EventType.DELETE:
            self._delete(place, key, before)
        elif row.kind is EventType.INSERT:
            self._upsert(place, key, after)
        else:
            self._update(place, key, before, after)

    def ready(self) -> list[Group]:
        """Groups that nothing is added to any more, each given once."""
        done, self._done = self._done, []
        return done

    def groups(self) -> list[Group]:
        """All of the rest, in order."""
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


def typed(values: Mapping[str, str | None], types: Mapping[str, int]) -> Mapping[str, Any]:
    """Canal's texts as values that the target takes: bytes for BLOB and BINARY, numbers for BIT, ENUM and SET."""
    return {name: _typed(value, types.get(name, 0)) for name, value in values.items()}


_NUMBERS = (JavaType.BIT, JavaType.INTEGER)
_SPECIAL = (*_NUMBERS, JavaType.BLOB)


def _typed(value: str | None, java_type: int) -> Any:
    if value is None or java_type not in _SPECIAL:
        return value
    return value.encode("latin-1") if java_type == JavaType.BLOB else int(value)


def statement(group: Group) -> str:
    """A group as SQL, for a connection whose strings have backslash escapes."""
    table = ".".join(map(quoted, group.table))
    if group.kind in ("upsert", "insert"):
        sql = f"INSERT INTO {table} ({_list(group.columns)}) VALUES {_tuples(group.rows)}"  # noqa: S608
        if group.kind == "upsert":
            sets = ", ".join(f"{quoted(name)} = VALUES({quoted(name)})" for name in group.columns)
            sql += f" ON DUPLICATE KEY UPDATE {sets}"
        return sql
    if group.kind == "delete" and group.key:
        return f"DELETE FROM {table} WHERE ({_list(group.key)}) IN ({_tuples(group.rows)})"  # noqa: S608
    chosen = {name: group.before[name] for name in group.key or group.before}
    where = " AND ".join(f"{quoted(name)} <=> {literal(value)}" for name, value in chosen.items())
    if group.kind == "delete":
        return f"DELETE FROM {table} WHERE {where} LIMIT 1"  # noqa: S608
    pairs = zip(group.columns, group.rows[0], strict=True)
    sets = ", ".join(f"{quoted(name)} = {literal(value)}" for name, value in pairs)
    return f"UPDATE {table} SET {sets} WHERE {where} LIMIT 1"  # noqa: S608


def _tuples(rows: Iterable[tuple[Any, ...]]) -> str:
    return ", ".join([f"({', '.join(map(literal, row))})" for row in rows])


def literal(value: str | bytes | int | None) -> str:
    """A value as SQL has it."""
    if isinstance(value, str):
        return f"'{value.translate(_ESCAPES)}'"
    if value is None:
        return "NULL"
    return f"x'{value.hex()}'" if isinstance(value, bytes) else str(value)


_ESCAPES = str.maketrans({"'": "\\'", "\\": "\\\\", "\0": "\\0", "\n": "\\n", "\r": "\\r", "\x1a": "\\Z"})


def _list(names: Iterable[str]) -> str:
    return ", ".join(map(quoted, names))


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
