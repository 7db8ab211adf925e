"""What a `defs.yaml` can say about the tables of a destination: a rule for all, and rules for patterns of names."""

from __future__ import annotations

from typing import Self

import dagster as dg
from pydantic import model_validator

from cdc_core.errors import ConfigError
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


def check_time(text: str) -> None:
    """Raises ValueError, as pydantic expects it, if the text is not a time for which rows can be kept."""
    try:
        log_hours(text)
    except ConfigError as error:
        raise ValueError(f"{error.message}; {error.hint}") from error
