"""Decides what a new definition of rows means for their Delta table, if no DDL statement explains it.

A new column is added. Any other change needs a copy: a type, a name or a key is never guessed. `alteration` decides
if the statement is known. Repeated rows may have an earlier definition: columns that it lacks keep their values.
"""

from __future__ import annotations

from collections.abc import Sequence

from spark_jobs.lake.copying import CopyNeeded
from spark_jobs.lake.types import LakeColumn


def added_columns(
    old: Sequence[LakeColumn], new: Sequence[LakeColumn], table: str, *, gone: bool = False, again: bool = False
) -> tuple[LakeColumn, ...]:
    """Returns the columns that only `new` has. Their order is no change. `again`: repeated rows may have an earlier
    definition, which lacks columns or has columns that were dropped since.

    Raises CopyNeeded when a column of `old` has another type, or is gone and `gone` does not allow it.
    """
    before = {column.name for column in old}
    after = {column.name: column for column in new}
    for column in old:
        now = after.get(column.name)
        if now is None and again and any(one.name not in before for one in new):
            raise CopyNeeded(f"repeated rows are from before a change of column {column.name!r}", table)
        if now is None and not (gone or again):
            raise CopyNeeded(f"column {column.name!r} ({column.type}) is gone from the source, or was renamed", table)
        if now is not None and now.type != column.type:
            raise CopyNeeded(f"column {column.name!r} was {column.type} and is {now.type} now", table)
    return tuple(column for column in new if column.name not in before)


def check_key(old: Sequence[str], new: Sequence[str], table: str) -> None:
    """Raises CopyNeeded when the primary key changed."""
    if tuple(old) != tuple(new):
        message = f"the primary key was ({', '.join(old) or 'none'}) and is ({', '.join(new) or 'none'}) now"
        raise CopyNeeded(message, table)
