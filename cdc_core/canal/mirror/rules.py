"""Which tables go where: the mapping files of Canal's RDB adapter (`conf/rdb/*.yml`), as frozen values.

A file is of one table (`table`, `targetTable`, `targetPk`, `mapAll`, `targetColumns`) or of a whole database, with its
DDL statements (`mirrorDb: true`). Source: Canal's wiki, "Sync RDB".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from cdc_core.errors import ConfigError

_Names = Annotated[dict[str, str], BeforeValidator(lambda value: {k: v or k for k, v in (value or {}).items()})]


class MirrorRule(BaseModel):
    """The `dbMapping` of one file. `target_pk` and `target_columns` are by the target's name."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    database: str
    table: str = ""
    mirror_db: bool = Field(False, alias="mirrorDb")
    target_db: str = Field("", alias="targetDb")
    target_table: str = Field("", alias="targetTable")
    target_pk: _Names = Field({}, alias="targetPk")
    map_all: bool = Field(False, alias="mapAll")
    target_columns: _Names = Field({}, alias="targetColumns")
    commit_batch: int = Field(3000, alias="commitBatch")
    read_batch: int = Field(5000, alias="readBatch")
    case_insensitive: bool = Field(False, alias="caseInsensitive")
    etl_condition: str | None = Field(None, alias="etlCondition")

    @model_validator(mode="after")
    def _of_one_kind(self) -> MirrorRule:
        if self.mirror_db == bool(self.table):
            raise ValueError("give either mirrorDb: true, or table")
        if self.mirror_db and (self.target_table or self.target_db not in ("", self.database)):
            raise ValueError("mirrorDb keeps all names: leave out targetDb and targetTable")
        if self.table and not (self.map_all or self.target_columns):
            raise ValueError("a table needs mapAll: true, or targetColumns")
        return self

    @property
    def target(self) -> tuple[str, str]:
        """Database and table of the target; of a whole database without a table."""
        database, _, table = self.target_table.rpartition(".")
        return database or self.target_db or self.database, table or self.table

    def matches(self, database: str, table: str) -> bool:
        return database == self.database and (self.mirror_db or table == self.table)

    @cached_property
    def sources(self) -> Mapping[str, str]:
        """The source's columns by the target's, as far as the rule names them: its key's are mapped too."""
        named = {**self.target_pk, **self.target_columns}
        return {target: source for target, source in named.items() if not self.map_all or target != source}

    def spelled(self, names: Collection[str]) -> MirrorRule:
        """The same with the source's columns as `names` spells them: column names ignore case."""
        by_name = {name.lower(): name for name in names}
        if all(by_name.get(one.lower(), one) == one for one in (*self.sources.values(), *self.target_pk.values())):
            return self

        def spelled(columns: Mapping[str, str]) -> dict[str, str]:
            return {target: by_name.get(source.lower(), source) for target, source in columns.items()}

        update = {"target_pk": spelled(self.target_pk), "target_columns": spelled(self.target_columns)}
        return MirrorRule(**{**self.model_dump(), **update})

    def columns(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """A row's values by the target's columns."""
        if not self.sources:
            return values
        chosen = {target: values[source] for target, source in self.sources.items() if source in values}
        if not (self.map_all or self.mirror_db):
            return chosen
        mapped = set(self.sources.values())
        return {name: value for name, value in values.items() if name not in mapped} | chosen

    def key(self, source_key: tuple[str, ...]) -> tuple[str, ...]:
        """The target's key columns: those of the rule, else the source's under their names there."""
        if self.target_pk:
            return tuple(self.target_pk)
        if not self.target_columns:
            return source_key
        names = {source: target for target, source in self.target_columns.items()}
        return tuple(names.get(name, name) for name in source_key)


class MirrorRules:
    """The rules of one destination. A table's own rule comes before its database's."""

    def __init__(self, rules: list[MirrorRule]) -> None:
        self._rules = sorted(rules, key=lambda rule: rule.mirror_db)

    def __repr__(self) -> str:
        return f"<Rules {len(self._rules)}>"

    def of(self, database: str, table: str) -> Sequence[MirrorRule]:
        """Those of the table, which may be several; without one, that of its database."""
        found = [rule for rule in self._rules if rule.matches(database, table)]
        own = [rule for rule in found if not rule.mirror_db]
        return own or found[:1]

    @property
    def filter(self) -> str:
        """The filter that lets these tables through."""
        return ",".join(
            rf"{_escaped(r.database)}\..*" if r.mirror_db else rf"{_escaped(r.database)}\.{_escaped(r.table)}"
            for r in self._rules
        )


def _escaped(name: str) -> str:
    """A comma would end the expression: any character stands for it."""
    return re.escape(name).replace(",", ".")


def read_rules(folder: Path, destination: str) -> MirrorRules:
    """The rules of a destination among the files of a folder. Raises ConfigError with file and key."""
    files = sorted([*folder.glob("*.yml"), *folder.glob("*.yaml")])
    found = [rule for file in files if (rule := _read(file, destination)) is not None]
    if not found:
        hint = f"Write *.yml with `destination: {destination}` and `dbMapping`, as for Canal's RDB adapter."
        raise ConfigError(f"no rule for {destination}", place=str(folder), hint=hint)
    return MirrorRules(found)


def _read(file: Path, destination: str) -> MirrorRule | None:
    try:
        node = yaml.safe_load(file.read_text("utf-8"))
        if not isinstance(node, dict) or "dbMapping" not in node:
            raise ValueError("it has no dbMapping")
        return MirrorRule.model_validate(node["dbMapping"]) if node.get("destination") == destination else None
    except ValidationError as error:
        first = error.errors()[0]
        place = f"{file}: dbMapping.{'.'.join(map(str, first['loc']))}".rstrip(".")
        raise ConfigError(str(first["msg"]), place=place, hint="Correct the file.") from error
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"the rule cannot be read: {error}", place=str(file), hint="Correct the file.") from error
