"""Decides what an ALTER of the source means for a table of the lake: pure.

The table is altered in place where the old rows' new values are known to be the source's, and left alone where the lake
shows no difference. Otherwise it must be copied, and the reason is reported. Nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from cdc_core.errors import SchemaError, TableStopped
from cdc_core.rows.columns.batch import arrow_fields
from cdc_core.rules.conditions import condition
from cdc_core.rules.expressions import expression
from cdc_core.schema.ddl import ChangeKind, ColumnChange, Effect, EffectKind
from cdc_core.schema.sql_text import shown
from cdc_core.schema.table import Column, TableSchema
from spark_jobs.lake.conversion import conversion, same_for_expressions
from spark_jobs.lake.copying import CopyNeeded
from spark_jobs.lake.defaults import old_row_values
from spark_jobs.lake.sql import quote
from spark_jobs.lake.types import LakeColumn, lake_columns

_OF_LATER_ROWS = (ChangeKind.SET_DEFAULT, ChangeKind.DROP_DEFAULT, ChangeKind.FOREIGN_KEY)
_OF_COLUMNS = (ChangeKind.ADD_COLUMN, ChangeKind.MODIFY_COLUMN)
_OF_VALUES = (*_OF_COLUMNS, ChangeKind.DROP_COLUMN, ChangeKind.RENAME_COLUMN)
_QUOTED = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|`[^`]*`")
_COMPUTED = re.compile(r"\b(GENERATED|AS|SERIAL)\b|\b(?:VIRTUAL|STORED|PERSISTENT)\s*\(", re.IGNORECASE)
_EVALUATED = re.compile(r"\bDEFAULT\s*\(", re.IGNORECASE)
_VALUED = re.compile(r"\b(DEFAULT|AS|SERIAL|AUTO_INCREMENT|NOT|PRIMARY|TIMESTAMP)\b", re.IGNORECASE)
_NUMBERED = re.compile(r"\bAUTO_INCREMENT\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class AlteredColumn:
    """A column after the ALTER. `origin`: the column that had its values, None for an added column; `value`: the values
    of old rows in SQL, over the columns before the ALTER."""

    column: LakeColumn
    origin: str | None
    value: str


@dataclass(frozen=True, slots=True)
class Alteration:
    """The table after the ALTER. `unless`: conditions in SQL over the columns before it; a row for which one holds has
    another value at the source. `misfits`: by condition, the column of which the lake's new type cannot hold a value;
    that of a deleted row counts too. `by_name`: Delta can alter the table without touching rows: columns come as NULL,
    go, move or get another name that was free."""

    schema: TableSchema
    columns: tuple[AlteredColumn, ...]
    unless: tuple[str, ...]
    by_name: bool
    misfits: Mapping[str, str] = field(default_factory=dict)


def alteration(effect: Effect, lake: Sequence[LakeColumn]) -> Alteration | None:
    """Returns the table after the ALTER, or None if it changes nothing that the lake shows. `lake`: the table's
    columns, which a run that died half way may have altered in part.

    Raises CopyNeeded if old rows' values are not known, TableStopped for a definition that no lake table can have.
    """
    if effect.kind is EffectKind.REWRITE:
        raise CopyNeeded("the statement changed rows, and does not say which", effect.name)
    if all(change.kind in _OF_LATER_ROWS for change in effect.changes):
        return None
    _check_understood(effect)
    if effect.schema is None or effect.before is None:
        if all(_adds_null(change) for change in effect.changes):
            return None  # the next row brings the columns
        raise CopyNeeded("its definition before or after the statement is not known exactly", effect.name)
    return _Reading(effect, effect.before, effect.schema, {column.name: column for column in lake}).result()


def empty_columns(effect: Effect) -> set[str]:
    """Returns the names, in lower case, of the columns that the statement adds as NULL."""
    return {one.name.lower() for one in effect.changes if one.kind is ChangeKind.ADD_COLUMN and _adds_null(one)}


def _adds_null(change: ColumnChange) -> bool:
    """Whether the clause adds a column that is NULL in old rows, wherever the definition is known or not."""
    if change.kind is not ChangeKind.ADD_COLUMN:
        return change.kind in (*_OF_LATER_ROWS, ChangeKind.COMMENT)
    return not _VALUED.search(_QUOTED.sub("''", change.definition))


def _check_understood(effect: Effect) -> None:
    for change in effect.changes:
        match change.kind:
            case ChangeKind.UNKNOWN:
                text = f": {shown(change.definition, 200)}" if change.definition else ""
                raise CopyNeeded(f"a clause of the statement is not understood{text}", effect.name)
            case ChangeKind.KEY:
                key = next(c.columns for c in reversed(effect.changes) if c.kind is ChangeKind.KEY)
                raise CopyNeeded(f"its primary key is ({', '.join(key) or 'none'}) now", effect.name)
            case ChangeKind.CHARSET:
                raise CopyNeeded("its texts were converted to another character set", effect.name)


@dataclass(frozen=True, slots=True)
class _Reading:
    effect: Effect
    before: TableSchema
    after: TableSchema
    lake: dict[str, LakeColumn]

    def result(self) -> Alteration:
        old = {column.name.lower(): column for column in self.before.columns}
        self._check_key()
        self._check_condition()
        changes = [change for change in self.effect.changes if not _did_nothing(change, old)]
        added = {c.name.lower(): c for c in changes if c.kind is ChangeKind.ADD_COLUMN}
        renamed = {c.to.lower(): c.name.lower() for c in changes if c.to is not None}
        redefined = {(c.to or c.name).lower(): c for c in changes if c.kind in _OF_COLUMNS}
        reused = any(name in old and renamed.get(name) != name for name in (*added, *renamed))
        columns, unless, misfits = [], list[str](), dict[str, str]()
        for column, target in zip(self.after.shown, self._targets(), strict=True):
            name = column.name.lower()
            if name in added:
                altered = AlteredColumn(target, None, self._added(added[name], target))
            else:
                source = old.get(renamed.get(name, name))
                if source is None:
                    raise self._copy(f"column {column.name!r} has no column before the statement")
                there = self._there(source, column, reused)
                altered, conditions = self._kept(source, column, there, target, redefined.get(name))
                unless += conditions
                if conditions and altered.value.startswith("CAST("):
                    misfits[f"{quote(there.name)} IS NOT NULL AND try_{altered.value} IS NULL"] = column.name
            columns.append(altered)
        kept = any(one.origin is None and one.column.name in self.lake for one in columns)  # an earlier column's values
        by_name = not (reused or kept) and all(self._is_by_name(one) for one in columns)
        return Alteration(self.after, tuple(columns), tuple(unless), by_name, misfits)

    def _check_key(self) -> None:
        """A dropped column leaves the key, without a clause that says so."""
        names = {change.name.lower(): change.to for change in self.effect.changes if change.to is not None}
        key = [(names.get(name.lower()) or name).lower() for name in self.before.primary_key]
        if key != [name.lower() for name in self.after.primary_key]:
            raise self._copy(f"its primary key is ({', '.join(self.after.primary_key) or 'none'}) now")

    def _check_condition(self) -> None:
        """Rows that the lake does not have may meet the condition when a column that it asks has other values; and a
        computed column has other values then."""
        uses = dict.fromkeys(_asked(self.after), "the condition of its rows")
        computed = (column for schema in (self.before, self.after) for column in schema.columns)
        for one in computed:
            asks = expression(one.rule.expression).columns if one.rule and one.is_computed else ()
            uses |= dict.fromkeys(asks, f"the computed column {one.name!r}")
        columns = (*self.before.selected, *self.after.selected)
        asked = {one.name.lower(): use for one in columns if (use := uses.get(one.source_name.lower()))}
        for change in self.effect.changes:
            use = asked.get(change.name.lower()) or asked.get((change.to or "").lower())
            if change.kind in _OF_VALUES and use:
                raise self._copy(f"the statement is about {change.name!r}, which {use} asks")

    def _targets(self) -> tuple[LakeColumn, ...]:
        try:
            return lake_columns(pa.schema(arrow_fields(self.after)), self.after)
        except SchemaError as error:
            raise TableStopped(error.message, place=self.after.name, hint=error.hint) from error

    def _added(self, change: ColumnChange, target: LakeColumn) -> str:
        """The value that old rows have in an added column."""
        text = _QUOTED.sub("''", change.definition)
        if any(pattern.search(text) for pattern in (_COMPUTED, _EVALUATED, _NUMBERED)):
            raise self._copy(f"the server computed the values of the added column {change.name!r}")
        try:
            return old_row_values(self.after, (target,)).get(target.name, f"CAST(NULL AS {target.type})")
        except TableStopped as error:
            raise self._copy(error.message) from error

    def _there(self, source: Column, column: Column, reused: bool) -> LakeColumn:
        """Returns the lake's column with the old values: under its old name, or renamed already by a run that died.
        `reused`: the statement gives a name of before to another column."""
        if not reused and source.name != column.name and {source.name, column.name} <= self.lake.keys():
            raise self._copy(f"repeated rows are from before column {source.name!r} was renamed to {column.name!r}")
        there = self.lake.get(source.name) or (None if reused else self.lake.get(column.name))
        if there is None:
            raise self._copy(f"the lake's table has no column {source.name!r}")
        return there

    def _kept(
        self, source: Column, column: Column, there: LakeColumn, target: LakeColumn, change: ColumnChange | None
    ) -> tuple[AlteredColumn, list[str]]:
        unless: list[str] = []
        if change is not None:
            text = _QUOTED.sub("''", change.definition)
            if _COMPUTED.search(text):
                raise self._copy(f"the server computes the values of column {column.name!r}")
            if _NUMBERED.search(text):  # where it was not AUTO_INCREMENT before, the server numbers such rows
                unless.append("{} = 0")
        kept = conversion(source, column)
        if kept is None:
            was, now = source.column_type or there.type, column.column_type or target.type
            raise self._copy(f"the values of column {column.name!r} may have changed: it was {was} and is {now} now")
        if change is not None and not same_for_expressions(source, column) and self._has_generated():
            raise self._copy(f"a generated column may depend on {column.name!r}, whose type changed")
        comment = target.comment if change is not None else there.comment
        name = quote(there.name)
        value = name if there.type == target.type else f"CAST({name} AS {target.type})"
        altered = AlteredColumn(LakeColumn(target.name, target.type, comment), source.name, value)
        return altered, [condition.format(name) for condition in (*kept.unless, *unless)]

    def _has_generated(self) -> bool:
        """Whether a column is generated from others, or may be: an event alone does not say."""
        return any(column.generated is not False or not column.column_type for column in self.before.shown)

    def _is_by_name(self, one: AlteredColumn) -> bool:
        if one.origin is None:
            return one.value.startswith("CAST(NULL ")
        respelled = one.origin != one.column.name and one.origin.lower() == one.column.name.lower()
        return not respelled and not one.value.startswith("CAST(")

    def _copy(self, reason: str) -> CopyNeeded:
        return CopyNeeded(reason, self.effect.name)


def _asked(schema: TableSchema) -> tuple[str, ...]:
    """The columns that the condition of the rows asks."""
    return condition(schema.where).columns if schema.where else ()


def _did_nothing(change: ColumnChange, old: dict[str, Column]) -> bool:
    """Whether the clause had no effect: IF EXISTS of a missing column, or IF NOT EXISTS of an existing one."""
    there = change.name.lower() in old
    return change.conditional and there == (change.kind is ChangeKind.ADD_COLUMN)


def with_dropped(plan: Alteration, lake: Sequence[LakeColumn]) -> Alteration:
    """Returns the plan with the columns that the source dropped at the end, except those whose names are reused."""
    known = {name.lower() for one in plan.columns for name in (one.origin, one.column.name) if name is not None}
    kept = [
        AlteredColumn(column, column.name, quote(column.name)) for column in lake if column.name.lower() not in known
    ]
    return replace(plan, columns=(*plan.columns, *kept))
