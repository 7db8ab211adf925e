"""What a `defs.yaml` can say about what the lake sees of the source's tables: docs/rules.md."""

from __future__ import annotations

from typing import Literal, Self

import dagster as dg
from pydantic import model_validator

from cdc_core.errors import ConfigError
from cdc_core.rules.rules import Rules
from cdc_core.rules.table_rule import TableRule
from cdc_core.schema.column_rule import UTC, Cast, Mask, MaskKind, Salt


class SaltVariable(dg.Model, dg.Resolvable):
    """The environment variable that has a salt, where the service runs and where Dagster runs."""

    env: str


class SeenTypes(dg.Model, dg.Resolvable):
    """The types that columns of some types have in the lake; the first of each is the default. `datetime_zone`: in
    which a DATETIME is a timestamp, an instant. `zero_dates`: what they do; NULL also where it is left empty."""

    tinyint1: Literal["tinyint", "boolean"] = "tinyint"
    bigint_unsigned: Literal["decimal", "bigint"] = "decimal"
    enum: Literal["label", "number"] = "label"
    bit1: Literal["boolean", "number"] = "boolean"
    datetime: Literal["timestamp_ntz", "timestamp", "string"] = "timestamp_ntz"
    datetime_zone: str = UTC
    zero_dates: Literal["destination", "fail", "null", "string"] | None = "destination"

    @property
    def casts(self) -> tuple[Cast, ...]:
        """Those that are not the default."""
        others = {"timestamp_ntz": (), "timestamp": (Cast.DATETIME_TIMESTAMP,), "string": (Cast.DATETIME_STRING,)}
        names = ("tinyint1", "bigint_unsigned", "enum", "bit1")
        changed = (name for name in names if getattr(self, name) != type(self).model_fields[name].default)
        return (*map(Cast, changed), *others[self.datetime])


class SeenColumns(dg.Model, dg.Resolvable):
    """What the lake sees of one table, or of the tables of a pattern. Columns are named as at the source. A mask is
    `sha256` or `null` (also where it is left empty), `{truncate: 3}`, `{keep_last: 4}` or `{constant: x}`. `where` is
    the condition of the rows that the lake has, and `compute` has the names and expressions of columns that it has
    besides."""

    include: list[str] = []
    exclude: list[str] = []
    rename: dict[str, str] = {}
    mask: dict[str, str | dict[str, str | int | float] | None] = {}
    types: SeenTypes = SeenTypes()
    where: str = ""
    compute: dict[str, str] = {}

    @model_validator(mode="after")
    def _hides_what_it_says(self) -> Self:
        """What is there and empty would show everything."""
        if "include" in self.model_fields_set and not self.include:
            raise ValueError("include names no column; list one, or leave it out to show all")
        if "where" in self.model_fields_set and not self.where.strip():
            raise ValueError("where has no condition; write one, or leave it out to show all rows")
        return self

    def rule(self, salt: Salt | None) -> TableRule:
        masks = tuple((name, _mask(name, mask, salt)) for name, mask in self.mask.items())
        columns = tuple(self.include), tuple(self.exclude), tuple(self.rename.items())
        computed = tuple((name, text.strip()) for name, text in self.compute.items())
        zone, dates = self.types.datetime_zone, self.types.zero_dates or "null"
        own = None if dates == "destination" else dates
        return TableRule(*columns, masks, self.types.casts, self.where.strip(), zone, computed, own)


class SeenTables(dg.Model, dg.Resolvable):
    """`tables` maps patterns, `shop.*` as in a shell, to what the lake sees of them; the first that fits counts."""

    salt: SaltVariable | None = None
    tables: dict[str, SeenColumns] = {}

    @property
    def rules(self) -> Rules:
        """The same as the service keeps it. Raises ConfigError for what is no mask."""
        salt = Salt(self.salt.env) if self.salt else None
        return Rules({pattern: seen.rule(salt) for pattern, seen in self.tables.items()})


def _mask(column: str, mask: str | dict[str, str | int | float] | None, salt: Salt | None) -> Mask:
    """Returns the mask of a column. Raises ConfigError for an unknown one."""
    match mask:
        case None | "null":
            return Mask(MaskKind.NULL)
        case "sha256":
            return Mask(MaskKind.SHA256, salt=salt)
        case {"truncate": int(length), **others} if not others:
            return Mask(MaskKind.TRUNCATE, length)
        case {"keep_last": int(length), **others} if not others:
            return Mask(MaskKind.KEEP_LAST, length)
        case {"constant": constant, **others} if not others:
            return Mask(MaskKind.CONSTANT, constant=str(constant))
    hint = "Write sha256, null, {truncate: 3}, {keep_last: 4} or {constant: x}."
    raise ConfigError(f"{mask!r} is not a mask", place=f"rules, {column}", hint=hint)
