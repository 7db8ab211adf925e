"""What a `defs.yaml` can say about the tables of a destination: a rule for all, and rules for patterns of names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Self

import dagster as dg
from pydantic import model_validator

from cdc_core.errors import ConfigError
from spark_jobs.lake.catalog_names import SPARK_CATALOG, CatalogRules, check_catalog, check_template
from spark_jobs.lake.layout import Vectors
from spark_jobs.lake.policies import Changed, Dropped, Policies, TablePolicy
from spark_jobs.lake.row_rules import Deletes, LastChange
from spark_jobs.landing.modes import Mode, Modes
from spark_jobs.maintain.retention import LogRetention, log_hours


class TableRule(dg.Model, dg.Resolvable):
    """The rule of one table, or of the tables of a pattern, if it differs from the destination's."""

    changed: Changed | None = None
    dropped: Dropped | None = None


class DdlRules(dg.Model, dg.Resolvable):
    """What the lake does with the source's DDL statements: docs/ddl.md. `tables` maps patterns, `shop.*` as in a shell,
    to rules; the first that fits counts."""

    changed: Changed = Changed.EVOLVE
    dropped: Dropped = Dropped.KEEP
    copy_rows: int = 1_000_000
    tables: dict[str, TableRule] = {}

    @property
    def policies(self) -> Policies:
        tables = {
            pattern: TablePolicy(rule.dropped or self.dropped, rule.changed or self.changed)
            for pattern, rule in self.tables.items()
        }
        return Policies(TablePolicy(self.dropped, self.changed), tables, self.copy_rows)


class ApplyRules(dg.Model, dg.Resolvable):
    """How changes come into the lake: docs/landing.md. `tables` maps patterns, `shop.*` as in a shell, to modes; the
    first that fits counts."""

    mode: Mode = Mode.MERGE
    tables: dict[str, Mode] = {}

    @property
    def modes(self) -> Modes:
        return Modes(self.mode, self.tables)


class DeleteRules(dg.Model, dg.Resolvable):
    """What deletes do to rows in the lake: docs/soft-deletes.md. `tables` maps patterns, `shop.*` as in a shell, to
    modes; the first that fits counts."""

    mode: Deletes = Deletes.HARD
    tables: dict[str, Deletes] = {}


class ColumnRules(dg.Model, dg.Resolvable):
    """Which columns describe the last change of each row: docs/soft-deletes.md. `tables` maps patterns, `shop.*` as in
    a shell, to lists; the first that fits counts."""

    names: list[LastChange] = []
    tables: dict[str, list[LastChange]] = {}


class VectorRules(dg.Model, dg.Resolvable):
    """Which tables have deletion vectors: docs/readers.md. `tables` maps patterns, `shop.*` as in a shell, to modes;
    the first that fits counts."""

    mode: Vectors = Vectors.AUTO
    tables: dict[str, Vectors] = {}


def check_columns(key: str, rules: Mapping[str, Sequence[str]], most: int) -> None:
    """Raises ValueError for a rule without columns, with a column twice, or with too many."""
    for pattern, names in rules.items():
        if not names or any(not name.strip() for name in names):
            raise ValueError(f"{pattern}: {key} names no column; list one, or leave the pattern out")
        if len(set(names)) < len(names):
            raise ValueError(f"{pattern}: {key} names a column twice")
        if len(names) > most:
            raise ValueError(f"{pattern}: {key} names {len(names)} columns; Delta takes {most}")


def check_laid_out_once(clustered: Iterable[str], partitioned: Sequence[str]) -> None:
    """Raises ValueError for a table, or a pattern, that is to be both. Of two patterns it is known with the table."""
    for one in clustered:
        if any(one == other or fnmatchcase(one, other) or fnmatchcase(other, one) for other in partitioned):
            raise ValueError(f"{one} is in cluster_by and in partition_by; a table of Delta has one of the two")


class UnionRule(dg.Model, dg.Resolvable):
    """A table of the lake that has the rows of many tables of the source: docs/unions.md. `tables`: a regular
    expression of their whole names. `columns`: a name for each of its groups, in their order. `destination`: the name
    of a column with the destination's name."""

    tables: str
    columns: list[str] = []
    destination: str = ""


class LogRules(dg.Model, dg.Resolvable):
    """How long change logs keep their rows: docs/landing.md. `tables` maps patterns, `shop.*` as in a shell, to times;
    the first that fits counts."""

    keep: str = "forever"
    tables: dict[str, str] = {}

    @model_validator(mode="after")
    def _are_times(self) -> Self:
        for text in (self.keep, *self.tables.values()):
            check_time(text)
        return self

    @property
    def retention(self) -> LogRetention:
        return LogRetention(log_hours(self.keep), {name: log_hours(text) for name, text in self.tables.items()})


class CatalogSettings(dg.Model, dg.Resolvable):
    """The catalog of Spark's session in which tables are registered, and the templates of their names there:
    docs/catalog.md."""

    name: str = SPARK_CATALOG
    database: str = "{database}"
    table: str = "{table}"

    @model_validator(mode="after")
    def _are_templates(self) -> Self:
        check_catalog(self.name)
        check_template(self.database)
        check_template(self.table, needs="table")
        return self

    @property
    def rules(self) -> CatalogRules:
        return CatalogRules(self.name, self.database, self.table)


def check_time(text: str) -> None:
    """Raises ValueError, as pydantic expects it, if the text is not a time for which rows can be kept."""
    try:
        log_hours(text)
    except ConfigError as error:
        raise ValueError(f"{error.message}; {error.hint}") from error
