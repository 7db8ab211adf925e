"""The SQL that applies one table's net changes: pure functions from names and counts to one statement.

Every statement is one Delta commit, so that it is skipped whole when its version is there already. `view` is a
temporary view over the net changes (docs/architecture.md, "Net changes").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spark_jobs.types import COUNT, OP, quote

FEWER_COPIES = "SLUICE_FEWER_COPIES"


def append_upserts(path: str, view: str, columns: Sequence[str]) -> str:
    """For a table that is empty: its deletes match nothing."""
    listed = ", ".join(map(quote, columns))
    return f"INSERT INTO delta.{quote(path)} ({listed}) SELECT {listed} FROM {view} WHERE {OP} = 1"  # noqa: S608


def append_copies(path: str, view: str, columns: Sequence[str]) -> str:
    """For a table without a key that only grows: each distinct row as often as it was added."""
    listed = ", ".join(map(quote, columns))
    rows = f"SELECT {listed}, explode(array_repeat(1, CAST({COUNT} AS INT))) FROM {view}"  # noqa: S608
    return f"INSERT INTO delta.{quote(path)} ({listed}) SELECT {listed} FROM ({rows})"  # noqa: S608


def merge_keyed(
    path: str, view: str, columns: Sequence[str], key: Sequence[str], counts: Mapping[str, Any], prune: bool
) -> str:
    """One MERGE by key. `prune`: the key is one integer, and the batch's range of it leaves files out."""
    condition = [f"t.{quote(name)} = s.{quote(name)}" for name in key]
    low, high = counts.get("min_key"), counts.get("max_key")
    if prune and low is not None and high is not None:
        condition.append(f"t.{quote(key[0])} BETWEEN {int(low)} AND {int(high)}")
    clauses = []
    if not counts["insert_only"]:
        if counts["deletes"]:
            clauses.append(f"WHEN MATCHED AND s.{OP} = 2 THEN DELETE")
        sets = ", ".join(f"t.{quote(name)} = s.{quote(name)}" for name in columns)
        clauses.append(f"WHEN MATCHED THEN UPDATE SET {sets}")
    only = f" AND s.{OP} = 1" if counts["deletes"] else ""
    clauses.append(f"WHEN NOT MATCHED{only} THEN {_insert(columns)}")
    return f"MERGE INTO delta.{quote(path)} AS t USING {view} AS s ON {' AND '.join(condition)} {' '.join(clauses)}"


def merge_copies(path: str, view: str, columns: Sequence[str]) -> str:
    """One MERGE for a table without a key: a row that lost copies loses all of them and gets the rest back.

    Rows are equal when all columns are, NULL equal to NULL. More copies taken than there are fails with FEWER_COPIES.
    """
    listed = ", ".join(f"n.{quote(name)}" for name in columns)
    same = " AND ".join(f"n.{quote(name)} <=> l.{quote(name)}" for name in columns)
    counted = (
        f"SELECT {listed}, n.{COUNT} AS _sluice_net, count(l._sluice_one) AS _sluice_have "  # noqa: S608
        f"FROM {view} AS n LEFT JOIN (SELECT *, 1 AS _sluice_one FROM delta.{quote(path)}) AS l "
        f"ON n.{COUNT} < 0 AND {same} GROUP BY {listed}, n.{COUNT}"
    )
    short = f"raise_error(concat('{FEWER_COPIES}: ', _sluice_have, ' in the lake, ', -_sluice_net, ' deleted'))"
    copies = (
        f"CASE WHEN _sluice_have + _sluice_net < 0 THEN CAST({short} AS INT) "
        "ELSE CAST(_sluice_have + _sluice_net AS INT) END"
    )
    gone = "CASE WHEN _sluice_net < 0 THEN array(2) ELSE CAST(array() AS ARRAY<INT>) END"
    plain = ", ".join(map(quote, columns))
    source = f"SELECT {plain}, explode(concat({gone}, array_repeat(1, {copies}))) AS {OP} FROM ({counted})"  # noqa: S608
    matches = " AND ".join(f"t.{quote(name)} <=> s.{quote(name)}" for name in columns)
    return (
        f"MERGE INTO delta.{quote(path)} AS t USING ({source}) AS s ON s.{OP} = 2 AND {matches} "
        f"WHEN MATCHED THEN DELETE WHEN NOT MATCHED AND s.{OP} = 1 THEN {_insert(columns)}"
    )


def _insert(columns: Sequence[str]) -> str:
    names = ", ".join(map(quote, columns))
    values = ", ".join(f"s.{quote(name)}" for name in columns)
    return f"INSERT ({names}) VALUES ({values})"  # noqa: S608
