"""What a batch does to the target, in groups that become one statement each.

Groups of one table keep their order; those of different tables may change places, since the target does not check
foreign keys meanwhile. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cdc_core.canal.client.events import Image, Rows, Shape
from cdc_core.canal.entries.java_types import JavaType
from cdc_core.canal.mirror.rules import MirrorRule
from cdc_core.canal.protocol.declared import CanalEventType
from cdc_core.errors import TableStopped

_MOST = 1000  # rows of a statement
Values = tuple[Any, ...]  # of a row, by the target's columns


@dataclass(slots=True)
class RowGroup:
    """Rows of one kind for one table. `upsert`: by `columns`; `delete`: by `key`; `update` (a row whose image is not
    whole), `move` (its key is another one) and everything of a table without a key: one row each, with `before`."""

    kind: str
    table: tuple[str, str]
    columns: tuple[str, ...]
    key: tuple[str, ...]
    rows: list[Values] = field(default_factory=list)
    before: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def where_it_was(self) -> RowGroup:
        """What removes the row of a `move` under its old key."""
        return RowGroup("delete", self.table, self.key, self.key, [tuple(self.before[name] for name in self.key)])

    @property
    def where_it_goes(self) -> RowGroup | None:
        """What writes the row of a `move` without an old one; None where its image does not say enough."""
        if not set(self.before) <= set(self.columns) or len(self.columns) <= len(self.key):
            return None
        return RowGroup("upsert", self.table, self.columns, self.key, self.rows)


@dataclass(frozen=True, slots=True)
class _Columns:
    """What becomes of an image's values: their places in the target's order, None for the same, and those columns that
    are not texts there, with their types in Java and MySQL."""

    names: tuple[str, ...]
    places: tuple[int, ...] | None
    special: tuple[tuple[int, int, str], ...]

    @staticmethod
    def of(names: tuple[str, ...], shape: Shape, rule: MirrorRule) -> _Columns:
        chosen = rule.columns({name: place for place, name in enumerate(names)})
        places = tuple(chosen.values())
        kinds = [(at, shape.types[names[place]], shape.mysql_types[names[place]]) for at, place in enumerate(places)]
        special = tuple(one for one in kinds if _is_special(*one[1:]))
        return _Columns(tuple(chosen), None if places == tuple(range(len(names))) else places, special)

    def values(self, image: Image, *, labels: bool) -> tuple[Any, ...]:
        values: list[Any] = image if self.places is None else [image[place] for place in self.places]
        for at, java_type, kind in self.special:
            values[at] = _typed(values[at], java_type, kind, labels)
        return tuple(values)


@dataclass(frozen=True, slots=True)
class _Plan:
    """How the rows of an entry go to the target by a rule."""

    table: tuple[str, str]
    key: tuple[str, ...]
    before: _Columns
    after: _Columns

    @staticmethod
    def of(rows: Rows, rule: MirrorRule) -> _Plan:
        """Raises TableStopped."""
        rule, shape = rule.spelled(rows.shape.types), rows.shape
        database, table = rule.target
        before, after = _Columns.of(shape.before, shape, rule), _Columns.of(shape.after, shape, rule)
        plan = _Plan((database, table or rows.header.table), rule.key(shape.key), before, after)
        plan.check(rows, rule)
        return plan

    def check(self, rows: Rows, rule: MirrorRule) -> None:
        """Raises TableStopped where the rule names columns that the source's rows do not have."""
        inserts = rows.kind is CanalEventType.INSERT
        lacking = [name for name in self.key if name not in (self.after if inserts else self.before).names]
        if inserts:
            lacking += [source for source in rule.sources.values() if source not in rows.shape.after]
        if lacking:
            raise TableStopped(
                f"the rule names columns that the rows do not have: {', '.join(dict.fromkeys(lacking))}",
                place=rows.header.name,
                hint="Correct targetPk and targetColumns, and start again. With another binlog_row_image than FULL, "
                "rows lack columns: use FULL.",
            )


class Work:
    """Takes the rows of a batch; `groups` gives what is to be done."""

    def __init__(self, *, labels: bool = False) -> None:
        self.rows = 0
        self._labels = labels
        self._done: list[RowGroup] = []
        self._open: dict[tuple[str, str], RowGroup] = {}
        self._planned: tuple[CanalEventType, Shape, str, MirrorRule, _Plan] | None = None  # of the entry before

    def __repr__(self) -> str:
        return f"<Work rows={self.rows}>"

    def add(self, rows: Rows, rule: MirrorRule) -> None:
        """Raises TableStopped for a rule that does not fit the rows."""
        self.rows += len(rows)
        plan, labels = self._plan(rows, rule), self._labels
        before = [plan.before.values(image, labels=labels) for image in rows.before()]
        after = [plan.after.values(image, labels=labels) for image in rows.after()]
        if rows.kind is CanalEventType.DELETE:
            self._delete(plan, before)
        elif rows.kind is CanalEventType.INSERT:
            self._join("upsert" if plan.key else "insert", plan, plan.after.names, after)
        else:
            self._update(plan, before, after)

    def _plan(self, rows: Rows, rule: MirrorRule) -> _Plan:
        of = (rows.kind, rows.shape, rows.header.table, rule)
        if self._planned is None or self._planned[3] is not rule or self._planned[:3] != of[:3]:
            self._planned = (*of, _Plan.of(rows, rule))
        return self._planned[4]

    def ready(self) -> list[RowGroup]:
        """Groups that nothing is added to any more, each given once."""
        done, self._done = self._done, []
        return done

    def groups(self) -> list[RowGroup]:
        """All of the rest, in order."""
        self._done += self._open.values()
        self._open = {}
        return self._done

    def _delete(self, plan: _Plan, before: Sequence[Values]) -> None:
        if plan.key:
            of_key = [plan.before.names.index(name) for name in plan.key]
            self._join("delete", plan, plan.key, [tuple([values[at] for at in of_key]) for values in before])
            return
        for values in before:
            self._alone("delete", plan, values, None)

    def _update(self, plan: _Plan, before: Sequence[Values], after: Sequence[Values]) -> None:
        """A row that keeps its key is written whole, if its image is."""
        old, new = plan.before.names, plan.after.names
        of_key = [(old.index(name), new.index(name)) for name in plan.key if name in new]
        is_whole = bool(plan.key) and set(old) <= set(new) and len(new) > len(plan.key)
        for was, now in zip(before, after, strict=True):
            if any(was[at] != now[then] for at, then in of_key):
                self._alone("move", plan, was, now)
            elif is_whole:
                self._join("upsert", plan, new, (now,))
            else:
                self._alone("update", plan, was, now)

    def _join(self, kind: str, plan: _Plan, columns: tuple[str, ...], rows: Sequence[Values]) -> None:
        place = plan.table
        while rows:
            group = self._open.get(place)
            if group is None or (group.kind, group.columns) != (kind, columns) or len(group.rows) >= _MOST:
                self._close(place)
                group = self._open[place] = RowGroup(kind, place, columns, plan.key)
            room = _MOST - len(group.rows)
            group.rows += rows[:room]
            rows = rows[room:]

    def _alone(self, kind: str, plan: _Plan, before: Values, after: Values | None) -> None:
        """`after` is None for a row that is deleted."""
        self._close(plan.table)
        columns = plan.after.names if after is not None else ()
        was = dict(zip(plan.before.names, before, strict=True))
        self._done.append(RowGroup(kind, plan.table, columns, plan.key, [after or ()], was))

    def _close(self, place: tuple[str, str]) -> None:
        if (group := self._open.pop(place, None)) is not None:
            self._done.append(group)


def _is_special(java_type: int, kind: str) -> bool:
    """Whether the target takes a value otherwise than as Canal's text: bytes of BLOB and BINARY, numbers of BIT, ENUM
    and SET, or their labels. Canal gives a NULL in a SET the type BLOB: MySQL's name tells it."""
    return java_type in (JavaType.BIT, JavaType.BLOB) or kind[:4].lower() in _LABELLED


def _typed(value: str | None, java_type: int, kind: str, labels: bool) -> Any:
    if value is None:
        return None
    if kind[:4].lower() in _LABELLED:
        return labels_of(int(value), kind) if labels else int(value)
    return _filled(value.encode("latin-1"), kind) if java_type == JavaType.BLOB else int(value)


def _filled(value: bytes, kind: str) -> bytes:
    """A BINARY whole: the binlog has it without the zeros at its end."""
    size = _BINARY.match(kind)
    return value.ljust(int(size[1]), b"\0") if size else value


def labels_of(number: int, kind: str) -> str:
    """The text of an ENUM's or SET's number. `kind`: MySQL's type, `enum('a','b')`. Number 0 of an ENUM is empty."""
    labels = [one.replace("''", "'") for one in _LABEL.findall(kind)]
    if kind[:3].lower() == "set":
        return ",".join(label for bit, label in enumerate(labels) if number >> bit & 1)
    return labels[number - 1] if 0 < number <= len(labels) else ""


_LABELLED = ("enum", "set(")
_BINARY = re.compile(r"binary\((\d+)\)", re.IGNORECASE)
_LABEL = re.compile(r"'((?:[^']|'')*)'")
