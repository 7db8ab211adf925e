"""Compares rows in SQL. Rows without a key are copies of one another when all of the lake's values are equal. How a
reference to a key compares may be known to the source alone.

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
    """Returns the columns to group copies by."""
    return ", ".join(_exact(alias, column) for column in columns)


def any_value(alias: str, column: LakeColumn) -> str:
    """Returns the value of a group: a grouping expression would lose the sign of -0.0."""
    name = f"{alias}.{quote(column.name)}"
    return f"any_value({name})" if _floats(column) else name


def same(one: str, other: str, columns: Sequence[LakeColumn]) -> str:
    """Returns the condition to join copies on."""
    return " AND ".join(f"{_exact(one, column)} <=> {_exact(other, column)}" for column in columns)


def _exact(alias: str, column: LakeColumn) -> str:
    name = f"{alias}.{quote(column.name)}"
    return f"CAST({name} AS STRING)" if _floats(column) else name


def _floats(column: LakeColumn) -> bool:
    return "float" in column.type or "double" in column.type


def references(child: str, parent: str, kind: str, *, zero_dates: bool = False) -> str:
    """Returns the condition for a reference between columns of one type. The source compares text by its collation:
    texts that may be equal there count. So do two NULLs of dates where the lake has zero dates as NULL
    (`zero_dates`)."""
    if kind == "string":
        either = f"{beyond_ascii(child)} OR {beyond_ascii(parent)}"
        return f"({spelled_alike(child, parent, kind)} OR ({child} IS NOT NULL AND ({either})))"
    return f"{child} {'<=>' if zero_dates and kind in _DATES else '='} {parent}"


def spelled_alike(child: str, parent: str, kind: str) -> str:
    """Returns the condition for a reference whose texts differ at most in case and trailing spaces: Spark joins by a
    hash."""
    return f"lower(rtrim({child})) = lower(rtrim({parent}))" if kind == "string" else f"{child} = {parent}"


def beyond_ascii(text: str) -> str:
    """Returns the condition for a text whose equality only the source can decide."""
    return f"{text} RLIKE '{_OTHERS}'"
