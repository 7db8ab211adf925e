"""What Dagster shows of a table: its column schema, and what a batch did to it."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from cdc_core.contract.claim import Claim
from cdc_core.rows.columns.batch import arrow_type
from cdc_core.rules.expressions import expression
from cdc_core.schema.table import Column, TableSchema
from orchestration.assets.batch_seconds import SECONDS, batch_seconds
from spark_jobs.apply.result import Followed, TableResult
from spark_jobs.lake.types import spark_type
from spark_jobs.union.publish import Published

COLUMN_LINEAGE = "dagster/column_lineage"


def source_columns(schema: TableSchema) -> dg.TableSchema:
    """A table as MySQL declares it."""
    return _columns(schema, [column.column_type or "unknown" for column in schema.shown])


def lake_columns(schema: TableSchema) -> dg.TableSchema:
    """A table as it is in Delta."""
    return _columns(schema, [spark_type(arrow_type(column)) for column in schema.shown])


def lag_seconds(execute_times: Sequence[tuple[int, int]], applied_at: float) -> dict[str, float]:
    """The seconds from commit at the source to `applied_at`: least, median and most, over rows."""
    if not execute_times:
        return {}
    oldest_first = sorted(execute_times)
    up_to = list(itertools.accumulate(count for _, count in oldest_first))
    middle = bisect.bisect_left(up_to, up_to[-1] / 2)
    commits = {"min": oldest_first[-1][0], "p50": oldest_first[middle][0], "max": oldest_first[0][0]}
    return {f"lag_seconds_{name}": max(0.0, round(applied_at - second, 3)) for name, second in commits.items()}


def column_lineage(schema: TableSchema, source: dg.AssetKey) -> dg.TableColumnLineage:
    """Returns of which columns of `source`, its table in MySQL, each column of a Delta table is made."""
    names = {column.source_name.lower(): column.source_name for column in schema.stored}
    return dg.TableColumnLineage(
        {column.name: [dg.TableColumnDep(source, name) for name in _made_of(column, names)] for column in schema.shown}
    )


def batch_metadata(
    claim: Claim, result: TableResult, run_id: str, source: dg.AssetKey, acked_at: float
) -> dict[str, Any]:
    """The metadata of one table's materialization in one batch, which was acked at the second `acked_at` since the
    epoch. Dagster plots the numbers. `source`: its asset in MySQL. Columns and their lineage are there when the batch
    changed them."""
    counts, commit = result.source, result.commit
    facts: dict[str, Any] = {
        "rows": counts.inserts + counts.updates + counts.deletes,
        "inserts": counts.inserts,
        "updates": counts.updates,
        "deletes": counts.deletes,
        "net_rows": counts.net_rows,
        "rows_inserted": commit.inserted if commit else 0,
        "rows_updated": commit.updated if commit else 0,
        "rows_deleted": commit.deleted if commit else 0,
        "start_position": str(claim.start),
        "end_position": str(claim.end),
        "batch_id": claim.batch_id,
        "epoch": claim.epoch,
        "merge_seconds": round(result.merge_seconds, 3),
        "replayed": result.replayed,
        "run_id": run_id,
        **lag_seconds(claim.execute_times, result.applied_at),
    }
    if seconds := batch_seconds(claim, result.planned_at, result.applied_at, acked_at):
        facts[SECONDS] = seconds
    if result.expected:
        facts["bad_rows"] = sum(one.bad for one in result.expected)
        facts["quarantined_rows"] = max(one.waiting for one in result.expected)
    if claim.end.gtid:
        facts["gtid"] = str(claim.end.gtid)
    if result.engine:
        facts["engine"] = result.engine
    if result.delta_version is not None:
        facts["delta_version"] = result.delta_version
    if result.created or result.added_columns:
        schema = _schema(claim, result.table)
        facts |= {"dagster/column_schema": lake_columns(schema), COLUMN_LINEAGE: column_lineage(schema, source)}
    return facts


def union_metadata(published: Published, run_id: str) -> dict[str, Any]:
    """The metadata of a union's materialization."""
    files = {"files_added": published.added, "files_removed": published.removed}
    return {"delta_version": published.version or 0, **files, "run_id": run_id}


def ddl_metadata(followed: Sequence[Followed]) -> dict[str, dict[str, Any]]:
    """By table, the metadata of a materialization that followed DDL statements: the last one's kind, and all texts."""
    by_table: dict[str, list[Followed]] = {}
    for one in followed:
        by_table.setdefault(one.table, []).append(one)
    return {
        table: {
            "ddl": str(each[-1].kind),
            "ddl_position": str(each[-1].position),
            "ddl_statements": [f"{one.position}: {one.text} ({one.outcome})" for one in each],
        }
        for table, each in by_table.items()
    }


def _made_of(column: Column, names: Mapping[str, str]) -> list[str]:
    """Returns the source's columns that a column has its values of, by the source's names in lower case."""
    if column.rule is None or not column.rule.expression:
        return [column.source_name]
    return [names[name] for name in expression(column.rule.expression).columns if name in names]


def _columns(schema: TableSchema, types: Sequence[str]) -> dg.TableSchema:
    columns = [_column(column, kind, schema.primary_key) for column, kind in zip(schema.shown, types, strict=True)]
    return dg.TableSchema(columns=columns)


def _column(column: Column, kind: str, primary_key: Sequence[str]) -> dg.TableColumn:
    constraints = dg.TableColumnConstraints(
        nullable=column.nullable,
        unique=tuple(primary_key) == (column.name,),
        other=["primary key"] if column.name in primary_key else [],
    )
    return dg.TableColumn(column.name, kind, description=column.comment or None, constraints=constraints)


def _schema(claim: Claim, table: str) -> TableSchema:
    return next(share.schema for share in claim.tables if share.name == table)
