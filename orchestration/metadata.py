"""Values for Dagster's pages: column schemas, what a batch did to a table, errors in three parts."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from cdc_core.binlog.columns.batch import arrow_type
from cdc_core.errors import SluiceError
from cdc_core.schema.table import Column, TableSchema
from cdc_core.session.claim import Claim
from spark_jobs.checks import TableResult
from spark_jobs.types import spark_type


def source_columns(schema: TableSchema) -> dg.TableSchema:
    """A table as MySQL declares it."""
    return _columns(schema, [column.column_type or "unknown" for column in schema.columns])


def lake_columns(schema: TableSchema) -> dg.TableSchema:
    """The same table as it is in Delta."""
    return _columns(schema, [spark_type(arrow_type(column)) for column in schema.columns])


def lag_seconds(execute_times: Sequence[tuple[int, int]], applied_at: float) -> dict[str, float]:
    """How long after their commits rows were applied: the least, the median and the most, by row."""
    if not execute_times:
        return {}
    oldest_first = sorted(execute_times)
    up_to = list(itertools.accumulate(count for _, count in oldest_first))
    middle = bisect.bisect_left(up_to, up_to[-1] / 2)
    commits = {"min": oldest_first[-1][0], "p50": oldest_first[middle][0], "max": oldest_first[0][0]}
    return {f"lag_seconds_{name}": max(0.0, round(applied_at - second, 3)) for name, second in commits.items()}


def of_batch(claim: Claim, result: TableResult, run_id: str) -> dict[str, Any]:
    """A materialization's metadata: one table in one batch. Numbers become plots."""
    facts: dict[str, Any] = {
        "rows": result.inserts + result.updates + result.deletes,
        "inserts": result.inserts,
        "updates": result.updates,
        "deletes": result.deletes,
        "net_rows": result.net_rows,
        "rows_inserted": result.inserted,
        "rows_updated": result.updated,
        "rows_deleted": result.deleted,
        "start_position": str(claim.start),
        "end_position": str(claim.end),
        "batch_id": claim.batch_id,
        "epoch": claim.epoch,
        "merge_seconds": round(result.merge_seconds, 3),
        "replayed": result.replayed,
        "run_id": run_id,
        **lag_seconds(claim.execute_times, result.applied_at),
    }
    if claim.end.gtid:
        facts["gtid"] = claim.end.gtid
    if result.delta_version is not None:
        facts["delta_version"] = result.delta_version
    if result.created or result.added_columns:
        facts["dagster/column_schema"] = lake_columns(_schema_of(claim, result.table))
    return facts


def of_error(error: SluiceError) -> dict[str, dg.MetadataValue[Any]]:
    """The three parts of an error."""
    parts = {key: text for key, text in error.as_dict().items() if text}
    return {key: dg.MetadataValue.text(text) for key, text in parts.items()}


def failure(error: SluiceError) -> dg.Failure:
    """What Dagster shows of an error that ends a run."""
    return dg.Failure(description=str(error), metadata=of_error(error), allow_retries=False)


def of_store(status: Mapping[str, Any], state: Mapping[str, Any]) -> dict[str, Any]:
    """An observation's metadata: the store as the service tells of it, and this client's place in it."""
    facts: dict[str, Any] = {
        "state": status["state"],
        "position": _text(status.get("position")),
        "cursor": _text(state.get("cursor")),
        "put": state["put"],
        "get": state["get"],
        "ack": state["ack"],
        "backlog_rows": state["backlog_rows"],
        "backlog_bytes": state["backlog_bytes"],
        "claims": len(state["claims"]),
        "rollbacks": state["rollbacks"],
        "epoch": state["epoch"],
        "stopped_tables": ", ".join(stop["table"] for stop in state["stopped"]) or "none",
    }
    if status.get("lag_seconds") is not None:
        facts["lag_seconds"] = float(status["lag_seconds"])
    if status.get("error"):
        facts["error"] = "{message} {place} {hint}".format_map({"place": "", **status["error"]})
    return facts


def _columns(schema: TableSchema, types: Sequence[str]) -> dg.TableSchema:
    columns = [_column(column, kind, schema.primary_key) for column, kind in zip(schema.columns, types, strict=True)]
    return dg.TableSchema(columns=columns)


def _column(column: Column, kind: str, primary_key: Sequence[str]) -> dg.TableColumn:
    constraints = dg.TableColumnConstraints(
        nullable=column.nullable,
        unique=tuple(primary_key) == (column.name,),
        other=["primary key"] if column.name in primary_key else [],
    )
    return dg.TableColumn(column.name, kind, description=column.comment or None, constraints=constraints)


def _schema_of(claim: Claim, table: str) -> TableSchema:
    return next(share.schema for share in claim.tables if share.name == table)


def _text(position: Mapping[str, Any] | None) -> str:
    return f"{position['journalName']}:{position['position']}" if position else "none"
