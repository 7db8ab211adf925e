"""The check `schema_change` of a table: a warning when its columns in the lake change, with the statement.

It is declared with `schema_change: warn` in defs.yaml. A change is an event, and so is the end of the warning: the next
batch of a later run that changes rows of the table alone. What a statement did is seen by the table's columns before
and after the batch that followed it; nothing is read for a batch without statements. A run that dies in between does
not report the change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import dagster as dg

from cdc_core.contract.claim import Claim
from cdc_core.errors import SluiceError
from cdc_core.schema.names import full_name, split_name
from spark_jobs.apply.result import BatchResult
from spark_jobs.lake.tables import Lake

SCHEMA_CHANGE = "schema_change"
TEXT = "The columns of the table in the lake did not change."
_ROW = "no statement: rows came that have it"

Columns = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ColumnChanges:
    """What changed in the columns of a table: names that came and went, names with both types, and by what."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    statements: tuple[str, ...] = ()

    @classmethod
    def between(cls, before: Columns, after: Columns, statements: Sequence[str]) -> ColumnChanges:
        """Returns how columns differ, given with their types by name."""
        both = [name for name in after if name in before and before[name] != after[name]]
        return cls(
            tuple(name for name in after if name not in before),
            tuple(name for name in before if name not in after),
            tuple(f"{name} ({before[name]} to {after[name]})" for name in both),
            tuple(statements),
        )

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    def __add__(self, later: ColumnChanges) -> ColumnChanges:
        return ColumnChanges(
            self.added + later.added,
            self.removed + later.removed,
            self.changed + later.changed,
            self.statements + later.statements,
        )

    @property
    def text(self) -> str:
        """Returns the change for people."""
        parts = {"added": self.added, "removed": self.removed, "changed": self.changed}
        said = "; ".join(f"{word} {', '.join(names)}" for word, names in parts.items() if names)
        return f"{said}, by {'; '.join(self.statements) or _ROW}"


@dataclass(frozen=True, slots=True)
class TablesBefore:
    """The columns of the tables that a claim's statements name, as the lake had them before."""

    lake: Lake
    columns: Mapping[str, Columns] = field(default_factory=dict)

    @classmethod
    def of(cls, lake: Lake, claim: Claim) -> TablesBefore:
        effects = [effect for one in claim.ddl for effect in one.effects]
        names = {effect.name for effect in effects} | {full_name(*effect.to) for effect in effects if effect.to}
        return cls(lake, _read(lake, sorted(names)))

    def changes(self, batch: BatchResult) -> dict[str, ColumnChanges]:
        """Returns what changed with the batch, by table: of those that were there before and still are."""
        statements: dict[str, list[str]] = {}
        for one in batch.followed:
            statements.setdefault(one.table, []).append(one.text)
        after = _read(self.lake, self.columns)
        found = {
            name: ColumnChanges.between(self.columns[name], columns, statements.get(name, ()))
            for name, columns in after.items()
        }
        came = {one.table: one.added_columns for one in batch.applied if one.table not in found and not one.created}
        found |= {name: ColumnChanges(added) for name, added in came.items()}
        return {name: one for name, one in found.items() if one}


def _read(lake: Lake, tables: Iterable[str]) -> dict[str, Columns]:
    """Returns the columns of each table that the lake has and that can be read."""
    found: dict[str, Columns] = {}
    for name in tables:
        with suppress(SluiceError):  # what is wrong with a table, its batch says
            state = lake.state(lake.path(*split_name(name)), "")
            if state is not None and not state.dropped:
                found[name] = {column.name: column.type for column in state.columns}
    return found


def schema_result(key: dg.AssetKey, changes: ColumnChanges | None) -> dg.AssetCheckResult:
    """The result of the check; None for a table whose columns did not change."""
    if changes is None:
        return dg.AssetCheckResult(passed=True, asset_key=key, check_name=SCHEMA_CHANGE, description=TEXT)
    return dg.AssetCheckResult(
        passed=False,
        asset_key=key,
        check_name=SCHEMA_CHANGE,
        severity=dg.AssetCheckSeverity.WARN,
        description=changes.text,
        metadata={
            "added": list(changes.added),
            "removed": list(changes.removed),
            "changed": list(changes.changed),
            "statements": list(changes.statements),
        },
    )


def schema_specs(keys: Iterable[dg.AssetKey]) -> list[dg.AssetCheckSpec]:
    """The checks of these tables."""
    return [dg.AssetCheckSpec(SCHEMA_CHANGE, asset=key, description=TEXT) for key in keys]
