"""Rules for deleted rows and for columns of a row's last change, by table: plain values of the configuration."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TypeVar

from spark_jobs.lake.own_columns import COMMIT_TIME, LAST_OP, POSITION, Own


class Deletes(StrEnum):
    """The effect of a delete at the source on its row in the lake."""

    HARD = "hard"  # the row goes
    SOFT = "soft"  # the row stays as it was, and is marked


class LastChange(StrEnum):
    """The facts about a row's last change that a column can have."""

    POSITION = "position"
    COMMIT_TIME = "commit_time"
    OP = "op"


_NAMES = {LastChange.POSITION: POSITION, LastChange.COMMIT_TIME: COMMIT_TIME, LastChange.OP: LAST_OP}
_Rule = TypeVar("_Rule")


@dataclass(frozen=True, slots=True)
class RowRules:
    """`deletes_by` and `columns_by` map patterns (`shop.*`, as in a shell) to rules; the first that fits counts, else
    `deletes` and `columns`."""

    deletes: Deletes = Deletes.HARD
    deletes_by: Mapping[str, Deletes] = field(default_factory=dict)
    columns: tuple[LastChange, ...] = ()
    columns_by: Mapping[str, tuple[LastChange, ...]] = field(default_factory=dict)

    def of(self, table: str) -> Own:
        """Returns the columns that `database.table` should have."""
        soft = _first(self.deletes_by, table, self.deletes) is Deletes.SOFT
        return Own.made((_NAMES[one] for one in _first(self.columns_by, table, self.columns)), soft=soft)

    def widened(self, table: str, had: Own) -> Own:
        """Returns the same for an existing table: a column that it has stays, and is kept up."""
        wanted = self.of(table)
        return Own.made((*had.names, *wanted.names), soft=wanted.soft)


def _first(rules: Mapping[str, _Rule], table: str, otherwise: _Rule) -> _Rule:
    return next((rule for pattern, rule in rules.items() if fnmatchcase(table, pattern)), otherwise)


def rules_json(rules: RowRules) -> str:
    """Returns the rules as text, for a configuration."""
    return json.dumps(asdict(rules))


def rules_from(text: str) -> RowRules:
    """Returns the rules that `rules_json` wrote; the defaults for an empty object."""
    node = json.loads(text)
    if not node:
        return RowRules()
    deletes_by = {pattern: Deletes(one) for pattern, one in node["deletes_by"].items()}
    columns_by = {pattern: _columns(one) for pattern, one in node["columns_by"].items()}
    return RowRules(Deletes(node["deletes"]), deletes_by, _columns(node["columns"]), columns_by)


def _columns(names: Iterable[str]) -> tuple[LastChange, ...]:
    return tuple(map(LastChange, names))
