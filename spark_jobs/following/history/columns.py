"""The columns that a history has after the table's own, and the names of histories in a run.

A row is one version of a row of the source. (`EPOCH`, `VERSION`, `NTH`) is the place of the change that opened it, so
versions of one second are in order; if that change is not known, the place of the change that closed it.
"""

from __future__ import annotations

from collections.abc import Sequence

from cdc_core.errors import TableStopped
from spark_jobs.changes.columns import EPOCH, NTH, VERSION
from spark_jobs.changes.versions import CURRENT, VALID_FROM, VALID_TO
from spark_jobs.lake.types import LakeColumn

OWN = (
    LakeColumn(VALID_FROM, "timestamp"),
    LakeColumn(VALID_TO, "timestamp"),
    LakeColumn(CURRENT, "boolean"),
    LakeColumn(EPOCH, "int"),
    LakeColumn(VERSION, "bigint"),
    LakeColumn(NTH, "bigint"),
)
NAMES = frozenset(column.name for column in OWN)
_WORK = "__history "  # no table of MySQL has a name that ends with a space


def work_of(table: str) -> str:
    """Returns the name under which the history of `database.table` is followed, and waits after a failure."""
    return table + _WORK


def table_of(work: str) -> str | None:
    """Returns the table of a history's name, or None for the name of a table."""
    return work.removesuffix(_WORK) if work.endswith(_WORK) else None


def lacking(have: Sequence[LakeColumn], wanted: Sequence[LakeColumn], path: str) -> tuple[LakeColumn, ...]:
    """Returns the columns that a history needs and lacks. Raises TableStopped if it cannot have them."""
    there = {column.name.lower(): column for column in have}
    for column in wanted:
        if column.name.lower() in NAMES:
            hint = "Rename it at the source, or set `apply: land_first` for the table in defs.yaml."
            raise TableStopped(f"column {column.name!r} has the name of a history's own column", place=path, hint=hint)
        old = there.get(column.name.lower(), column)
        if (old.name, old.type) != (column.name, column.type):
            was, now = f"{old.name} {old.type}", f"{column.name} {column.type}"
            raise TableStopped(f"a column was {was!r} and is {now!r} now", place=path, hint=MOVE_AWAY)
    return tuple(column for column in wanted if column.name.lower() not in there)


MOVE_AWAY = (
    "Move the folder of the history away, for example to another name: a new one begins with the rows of the table. "
    "The table itself is not affected."
)
