"""The SQL of cascades, and the rows that they have seen: pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from spark_jobs.lake.equality import beyond_ascii, references, spelled_alike
from spark_jobs.lake.own_columns import Own
from spark_jobs.lake.sql import quote
from spark_jobs.snapshot.literals import plain
from spark_jobs.snapshot.source_rows import Touched

KEYS, FIXED, GONE, THERE = "sluice_keys", "sluice_fixed", "_sluice_gone", "_sluice_there"


def referencing(
    rows: str, listed: Sequence[str], pairs: Sequence[tuple[str, str, str]], most: int, *, zero_dates: bool
) -> str:
    """A query for at most `most` of a child's `rows` that may reference one of the keys. `pairs`: the foreign key's
    columns, what they reference, and their types. Texts beyond ASCII are compared one by one, others by a hash."""
    sides = [(f"c.{quote(a)}", f"k.{quote(b)}", kind) for a, b, kind in pairs]
    loosely = " AND ".join(references(*side, zero_dates=zero_dates) for side in sides)
    joins = [(rows, KEYS, loosely)]
    if all(kind == "string" for *_, kind in pairs):
        odd, odd_keys = (" OR ".join(beyond_ascii(quote(pair[n])) for pair in pairs) for n in (0, 1))
        joins = [
            (rows, KEYS, " AND ".join(spelled_alike(*side) for side in sides)),
            (f"(SELECT * FROM {rows} WHERE {odd})", KEYS, loosely),  # noqa: S608
            (rows, f"(SELECT * FROM {KEYS} WHERE {odd_keys})", loosely),  # noqa: S608
        ]
    names = ", ".join(f"c.{quote(name)}" for name in listed)
    found = " UNION ".join(f"SELECT {names} FROM {one} c LEFT SEMI JOIN {keys} k ON {on}" for one, keys, on in joins)  # noqa: S608
    return f"SELECT * FROM ({found}) LIMIT {most}"  # noqa: S608


def corrections(found: pa.Table, primary_key: Sequence[str], touched: Touched) -> pa.Table:
    """Returns the source of `merge`: the `touched` rows among the `found` ones."""
    fixed = found.take(pa.array(touched.rows, pa.int64())).select(list(primary_key))
    fixed = fixed.append_column(GONE, pa.array(touched.gone, pa.bool_()))
    fixed = fixed.append_column(THERE, pa.array(touched.there, pa.bool_()))
    for at, values in enumerate(touched.values.columns):
        fixed = fixed.append_column(f"_sluice_new_{at}", values)
    return fixed


def merge(path: str, primary_key: Sequence[str], columns: Sequence[str], references: int, own: Own) -> str:
    """Returns the MERGE. The first `references` of `columns` are the foreign key's. The generated columns after them
    keep their values in a row that the source no longer has. Cascades have no place in the binlog, so it stays NULL."""
    joined = " AND ".join(f"t.{quote(name)} <=> s.{quote(name)}" for name in primary_key)
    values = [f"s._sluice_new_{at}" for at in range(len(columns))]
    values[references:] = [
        f"IF(s.{THERE}, {value}, t.{quote(name)})"
        for name, value in zip(columns[references:], values[references:], strict=True)
    ]
    changed = [f"t.{quote(name)} = {value}" for name, value in zip(columns, values, strict=True)]
    sets = ", ".join([*changed, *_last_change(own, "update")])
    gone = f"UPDATE SET {', '.join(_last_change(own, 'delete'))}" if own.soft else "DELETE"
    return (
        f"MERGE INTO delta.{quote(path)} t USING {FIXED} s ON {joined} WHEN MATCHED AND s.{GONE} THEN {gone} "
        f"WHEN MATCHED THEN UPDATE SET {sets}"
    )


def _last_change(own: Own, op: str) -> list[str]:
    return [f"t.{name} = {value}" for name, value in own.last_change(op).items()]


def without(found: pa.Table, primary_key: Sequence[str], seen: set[tuple[Any, ...]]) -> pa.Table:
    """The rows whose keys are not in `seen`, to which they are added."""
    keys = list(zip(*(plain(found[name]) for name in primary_key), strict=True))
    rows = found.filter(pa.array([key not in seen for key in keys], pa.bool_()))
    seen.update(keys)
    return rows
