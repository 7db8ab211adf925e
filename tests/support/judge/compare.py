"""Counts how two tables differ: by key where there is one, else as multisets. delta-rs reads both.

Up to a million rows are compared at once; larger tables in parts, cut by a digest of the key.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from cdc_core.errors import LakeError
from spark_jobs.lake.own_columns import Own
from spark_jobs.verify.verified import Comparison

_ROWS_AT_ONCE = 1_000_000
_FLOATS = ("float", "double")


def compare(
    source: DeltaTable,
    lake: DeltaTable | None,
    names: Sequence[str],
    key: Sequence[str],
    place: str,
    *,
    waits: bool = False,
) -> Comparison:
    """Compares the living rows, in the columns `names` that both have. Every row is missing from a lake without the
    table.

    Rows whose key has a zero date are NULL there on both sides, so that two of them may have one key: the table is then
    compared as if it had no key. Raises LakeError when the two share no column, unless the lake's table is empty and
    `waits` for a row that brings the columns.
    """
    builder = QueryBuilder()
    _register(builder, "source", source)
    total = _one(builder, "SELECT count(*) AS n FROM source")["n"]
    if lake is None:
        return Comparison(total, 0, total, 0, 0)
    there = {field.name for field in lake.schema().fields}
    names = [name for name in names if name in there]
    _register(builder, "lake", lake)
    lake_rows = _one(builder, "SELECT count(*) AS n FROM lake")["n"]
    if not names and waits and not lake_rows:
        return Comparison(total, 0, total, 0, 0)
    if not names:
        raise LakeError(
            "source and lake share no column", place=place, hint="Reload the table from the source: sluice copy."
        )
    if not there.issuperset(key) or _has_null(builder, key):
        key = ()
    parts = _parts(max(total, lake_rows))
    floats = {field.name for field in source.schema().fields if str(field.type.type) in _FLOATS}
    found = [_one(builder, _question(names, key, floats, part)) for part in _conditions(key or names, source, parts)]
    sums = {name: sum(row[name] or 0 for row in found) for name in ("missing", "extra", "different")}
    return Comparison(total, lake_rows, **sums)


def _register(builder: QueryBuilder, name: str, table: DeltaTable) -> None:
    own = Own.of_table(table)
    builder.register(f"{name}_whole" if own else name, table)
    if own:
        builder.execute(f"CREATE VIEW {name} AS SELECT * FROM {name}_whole WHERE {own.living}").read_all()


def _has_null(builder: QueryBuilder, key: Sequence[str]) -> bool:
    null = " OR ".join(f"{_quote(name)} IS NULL" for name in key)
    return any(
        _one(builder, f"SELECT count(*) AS n FROM {side} WHERE {null or 'false'}")["n"] for side in ("source", "lake")
    )


def _parts(rows: int) -> int:
    return 1 if rows <= _ROWS_AT_ONCE else 16 if rows <= 16 * _ROWS_AT_ONCE else 256


def _conditions(columns: Sequence[str], table: DeltaTable, parts: int) -> list[str]:
    """A condition for each part: the first digits of a digest, the same on both sides."""
    if parts == 1:
        return ["true"]
    kinds = {field.name: str(field.type.type) for field in table.schema().fields}
    texts = [f"coalesce({_as_text(_quote(name), kinds[name])}, '')" for name in columns]
    digits = 1 if parts == 16 else 2
    return [f"left(md5(concat({', '.join(texts)})), {digits}) = '{part:0{digits}x}'" for part in range(parts)]


def _as_text(quoted: str, kind: str) -> str:
    """A geometry, the only struct, is cut by its WKB: equal digests of unequal rows do no harm."""
    if kind == "struct":
        return f"encode({quoted}['wkb'], 'hex')"
    return f"encode({quoted}, 'hex')" if kind == "binary" else f"CAST({quoted} AS VARCHAR)"


def _question(names: Sequence[str], key: Sequence[str], floats: Collection[str], where: str) -> str:
    return _by_key(names, key, floats, where) if key else _by_copies(names, floats, where)


def _by_key(names: Sequence[str], key: Sequence[str], floats: Collection[str], where: str) -> str:
    same_key = " AND ".join(f"s.{_quote(name)} = l.{_quote(name)}" for name in key)
    others = [_differs(f"s.{_quote(name)}", f"l.{_quote(name)}") for name in names if name not in key]
    others += [f"{_zero(f's.{_quote(name)}')} <> {_zero(f'l.{_quote(name)}')}" for name in names if name in floats]
    listed = ", ".join(map(_quote, names))
    # of a key that is in the lake twice the first copy is compared, the others are extra
    ranked = f"row_number() OVER (PARTITION BY {', '.join(map(_quote, key))}) AS sluice_copy"
    return (
        "SELECT coalesce(sum(CASE WHEN l.sluice_copy IS NULL THEN 1 ELSE 0 END), 0) AS missing, "
        "coalesce(sum(CASE WHEN s.sluice_here IS NULL THEN 1 ELSE 0 END), 0) AS extra, "
        "coalesce(sum(CASE WHEN s.sluice_here IS NOT NULL AND l.sluice_copy IS NOT NULL "
        f"AND ({' OR '.join(others) or 'false'}) THEN 1 ELSE 0 END), 0) AS different "
        f"FROM (SELECT {listed}, 1 AS sluice_here FROM source WHERE {where}) AS s "
        f"FULL OUTER JOIN (SELECT {listed}, {ranked} FROM lake WHERE {where}) AS l "
        f"ON {same_key} AND s.sluice_here = l.sluice_copy"
    )


def _differs(one: str, other: str) -> str:
    """NULL equals NULL. (IS DISTINCT FROM says the same, but delta-rs cannot plan it for binary columns.)"""
    return f"coalesce({one} <> {other}, ({one} IS NULL) <> ({other} IS NULL))"


def _zero(quoted: str) -> str:
    """The text of 0.0 or -0.0, which SQL takes for equal; empty for other numbers."""
    return f"CASE WHEN {quoted} = 0 THEN CAST({quoted} AS VARCHAR) ELSE '' END"


def _by_copies(names: Sequence[str], floats: Collection[str], where: str) -> str:
    listed = ", ".join(map(_quote, names))
    groups = ", ".join([listed, *(_zero(_quote(name)) for name in names if name in floats)])
    both = (
        f"SELECT {listed}, 1 AS sluice_s, 0 AS sluice_l FROM source WHERE {where} UNION ALL "
        f"SELECT {listed}, 0 AS sluice_s, 1 AS sluice_l FROM lake WHERE {where}"
    )
    counted = f"SELECT sum(sluice_s) - sum(sluice_l) AS short FROM ({both}) AS b GROUP BY {groups}"
    return (
        "SELECT coalesce(sum(CASE WHEN short > 0 THEN short ELSE 0 END), 0) AS missing, "
        "coalesce(sum(CASE WHEN short < 0 THEN -short ELSE 0 END), 0) AS extra, 0 AS different "
        f"FROM ({counted}) AS c"
    )


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _one(builder: QueryBuilder, question: str) -> dict[str, int]:
    rows = pa.table(builder.execute(question).read_all()).to_pylist()
    return {name: int(value or 0) for name, value in rows[0].items()}
