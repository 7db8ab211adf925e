"""The rule of one table, and the table's definition as the lake sees it: pure.

Names of columns are compared without case, as MySQL does. A rule that cannot be applied gives a definition with a
defect, so that its table stops and no value leaves the service.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, get_args
from zoneinfo import ZoneInfo

from cdc_core.errors import ConfigError, SchemaError
from cdc_core.rules.conditions import condition
from cdc_core.rules.expressions import asked_kind, computed_column, expression
from cdc_core.schema.column_rule import UTC, Cast, ColumnRule, Mask, MaskKind, ZeroDates
from cdc_core.schema.column_type import ColumnType
from cdc_core.schema.table import DATED, Column, Defect, TableSchema

_OWN = "_sluice_"  # begins the names of columns that Sluice adds
_ASKED = {  # types of columns that a condition may have
    ColumnType.TINY, ColumnType.SHORT, ColumnType.INT24, ColumnType.LONG, ColumnType.LONGLONG, ColumnType.NEWDECIMAL,
    ColumnType.STRING, ColumnType.VAR_STRING, ColumnType.VARCHAR, ColumnType.TINY_BLOB, ColumnType.BLOB,
    ColumnType.MEDIUM_BLOB, ColumnType.LONG_BLOB, ColumnType.ENUM,
}  # fmt: skip
_DATETIMES = (ColumnType.DATETIME, ColumnType.DATETIME2)
_REMEDY = "Correct the table's rule (`rules` in defs.yaml), then reload the table from the source (sluice copy)."


@dataclass(frozen=True, slots=True)
class TableRule:
    """`include`: the only columns that the lake has, all if it is empty. `exclude`: those that it does not have.
    `rename` and `masks` are by the column's name at the source. `casts`: which columns have another type. `where`: the
    condition of the rows that the lake has, all if it is empty (`rules.conditions`). `zone`: in which a DATETIME is an
    instant. `computed`: names and expressions of columns that the lake has besides (`rules.expressions`). `zero_dates`:
    what zero dates do, None for what they do in the destination."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    rename: tuple[tuple[str, str], ...] = ()
    masks: tuple[tuple[str, Mask], ...] = ()
    casts: tuple[Cast, ...] = ()
    where: str = ""
    zone: str = UTC
    computed: tuple[tuple[str, str], ...] = ()
    zero_dates: ZeroDates | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of columns at the source that the rule has."""
        changed = (*self.rename, *self.masks)
        return tuple(dict.fromkeys((*self.include, *self.exclude, *(name for name, _ in changed))))

    def excludes(self, column: str) -> bool:
        """Whether the lake does not have this column of the source."""
        name = column.lower()
        return name in _lower(self.exclude) or (bool(self.include) and name not in _lower(self.include))

    def renamed(self, column: str) -> str:
        """The name of the source's column in the lake."""
        return next((new for old, new in self.rename if old.lower() == column.lower()), column)

    def mask(self, column: str) -> Mask | None:
        """What masks the values of the source's column."""
        return next((mask for name, mask in self.masks if name.lower() == column.lower()), None)

    def hides(self, column: str) -> bool:
        """Whether the lake does not have the values of the source's column."""
        return self.excludes(column) or self.mask(column) is not None

    @property
    def hides_columns(self) -> bool:
        """Whether the lake may lack the values of a column."""
        return bool(self.include or self.exclude or self.masks)

    def of(self, column: Column) -> ColumnRule:
        """What the rule makes of the source's column."""
        if self.excludes(column.name):
            return ColumnRule(column.name, excluded=True)
        cast = next((cast for cast in self.casts if _IS[cast](column)), None)
        zone = self.zone if cast is Cast.DATETIME_TIMESTAMP else UTC
        dates = self.zero_dates if column.type_code in DATED else None
        return ColumnRule(column.name, mask=self.mask(column.name), cast=cast, zone=zone, zero_dates=dates)

    def shows(self, column: str) -> bool:
        """Whether the lake has the source's column as it is."""
        return not self.excludes(column) and self.renamed(column) == column and self.mask(column) is None

    def check(self, place: str) -> None:
        """Raises ConfigError for a rule that no table can have."""
        try:
            found = self._contradiction()
        except ConfigError as error:
            raise ConfigError(error.message, place=place, hint=error.hint) from error
        if found:
            hint = "Give each column one place: left out, computed, or shown with at most one name and one mask."
            raise ConfigError(found, place=place, hint=hint)

    def view(self, schema: TableSchema, *, whole: bool = False) -> TableSchema:
        """The definition as the lake sees it. It has a defect where the rule does not fit the table. `whole`: the table
        must have all columns of the rule."""
        if schema.defect:
            return _unreadable(schema, schema.defect)
        columns = tuple(column if column.hidden else self._seen(column) for column in schema.columns)
        try:
            columns += tuple(self._computed(columns))
            reason = self._misfit(schema, columns, whole)
        except SchemaError as error:
            reason = error.message
        if reason:
            return _unreadable(schema, Defect(reason, _REMEDY))
        if columns == schema.columns and not self.where:
            return schema
        key = tuple(self.renamed(name) for name in schema.primary_key)
        return replace(schema, columns=columns, primary_key=key, where=self.where)

    def filled(self, fill: Callable[[Mask], Mask]) -> TableRule:
        """The same with the masks that `fill` returns for its own."""
        return replace(self, masks=tuple((name, fill(mask)) for name, mask in self.masks))

    def _seen(self, column: Column) -> Column:
        rule, name = self.of(column), self.renamed(column.name)
        if rule.excluded:
            return Column("", column.type_code, column.meta, hidden=True, rule=rule)  # another one may have its name
        if rule.mask and rule.mask.kind is MaskKind.NULL:
            column = replace(column, nullable=True, default=None, default_expression=False)
        elif rule.mask and column.default is not None:  # a value too
            column = replace(column, default="", default_expression=True)
        if rule.zero_dates:
            column = replace(column, as_text=rule.zero_dates == "string")
        if rule.cast is Cast.DATETIME_STRING:
            column = replace(column, as_text=True)
        return replace(column, name=name, rule=rule) if rule != ColumnRule(name) else column

    def _computed(self, columns: Iterable[Column]) -> Iterator[Column]:
        """The columns that the lake has besides. Raises SchemaError for an expression that is not for the table."""
        there = {column.source_name.lower(): column for column in columns if not column.hidden}
        for name, text in self.computed:
            asked, kinds = expression(text), {}
            for one in asked.columns:
                kind = asked_kind(there[one]) if one in there else None
                if kind is None:
                    what = "whose type expressions do not have" if one in there else "which the table or the lake lacks"
                    raise SchemaError(f"its column {name!r} is computed from {one!r}, {what}", hint=_REMEDY)
                kinds[one] = kind
            yield computed_column(name, text, asked.kind(kinds))

    def _misfit(self, schema: TableSchema, columns: Iterable[Column], whole: bool) -> str | None:
        """Why the rule does not fit the table."""
        there = _lower(column.name for column in schema.shown)
        missing = [name for name in self.columns if name.lower() not in there]
        if whole and missing:
            return f"its rule names a column that the table does not have: {missing[0]!r}"
        shown = [column for column in columns if not column.hidden]
        if not shown:
            return "its rule leaves no column"
        if reason := self._unfit_condition(shown):
            return reason
        if Cast.TINYINT1 in self.casts and (unknown := [c for c in shown if _may_be_tinyint1(c)]):
            return f"its rule is about TINYINT(1), and the declared type of {unknown[0].source_name!r} is not known"
        if texts := [c for c in shown if c.cast is Cast.DATETIME_TIMESTAMP and c.as_text]:
            return f"its rule makes {texts[0].source_name!r} an instant, and sluice.zero.dates = string makes it a text"
        keys = {column.source_name: column for column in shown}
        for name in schema.primary_key:
            mask = self.mask(name)
            if name in keys and keys[name].cast is Cast.TINYINT1:
                return f"its rule makes {name!r}, a column of the key, a boolean, so that keys could be equal"
            if self.excludes(name):
                return f"its rule leaves out {name!r}, a column of the key"
            if mask and not mask.keeps_apart:
                return f"its rule masks {name!r}, a column of the key, so that keys could be equal ({mask.kind})"
        twice = [name for name, count in Counter(column.name.lower() for column in shown).items() if count > 1]
        return f"its rule gives two columns the name {twice[0]!r}" if twice else None

    def _unfit_condition(self, shown: Iterable[Column]) -> str | None:
        """Why no row of the table can be asked its condition."""
        there = {column.source_name.lower(): column for column in shown}
        for name in condition(self.where).columns if self.where else ():
            column = there.get(name)
            if column is None:
                return f"its condition names a column that the table does not have, or the lake: {name!r}"
            if column.cast or column.is_address or column.type_code not in _ASKED:
                return f"its condition asks {name!r}, a column of a type that conditions do not have"
        return None

    def _contradiction(self) -> str | None:
        if self.include and self.exclude:
            return "a rule has both include and exclude"
        for names in (self.include, self.exclude, [n for n, _ in self.rename], [n for n, _ in self.masks]):
            twice = [name for name, count in Counter(map(str.lower, names)).items() if count > 1]
            if twice:
                return f"a rule names the column {twice[0]!r} twice"
        for name, _ in (*self.rename, *self.masks):
            if self.excludes(name):
                return f"a rule leaves out the column {name!r} and also renames or masks it"
        targets = [new for _, new in self.rename]
        targets += [name for name, _ in self.computed]
        twice = [name for name, count in Counter(map(str.lower, targets)).items() if count > 1]
        if twice:
            return f"a rule gives two columns the name {twice[0]!r}"
        if bad := [new for new in targets if not new or new.lower().startswith(_OWN)]:
            return f"a rule gives a column the name {bad[0]!r}, which a column of the lake cannot have"
        for name in condition(self.where).columns if self.where else ():
            if self.hides(name):
                return f"a rule hides the column {name!r}, and its condition asks it"
        if reason := self._contradicting_computed():
            return reason
        return self._wrong_dates() or next((why for name, mask in self.masks if (why := _unusable(name, mask))), None)

    def _contradicting_computed(self) -> str | None:
        others = _lower((*self.exclude, *(name for name, _ in (*self.rename, *self.masks))))
        for name, text in self.computed:
            if name.lower() in others:
                return f"a rule computes the column {name!r} and also leaves it out, renames or masks it"
            for one in expression(text).columns:
                if self.hides(one):
                    return f"a rule hides the column {one!r}, and the column {name!r} is computed from it"
        return None

    def _wrong_dates(self) -> str | None:
        if Cast.DATETIME_TIMESTAMP in self.casts and self.zero_dates == "string":
            return "a rule makes each DATETIME an instant, and a text that may be a zero date"
        if self.zone == UTC:
            return None
        if Cast.DATETIME_TIMESTAMP not in self.casts:
            return f"a rule has the zone {self.zone!r}, and makes no DATETIME a timestamp"
        try:
            ZoneInfo(self.zone)
        except (ValueError, KeyError, OSError):
            return f"a rule has the zone {self.zone!r}, which this machine does not know; write it as Europe/Berlin"
        return None

    def to_dict(self) -> dict[str, Any]:
        """As it is configured: without what is known of its salts."""
        return {
            "include": list(self.include),
            "exclude": list(self.exclude),
            "rename": [list(pair) for pair in self.rename],
            "masks": [[name, mask.unfilled.to_dict()] for name, mask in self.masks],
            "casts": [cast.value for cast in self.casts],
            **({"where": self.where} if self.where else {}),
            **({"zone": self.zone} if self.zone != UTC else {}),
            **({"zero_dates": self.zero_dates} if self.zero_dates else {}),
            **({"computed": [list(pair) for pair in self.computed]} if self.computed else {}),
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> TableRule:
        """Raises KeyError, TypeError or ValueError for another form. What is not known here may hide something: a later
        version has it."""
        if unknown := sorted(fields.keys() - cls.__dataclass_fields__.keys()):
            raise ValueError(f"a rule has {unknown[0]!r}, which this version does not know")
        rename = tuple((str(old), str(new)) for old, new in fields["rename"])
        masks = tuple((str(name), Mask.from_dict(mask)) for name, mask in fields["masks"])
        include, exclude = (tuple(map(str, fields[name])) for name in ("include", "exclude"))
        casts, where, zone = (
            tuple(map(Cast, fields["casts"])),
            str(fields.get("where", "")),
            str(fields.get("zone", UTC)),
        )
        computed = tuple((str(name), str(text)) for name, text in fields.get("computed", ()))
        dates = fields.get("zero_dates")
        if dates not in (None, *get_args(ZeroDates)):
            raise ValueError(f"{dates!r} is nothing that zero dates do")
        return cls(include, exclude, rename, masks, casts, where, zone, computed, dates)


def _unreadable(schema: TableSchema, defect: Defect) -> TableSchema:
    """The table with the defect, and without its columns: their defaults are values too."""
    return TableSchema(schema.database, schema.table, (), defect=defect, others=schema.others)


def _is_tinyint1(column: Column) -> bool:
    declared = column.column_type.lower().startswith("tinyint(1)")
    return column.type_code == ColumnType.TINY and not column.unsigned and declared


def _may_be_tinyint1(column: Column) -> bool:
    return column.type_code == ColumnType.TINY and not column.unsigned and not column.column_type


_IS: dict[Cast, Callable[[Column], bool]] = {
    Cast.TINYINT1: _is_tinyint1,
    Cast.BIGINT_UNSIGNED: lambda column: column.type_code == ColumnType.LONGLONG and column.unsigned,
    Cast.ENUM: lambda column: column.type_code == ColumnType.ENUM,
    Cast.BIT1: lambda column: column.type_code == ColumnType.BIT and column.meta == 1,
    Cast.DATETIME_TIMESTAMP: lambda column: column.type_code in _DATETIMES,
    Cast.DATETIME_STRING: lambda column: column.type_code in _DATETIMES,
}


def _unusable(name: str, mask: Mask) -> str | None:
    if mask.kind in (MaskKind.TRUNCATE, MaskKind.KEEP_LAST) and mask.length < 1:
        return f"the mask {mask.kind} of the column {name!r} leaves {mask.length} characters; use the mask null"
    if mask.kind is MaskKind.SHA256 and mask.salt is None:
        return f"the mask {mask.kind} of the column {name!r} has no salt"
    return None


def _lower(names: Iterable[str]) -> set[str]:
    return {name.lower() for name in names}
