"""What a batch does to the target, in groups that become one statement each.

Groups of one table keep their order; those of different tables may change places, since the target does not check
foreign keys meanwhile. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cdc_core.canal.client.events import Row
from cdc_core.canal.entries.java_types import JavaType
from cdc_core.canal.mirror.rules import MirrorRule
from cdc_core.canal.protocol.declared import CanalEventType
from cdc_core.errors import TableStopped

_MOST = 1000  # rows of a statement
Values = Mapping[str, Any]


@dataclass(slots=True)
class RowGroup:
    """Rows of one kind for one table. `upsert`: by `columns`; `delete`: by `key`; `update` (a row whose image is not
    whole), `move` (its key is another one) and everything of a table without a key: one row each, with `before`."""

    kind: str
    table: tuple[str, str]
    columns: tuple[str, ...]
    key: tuple[str, ...]
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    before: Values = field(default_factory=dict[str, Any])

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


class Work:
    """Takes the rows of a batch; `groups` gives what is to be done."""

    def __init__(self, *, labels: bool = False) -> None:
        self.rows = 0
        self._labels = labels
        self._done: list[RowGroup] = []
        self._open: dict[tuple[str, str], RowGroup] = {}
        self._types: Mapping[str, int] = {}
        self._rule: MirrorRule | None = None
        self._spelled: MirrorRule | None = None  # the rule, with the names of the event at hand
        self._special: set[str] = set()

    def __repr__(self) -> str:
        return f"<Work rows={self.rows}>"

    def add(self, row: Row, rule: MirrorRule) -> None:
        self.rows += 1
        if self._spelled is None or row.types is not self._types or rule is not self._rule:  # of one event
            self._types, self._rule, self._spelled = row.types, rule, rule.spelled(row.types)
            self._special = {name for name, java_type in row.types.items() if java_type in _SPECIAL}
            _check(row, self._spelled)
        rule = self._spelled
        database, table = rule.target
        place = database, table or row.header.table
        key = rule.key(row.key)
        before, after = row.before, row.after
        if self._special:
            before = typed(before, row.types, row.mysql_types, labels=self._labels)
            after = typed(after, row.types, row.mysql_types, labels=self._labels)
        before, after = rule.columns(before), rule.columns(after)
        if row.kind is CanalEventType.DELETE:
            self._delete(place, key, before)
        elif row.kind is CanalEventType.INSERT:
            self._upsert(place, key, after)
        else:
            self._update(place, key, before, after)

    def ready(self) -> list[RowGroup]:
        """Groups that nothing is added to any more, each given once."""
        done, self._done = self._done, []
        return done

    def groups(self) -> list[RowGroup]:
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
        if any(name in after and after[name] != before[name] for name in key):
            self._alone("move", place, key, before, after)
        elif set(before) <= set(after) and len(after) > len(key):
            self._upsert(place, key, after)
        else:
            self._alone("update", place, key, before, after)

    def _join(
        self, kind: str, place: tuple[str, str], columns: tuple[str, ...], key: tuple[str, ...], values: tuple[Any, ...]
    ) -> None:
        group = self._open.get(place)
        if group is None or (group.kind, group.columns) != (kind, columns) or len(group.rows) >= _MOST:
            self._close(place)
            group = self._open[place] = RowGroup(kind, place, columns, key)
        group.rows.append(values)

    def _alone(self, kind: str, place: tuple[str, str], key: tuple[str, ...], before: Values, after: Values) -> None:
        self._close(place)
        self._done.append(RowGroup(kind, place, tuple(after), key, [tuple(after.values())], before))

    def _close(self, place: tuple[str, str]) -> None:
        if (group := self._open.pop(place, None)) is not None:
            self._done.append(group)


def typed(
    values: Mapping[str, str | None], types: Mapping[str, int], kinds: Mapping[str, str], *, labels: bool
) -> Mapping[str, Any]:
    """Canal's texts as values that the target takes: bytes for BLOB and BINARY, numbers for BIT, ENUM and SET; with
    `labels` the texts of ENUM and SET. `kinds`: MySQL's types."""
    return {name: _typed(value, types.get(name, 0), kinds.get(name, ""), labels) for name, value in values.items()}


def _check(row: Row, rule: MirrorRule) -> None:
    """Raises TableStopped where the rule names columns that the source's rows do not have."""
    image = row.after if row.kind is CanalEventType.INSERT else row.before
    lacking = [name for name in rule.key(row.key) if name not in rule.columns(image)]
    if row.kind is CanalEventType.INSERT:
        lacking += [source for source in rule.sources.values() if source not in image]
    if lacking:
        raise TableStopped(
            f"the rule names columns that the rows do not have: {', '.join(dict.fromkeys(lacking))}",
            place=row.header.name,
            hint="Correct targetPk and targetColumns, and start again. With another binlog_row_image than FULL, rows "
            "lack columns: use FULL.",
        )


_SPECIAL = (JavaType.BIT, JavaType.INTEGER, JavaType.BLOB)


def _typed(value: str | None, java_type: int, kind: str, labels: bool) -> Any:
    if value is None or java_type not in _SPECIAL:
        return value
    if java_type == JavaType.BLOB:
        return _filled(value.encode("latin-1"), kind)
    return labels_of(int(value), kind) if labels and kind[:4].lower() in ("enum", "set(") else int(value)


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


_BINARY = re.compile(r"binary\((\d+)\)", re.IGNORECASE)
_LABEL = re.compile(r"'((?:[^']|'')*)'")
