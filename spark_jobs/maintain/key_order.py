"""`KeyOrder`: rewrites a large table's rows in the order of its key, one range of keys a commit.

A MERGE then finds the rows of a range of keys in few files. Each commit replaces the rows of a range by the same rows,
as Delta saw them when the commit's transaction began. Delta refuses it if another writer changed these files
meanwhile, and refuses a MERGE that read them before. The rows of files that reach beyond the range are marked as
deleted there. No property and no txnVersion changes. Delta takes such a commit for a change of the data, so a table
with a change data feed, whose readers would get all rows again, is left as it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql.connect.functions import col

from spark_jobs.lake.failures import lake_errors
from spark_jobs.lake.features import CHANGE_FEED, is_on
from spark_jobs.lake.layout import Layout
from spark_jobs.lake.sql import literal, quote
from spark_jobs.lake.state import UPKEEP, TableState
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.transaction import is_conflict
from spark_jobs.maintain.slices import AS_SHIPPED, Key, KeyFile, Plan, RewriteLimits, Slice, plan
from spark_jobs.session import Sessions

_SAMPLE = 50_000  # keys
_KINDS = ("tinyint", "smallint", "int", "bigint", "decimal", "string", "date")  # with bounds that SQL can spell


@dataclass(frozen=True, slots=True)
class KeyOrder:
    """Rewrites tables of a lake in the order of their keys."""

    lake: Lake
    sessions: Sessions
    limits: RewriteLimits = AS_SHIPPED

    def files(self, path: str, state: TableState) -> dict[str, KeyFile]:
        """Returns by name the files of a table that has a key with an order. Empty if no file has statistics of it, for
        a table that is not large, that is partitioned or clustered, or has a change data feed. Raises what delta-rs
        raises."""
        kind = next((one.type for one in state.columns if one.name == next(iter(state.primary_key), None)), "")
        if not kind.startswith(_KINDS) or is_on(state.properties, CHANGE_FEED):
            return {}
        layout = Layout.of(state.properties)
        if layout.cluster_by or layout.partition_by:
            return {}
        actions = pa.table(self.lake.open(path).get_add_actions(flatten=True))
        low, high = f"min.{state.primary_key[0]}", f"max.{state.primary_key[0]}"
        if low not in actions.column_names or sum(actions.column("size_bytes").to_pylist()) < self.limits.ordered:
            return {}
        return {one.name: one for one in _spanned([_file(one, low, high) for one in actions.to_pylist()])}

    def plan(self, path: str, state: TableState, files: Mapping[str, KeyFile]) -> Plan:
        """Returns the slices out of order, by a sample of the table's keys. Raises LakeError."""
        rows = pc.sum(pa.table(self.lake.open(path).get_add_actions()).column("num_records")).as_py() or 0
        key = ", ".join(map(quote, state.primary_key))
        share = min(1.0, _SAMPLE / max(rows, 1))
        asked = f"SELECT {key}, input_file_name() FROM delta.{quote(path)} WHERE rand() < {share}"  # noqa: S608
        with self.sessions.take() as spark, lake_errors(path):
            found = spark.sql(asked).toArrow()
        columns = [column.to_pylist() for column in found.columns]
        sample: list[tuple[Key, str]] = [
            (tuple(key), name.rpartition("/")[2]) for *key, name in zip(*columns, strict=True)
        ]
        return plan(sample, files, self.limits, share)

    def rewrite(self, path: str, state: TableState, part: Slice) -> bool:
        """Rewrites a slice. Returns False if another run wrote it meanwhile: then nothing was changed. Raises
        LakeError."""
        there, key = _within(state.primary_key[0], part), [col(quote(name)) for name in state.primary_key]
        files = max(1, round(part.size / self.limits.file))
        note = json.dumps({UPKEEP: "key_order"})
        options = {"replaceWhere": there, "userMetadata": note}
        with self.sessions.take() as spark, lake_errors(path):
            rows = spark.read.format("delta").load(path).where(there)
            rows = rows.repartitionByRange(files, *key).sortWithinPartitions(*key)
            try:
                rows.write.format("delta").mode("overwrite").options(**options).save(path)
            except PySparkException as error:
                if is_conflict(error):
                    return False
                raise
        return True


@dataclass(frozen=True, slots=True)
class Reorder:
    """The work of one slice."""

    order: KeyOrder
    path: str
    state: TableState
    part: Slice

    def __call__(self) -> bool:
        return self.order.rewrite(self.path, self.state, self.part)


def _file(action: dict[str, Any], low: str, high: str) -> KeyFile:
    name = action["path"].rpartition("/")[2]
    return KeyFile(name, action[low], action[high], action["size_bytes"], action["num_records"] or 0)


def _spanned(files: Sequence[KeyFile]) -> list[KeyFile]:
    """Returns the files with their bounds. One without statistics is read by every search: it spans all keys."""
    known = [one for one in files if one.low is not None and one.high is not None]
    if not known:
        return []
    low, high = min(one.low for one in known), max(one.high for one in known)
    return [one if one in known else replace(one, low=low, high=high) for one in files]


def _within(column: str, part: Slice) -> str:
    """The condition for a slice's rows. A key is never NULL."""
    parts = [] if part.low is None else [f"{quote(column)} >= {_literal(part.low)}"]
    parts += [] if part.high is None else [f"{quote(column)} < {_literal(part.high)}"]
    return " AND ".join(parts) or f"{quote(column)} IS NOT NULL"


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return literal(value)
    if isinstance(value, date):
        return f"DATE'{value.isoformat()}'"
    return f"{value}BD" if isinstance(value, Decimal) else f"{value:d}"
