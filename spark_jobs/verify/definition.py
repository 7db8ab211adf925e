"""How a lake table's definition differs from what its source table's promises: pure.

The lake has the source's columns in the source's order, with the types of docs/types.md and the comments of table and
columns. A type may be wider: it holds every value, and Delta does not narrow in place. Every column is nullable there,
whatever the source says, so a column that is not would refuse rows. Defaults, keys and indexes stay at the source.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from spark_jobs.lake.types import LakeColumn

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


@dataclass(frozen=True, slots=True)
class LakeDefinition:
    """A lake table's columns and comment. `not_null`: the columns that refuse NULL."""

    columns: tuple[LakeColumn, ...]
    comment: str = ""
    not_null: tuple[str, ...] = ()


def definition_differences(columns: Sequence[LakeColumn], comment: str, lake: LakeDefinition) -> tuple[str, ...]:
    """A sentence for each difference. `columns` and `comment` are the source's, in the lake's types."""
    there = {column.name: column for column in lake.columns}
    both = [(column, there[column.name]) for column in columns if column.name in there]
    found = [_missing("lake", name) for name in sorted({c.name for c in columns} - set(there))]
    found += [_missing("source", name) for name in sorted(set(there) - {c.name for c in columns})]
    for ours, theirs in both:
        if not holds(theirs.type, ours.type):
            found.append(f"column {ours.name!r} is {theirs.type} in the lake, and should be {ours.type}")
        if theirs.comment != ours.comment:
            found.append(f"column {ours.name!r} has the comment {theirs.comment!r} in the lake, not {ours.comment!r}")
    found += [f"column {name!r} refuses NULL in the lake" for name in lake.not_null]
    shared = {column.name for column, _ in both}
    order = [column.name for column in lake.columns if column.name in shared]
    if order != [column.name for column, _ in both]:
        found.append(f"the columns are in another order in the lake: {', '.join(order)}")
    if lake.comment != comment:
        found.append(f"the table has the comment {lake.comment!r} in the lake, not {comment!r}")
    return tuple(found)


def holds(wide: str, narrow: str) -> bool:
    """Whether a Delta type has every value of another one of its family."""
    if wide == narrow or (wide, narrow) == ("double", "float"):
        return True
    if wide in _INTEGERS and narrow in _INTEGERS:
        return _INTEGERS.index(wide) > _INTEGERS.index(narrow)
    more, less = _DECIMAL.fullmatch(wide), _DECIMAL.fullmatch(narrow)
    if more is None or less is None:
        return False
    whole = int(more[1]) - int(more[2]) >= int(less[1]) - int(less[2])
    return whole and int(more[2]) >= int(less[2])


def _missing(where: str, name: str) -> str:
    return f"the {where} has no column {name!r}"
