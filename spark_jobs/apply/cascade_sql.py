"""The SQL of cascades, and the rows that they have seen: pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from spark_jobs.lake.own_columns import Own
from spark_jobs.lake.sql import quote

KEYS, FIXED, GONE = "sluice_keys", "sluice_fixed", "_sluice_gone"


def merge(path: str, primary_key: Sequence[str], columns: Sequence[str], own: Own) -> str:
    """What cascades do has no place in the binlog, so none is told."""
    joined = " AND ".join(f"t.{quote(name)} <=> s.{quote(name)}" for name in primary_key)
    changed = [f"t.{quote(name)} = s._sluice_new_{at}" for at, name in enumerate(columns)]
    sets = ", ".join([*changed, *_told(own, "update")])
    gone = f"UPDATE SET {', '.join(_told(own, 'delete'))}" if own.soft else "DELETE"
    return (
        f"MERGE INTO delta.{quote(path)} t USING {FIXED} s ON {joined} WHEN MATCHED AND s.{GONE} THEN {gone} "
        f"WHEN MATCHED THEN UPDATE SET {sets}"
    )


def _told(own: Own, op: str) -> list[str]:
    return [f"t.{name} = {value}" for name, value in own.last_change(op).items()]


def without(found: pa.Table, primary_key: Sequence[str], seen: set[tuple[Any, ...]]) -> pa.Table:
    """The rows whose keys are not in `seen`, to which they are added."""
    keys = [tuple(row.values()) for row in found.select(list(primary_key)).to_pylist()]
    rows = found.filter(pa.array([key not in seen for key in keys], pa.bool_()))
    seen.update(keys)
    return rows
