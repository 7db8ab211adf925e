"""The SQL that completes images that leave columns out: a query that replaces the view of net changes.

A column of the view is a struct: no struct means that the image leaves the column out, NULL in it is NULL. The latest
value of a column counts. A column that no image has keeps the lake's value, or gets its default where the row was
inserted. The MERGE that follows is that of whole images. Source: docs/decoding.md, "Net changes".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spark_jobs.lake.sql import quote
from spark_jobs.lake.types import COUNT, GROUP, OP, SEQUENCE, LakeColumn

NO_SUCH_ROW = "SLUICE_NO_SUCH_ROW"  # how a statement says in Spark that it needs a row that the lake does not have


def whole_copies(view: str, columns: Sequence[LakeColumn], defaults: Mapping[str, str]) -> str:
    """Returns the query for a table without a key, where only inserts leave columns out. `defaults`: SQL by column."""
    filled = ", ".join(f"{_value(c, 'v', defaults[c.name])} AS {quote(c.name)}" for c in columns)
    return f"(SELECT {filled}, {COUNT} FROM {view} AS v)"  # noqa: S608


def whole_rows(
    path: str, view: str, columns: Sequence[LakeColumn], key: Sequence[str], defaults: Mapping[str, str], *, gone: bool
) -> str:
    """Returns the query for a table with a key. `gone`: some keys have no row any more, so their rows are deleted."""
    latest = _latest(view, columns, key)
    upserts = _upserts(path, latest, columns, key, defaults)
    return f"({upserts} UNION ALL {_deletes(view, latest, columns, key)})" if gone else f"({upserts})"


def _latest(view: str, columns: Sequence[LakeColumn], key: Sequence[str]) -> str:
    """A line for each row: its key now and in the lake, whether it was inserted, the latest other values."""
    names = [quote(name) for name in key]
    now = [f"max_by({name}, {SEQUENCE}) FILTER (WHERE {OP} <> 3) AS {name}" for name in names]
    before = [f"min_by({name}, {SEQUENCE}) FILTER (WHERE {OP} = 3) AS {_base(i)}" for i, name in enumerate(names)]
    others = [quote(column.name) for column in columns if column.name not in key]
    values = [f"max_by({name}, {SEQUENCE}) FILTER (WHERE {name} IS NOT NULL) AS {name}" for name in others]
    listed = ", ".join([*now, *before, f"max({OP}) = 4 AS _sluice_new", *values])
    return f"(SELECT {listed} FROM {view} WHERE {GROUP} >= 0 GROUP BY {GROUP})"  # noqa: S608


def _upserts(
    path: str, latest: str, columns: Sequence[LakeColumn], key: Sequence[str], defaults: Mapping[str, str]
) -> str:
    shown = " || ', ' || ".join(f"CAST(g.{_base(i)} AS STRING)" for i in range(len(key)))
    selected = []
    for column in columns:
        name = quote(column.name)
        if column.name in key:
            selected.append(f"g.{name}")
            continue
        lacks = f"CAST(raise_error('{NO_SUCH_ROW}: ' || coalesce({shown}, '?')) AS {column.type})"
        there = f"WHEN o._sluice_there THEN o.{name} ELSE {lacks} END"
        otherwise = f"CASE WHEN g._sluice_new THEN {defaults[column.name]} {there}"
        selected.append(f"{_value(column, 'g', otherwise)} AS {name}")
    same = " AND ".join(f"o.{quote(name)} = g.{_base(i)}" for i, name in enumerate(key))
    return (
        f"SELECT {', '.join(selected)}, 1 AS {OP} FROM {latest} AS g "  # noqa: S608
        f"LEFT JOIN (SELECT *, true AS _sluice_there FROM delta.{quote(path)}) AS o ON {same}"
    )


def _deletes(view: str, latest: str, columns: Sequence[LakeColumn], key: Sequence[str]) -> str:
    """A line for each key that no row has any more."""
    names = ", ".join(quote(name) for name in key)
    listed = ", ".join(
        quote(c.name) if c.name in key else f"CAST(NULL AS {c.type}) AS {quote(c.name)}" for c in columns
    )
    same = " AND ".join(f"d.{quote(name)} = g.{quote(name)}" for name in key)
    return (
        f"SELECT {listed}, 2 AS {OP} FROM (SELECT DISTINCT {names} FROM {view} WHERE {OP} IN (2, 3)) AS d "  # noqa: S608
        f"LEFT ANTI JOIN {latest} AS g ON {same}"
    )


def _value(column: LakeColumn, alias: str, otherwise: str) -> str:
    """A column's value where an image has it, else `otherwise`."""
    name = f"{alias}.{quote(column.name)}"
    return f"CASE WHEN {name} IS NOT NULL THEN {name}.value ELSE {otherwise} END"


def _base(number: int) -> str:
    return f"_sluice_base_{number}"
