"""How rows are told apart in SQL. Those without a key are copies of one another when all of the lake's values are
equal; those that reference a key may compare as only the source knows.

Among copies NULL equals NULL. 0.0 does not equal -0.0, which Spark groups and joins as one value, but not their texts.
"""

from __future__ import annotations

from collections.abc import Sequence

from spark_jobs.lake.sql import quote
from spark_jobs.lake.types import LakeColumn

_OTHERS = "[^ -~]"  # letters whose case and accents only the source's collation knows
_DATES = ("date", "timestamp", "timestamp_ntz")
FEWER_COPIES = "SLUICE_FEWER_COPIES"  # how a statement says in Spark that it takes more copies than there are


def exactly(alias: str, columns: Sequence[LakeColumn]) -> str:
    """What to group by."""
    return ", ".join(_exact(alias, column) for column in columns)


def any_value(alias: str, column: LakeColumn) -> str:
    """The value of a group: a grouping expression would come out without the sign of -0.0."""
    name = f"{alias}.{quote(column.name)}"
    return f"any_value({name})" if _floats(column) else name


def same(one: str, other: str, columns: Sequence[LakeColumn]) -> str:
    """What to join on."""
    return " AND ".join(f"{_exact(one, column)} <=> {_exact(other, column)}" for column in columns)


def _exact(alias: str, column: LakeColumn) -> str:
    name = f"{alias}.{quote(column.name)}"
    return f"CAST({name} AS STRING)" if _floats(column) else name


def _floats(column: LakeColumn) -> bool:
    return "float" in column.type or "double" in column.type


def references(child: str, parent: str, kind: str, *, zero_dates: bool = False) -> str:
    """The condition for a reference between columns of one type. The source compares text by its collation: what may be
    equal there counts. So do two NULLs of dates where the lake has zero dates as NULL (`zero_dates`)."""
    if kind == "string":
        either = f"{beyond_ascii(child)} OR {beyond_ascii(parent)}"
        return f"({spelled_alike(child, parent, kind)} OR ({child} IS NOT NULL AND ({either})))"
    return f"{child} {'<=>' if zero_dates and kind in _DATES else '='} {parent}"


def spelled_alike(child: str, parent: str, kind: str) -> str:
    """The condition for a reference whose texts differ in case and trailing spaces at most: Spark joins by a hash."""
    return f"lower(rtrim({child})) = lower(rtrim({parent}))" if kind == "string" else f"{child} = {parent}"


def beyond_ascii(text: str) -> str:
    """The condition for a text of which only the source knows what it equals."""
    return f"{text} RLIKE '{_OTHERS}'"
