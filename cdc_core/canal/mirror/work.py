"""What a batch does to the target, in groups that become one statement each.

Groups of one table keep their order; those of different tables may change places, since the target does not check
foreign keys meanwhile. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from cdc_core.canal.client.events import Rows, Shape
from cdc_core.canal.entries.kinds import CanalEventType
from cdc_core.canal.mirror.columns import Columns, EntryImages, Values
from cdc_core.canal.mirror.rules import MirrorRule
from cdc_core.errors import TableStopped

_MOST = 1000  # rows of a statement


@dataclass(slots=True)
class RowGroup:
    """Rows of one kind for one table. `upsert`: by `columns`; `delete`: by `key`; `update` (a row whose image is not
    whole), `move` (its key is another one) and everything of a table without a key: one row each, with `before`."""

    kind: str
    table: tuple[str, str]
    columns: tuple[str, ...]
    key: tuple[str, ...]
    rows: Sequence[Values]
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
class _Plan:
    """How the rows of an entry go to the target by a rule."""

    table: tuple[str, str]
    key: tuple[str, ...]
    before: Columns
    after: Columns

    @staticmethod
    def of(rows: Rows, rule: MirrorRule) -> _Plan:
        """Raises TableStopped."""
        rule, shape = rule.spelled(rows.shape.types), rows.shape
        database, table = rule.target
        before, after = Columns.of(shape.before, shape, rule), Columns.of(shape.after, shape, rule)
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
        plan = self._plan(rows, rule)
        if rows.kind is CanalEventType.DELETE:
            self._delete(plan, rows)
        elif rows.kind is CanalEventType.INSERT:
            self._write("upsert" if plan.key else "insert", plan, rows, 0, len(rows))
        else:
            self._update(plan, rows)

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

    def _delete(self, plan: _Plan, rows: Rows) -> None:
        of_key = [plan.before.names.index(name) for name in plan.key]
        for number in range(len(rows)):
            before = plan.before.values(rows.before(number), labels=self._labels)
            if not plan.key:
                self._alone("delete", plan, before, None)
                continue
            group = self._open.get(plan.table)
            if group is None or group.kind != "delete" or group.columns != plan.key or len(group.rows) >= _MOST:
                group = self._begun(RowGroup("delete", plan.table, plan.key, plan.key, []))
            cast("list[Values]", group.rows).append(tuple([before[at] for at in of_key]))

    def _update(self, plan: _Plan, rows: Rows) -> None:
        """A row that keeps its key is written whole, if its image is."""
        old, new = plan.before, plan.after
        of_key = [(old.place(name), new.place(name)) for name in plan.key if name in new.names]
        is_whole = bool(plan.key) and set(old.names) <= set(new.names) and len(new.names) > len(plan.key)
        for number in range(len(rows)):
            was, now = rows.before(number), rows.after(number)
            moves = any(was[at] != now[then] for at, then in of_key)
            if is_whole and not moves:
                self._write("upsert", plan, rows, number, number + 1)
                continue
            after = new.values(now, labels=self._labels)
            self._alone("move" if moves else "update", plan, old.values(was, labels=self._labels), after)

    def _write(self, kind: str, plan: _Plan, rows: Rows, low: int, high: int) -> None:
        """Adds the images after a change of some rows of an entry."""
        while low < high:
            group = self._open.get(plan.table)
            images = group.rows if group is not None and group.kind == kind else None
            if not isinstance(images, EntryImages) or images.columns != plan.after or len(images) >= _MOST:
                images = EntryImages(plan.after, labels=self._labels)
                self._begun(RowGroup(kind, plan.table, plan.after.names, plan.key, images))
            last = min(high, low + _MOST - len(images))
            images.add(rows, low, last)
            low = last

    def _begun(self, group: RowGroup) -> RowGroup:
        """The group, as the table's open one."""
        self._close(group.table)
        self._open[group.table] = group
        return group

    def _alone(self, kind: str, plan: _Plan, before: Values, after: Values | None) -> None:
        """`after` is None for a row that is deleted."""
        self._close(plan.table)
        columns = plan.after.names if after is not None else ()
        was = dict(zip(plan.before.names, before, strict=True))
        self._done.append(RowGroup(kind, plan.table, columns, plan.key, [after or ()], was))

    def _close(self, place: tuple[str, str]) -> None:
        if (group := self._open.pop(place, None)) is not None:
            self._done.append(group)
