"""Counts what two tables differ in: by key where there is one, else as multisets. delta-rs reads both.

Up to a million rows are compared at once; more of them part by part, cut by a digest of the key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from cdc_core.errors import LakeError

_ROWS_AT_ONCE = 1_000_000


@dataclass(frozen=True, slots=True)
class Comparison:
    """`missing` rows are at the source alone, `extra` in the lake alone; `different` have one key and other values."""

    source_rows: int
    lake_rows: int
    missing: int
    extra: int
    different: int


def compare(
    source: DeltaTable, lake: DeltaTable | None, names: Sequence[str], key: Sequence[str], place: str
) -> Comparison:
    """Compares the columns `names`. A lake without the table misses every row."""
    builder = QueryBuilder().register("source", source)
    total = _one(builder, "SELECT count(*) AS n FROM source")["n"]
    if lake is None:
        return Comparison(total, 0, total, 0, 0)
    there = {field.name for field in lake.schema().fields}
    if there != set(names):
        odd = ", ".join(sorted(there ^ set(names)))
        hint = "Let the last batches through, or lift the table's stop and build it again."
        raise LakeError(f"source and lake have not the same columns: {odd}", place=place, hint=hint)
    builder.register("lake", lake)
    lake_rows = _one(builder, "SELECT count(*) AS n FROM lake")["n"]
    parts = _parts(max(total, lake_rows))
    found = [_one(builder, _question(names, key, part)) for part in _conditions(key or names, source, parts)]
    sums = {name: sum(row[name] or 0 for row in found) for name in ("missing", "extra", "different")}
    return Comparison(total, lake_rows, **sums)


def _parts(rows: int) -> int:
    return 1 if rows <= _ROWS_AT_ONCE else 16 if rows <= 16 * _ROWS_AT_ONCE else 256


def _conditions(columns: Sequence[str], table: DeltaTable, parts: int) -> list[str]:
    """One condition a part: the first digits of a digest, the same on both sides."""
    if parts == 1:
        return ["true"]
    kinds = {field.name: str(field.type.type) for field in table.schema().fields}
    texts = [f"coalesce({_as_text(_quote(name), kinds[name])}, '')" for name in columns]
    digits = 1 if parts == 16 else 2
    return [f"left(md5(concat({', '.join(texts)})), {digits}) = '{part:0{digits}x}'" for part in range(parts)]


def _as_text(quoted: str, kind: str) -> str:
    """Of a geometry, the one struct there is, its WKB: a digest need not tell all apart."""
    if kind == "struct":
        return f"encode({quoted}['wkb'], 'hex')"
    return f"encode({quoted}, 'hex')" if kind == "binary" else f"CAST({quoted} AS VARCHAR)"


def _question(names: Sequence[str], key: Sequence[str], where: str) -> str:
    return _by_key(names, key, where) if key else _by_copies(names, where)


def _by_key(names: Sequence[str], key: Sequence[str], where: str) -> str:
    same_key = " AND ".join(f"s.{_quote(name)} = l.{_quote(name)}" for name in key)
    others = [_differs(f"s.{_quote(name)}", f"l.{_quote(name)}") for name in names if name not in key]
    listed = ", ".join(map(_quote, names))
    # a key that is in the lake twice counts as extra: the first copy is compared, the others are too many
    ranked = f"row_number() OVER (PARTITION BY {', '.join(map(_quote, key))}) AS sluice_copy"
    return (
        "SELECT coalesce(sum(CASE WHEN l.sluice_copy IS NULL THEN 1 ELSE 0 END), 0) AS missing, "  # noqa: S608
        "coalesce(sum(CASE WHEN s.sluice_here IS NULL THEN 1 ELSE 0 END), 0) AS extra, "
        "coalesce(sum(CASE WHEN s.sluice_here IS NOT NULL AND l.sluice_copy IS NOT NULL "
        f"AND ({' OR '.join(others) or 'false'}) THEN 1 ELSE 0 END), 0) AS different "
        f"FROM (SELECT {listed}, 1 AS sluice_here FROM source WHERE {where}) AS s "
        f"FULL OUTER JOIN (SELECT {listed}, {ranked} FROM lake WHERE {where}) AS l "
        f"ON {same_key} AND s.sluice_here = l.sluice_copy"
    )


def _differs(one: str, other: str) -> str:
    """NULL is equal to NULL. (IS DISTINCT FROM says the same, but delta-rs cannot plan it for binary columns.)"""
    return f"coalesce({one} <> {other}, ({one} IS NULL) <> ({other} IS NULL))"


def _by_copies(names: Sequence[str], where: str) -> str:
    listed = ", ".join(map(_quote, names))
    both = (
        f"SELECT {listed}, 1 AS sluice_s, 0 AS sluice_l FROM source WHERE {where} UNION ALL "  # noqa: S608
        f"SELECT {listed}, 0 AS sluice_s, 1 AS sluice_l FROM lake WHERE {where}"
    )
    counted = f"SELECT sum(sluice_s) - sum(sluice_l) AS short FROM ({both}) AS b GROUP BY {listed}"  # noqa: S608
    return (
        "SELECT coalesce(sum(CASE WHEN short > 0 THEN short ELSE 0 END), 0) AS missing, "  # noqa: S608
        "coalesce(sum(CASE WHEN short < 0 THEN -short ELSE 0 END), 0) AS extra, 0 AS different "
        f"FROM ({counted}) AS c"
    )


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _one(builder: QueryBuilder, question: str) -> dict[str, int]:
    rows = pa.table(builder.execute(question).read_all()).to_pylist()
    return {name: int(value or 0) for name, value in rows[0].items()}
