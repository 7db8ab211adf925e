"""`RowRepair`: replaces the rows of the lake that differ from the source's, in one commit under a held claim.

The table is at the same place before and after (`Rewrite`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql.connect.session import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from cdc_core.errors import LakeError, TableStopped
from cdc_core.rows.columns.batch import arrow_fields
from cdc_core.schema.table import TableSchema
from spark_jobs.lake.own_columns import DELETED, Own
from spark_jobs.lake.remedy import copy_hint
from spark_jobs.lake.sql import quote
from spark_jobs.lake.state import DeltaCommit
from spark_jobs.lake.types import OP
from spark_jobs.landing.parked import Parking
from spark_jobs.load.replacement import Target
from spark_jobs.load.result import LakeClient, WentOn
from spark_jobs.load.rewrite import Rewrite
from spark_jobs.session import Sessions
from spark_jobs.verify.audit import Differences, Settle, differing
from spark_jobs.verify.row_text import lake_text
from spark_jobs.verify.standing import ComparedTable, ExpectedRows, Moving

_VIEW = "sluice_repair"
_ADDED, _GONE = 1, 2  # of OP: a row that the lake must have, and a key whose rows are deleted


@dataclass(frozen=True, slots=True)
class RowRepair:
    """Repairs tables of one client. `run_id` is written into the commits."""

    sessions: Sessions
    run_id: str = ""

    def of(self, place: ComparedTable) -> Settle:
        """Returns the function that repairs the rows of one table."""

        connector = place.connector
        parking = Parking(place.lake, connector.destination, connector.client_id)

        def settle(standing: ExpectedRows, differences: Differences) -> bool:
            with parking.turn(place.schema.name):
                self._repair(place, standing, differences)
            return True

        return settle

    def _repair(self, place: ComparedTable, standing: ExpectedRows, differences: Differences) -> None:
        """Replaces the rows. Raises Moving if another run wrote the table meanwhile, TableStopped for a table that is
        stopped or refuses the rows, LakeError for a table that was repaired too often at one place."""
        check_takes_changes(place)
        state, name, path = standing.state, place.schema.name, place.path
        state.check_owner(place.connector.destination, name, path)
        state.check_form(name)
        client = LakeClient(place.connector.destination, place.connector.client_id, standing.epoch, self.run_id)
        target = Target.fenced(place.lake, self.sessions, client, name)
        try:
            rewrite = Rewrite.begun(target, self.sessions, state.applied or 0)
            if rewrite.state.columns != state.columns:
                raise WentOn(path)
            about = rewrite.about("repair", _facts(place, standing, differences, self.run_id))
            standing.hold.check()
            rewrite.check()
            rows = _rows(place.schema, differences, rewrite.state.own)
            made = _commit(rewrite, place.schema, rows, about)
        except WentOn as error:
            raise Moving("a run wrote the table meanwhile", place=path, hint="Repair it again.") from error
        _check(place, replace(standing, state=replace(rewrite.state, version=made.version)), differences)


def _check(place: ComparedTable, standing: ExpectedRows, found: Differences) -> None:
    """Looks at the rows once more. Raises LakeError if they are not as written."""
    key = place.schema.primary_key
    keys = {text for batch in (*found.wrong, *found.right) for text in lake_text(batch, key).to_pylist()}
    if left := differing(place, standing, keys):
        hint = copy_hint(place.connector.destination, place.schema.name)
        raise LakeError(f"{left.rows} rows still differ after their repair", place=place.path, hint=hint)


def check_takes_changes(place: ComparedTable) -> None:
    """Raises TableStopped for a table that is stopped: its rows in the lake have no place."""
    for stop in place.connector.client_status().stopped:
        if stop.table == place.schema.name:
            raise TableStopped(f"the table is stopped: {stop.reason}", place=stop.table, hint=stop.hint)


def _facts(place: ComparedTable, standing: ExpectedRows, found: Differences, run_id: str) -> dict[str, Any]:
    """Returns the fields of the commit's user metadata."""
    counts = {"missing": found.missing, "extra": found.extra, "different": found.different}
    about = {"table": place.schema.name, "place": str(standing.place), "epoch": standing.epoch}
    return {**about, **counts, "run_id": run_id}


def _commit(rewrite: Rewrite, schema: TableSchema, rows: pa.Table, about: str) -> DeltaCommit:
    def merged(spark: SparkSession) -> None:
        types = from_arrow_schema(rows.schema, prefer_timestamp_ntz=True)
        spark.createDataFrame(rows, types).createOrReplaceTempView(_VIEW)
        spark.sql(statement(rewrite.target.path, schema)).collect()

    return rewrite.commit(about, merged, _refusal(rewrite.target.path))


def statement(path: str, schema: TableSchema) -> str:
    """Returns one MERGE: all rows of each key are deleted, however many there are, and the right row is added."""
    names = [quote(column.name) for column in schema.shown]
    same = " AND ".join(f"t.{quote(name)} = s.{quote(name)}" for name in schema.primary_key)
    return (
        f"MERGE INTO delta.{quote(path)} AS t USING {_VIEW} AS s ON s.{OP} = {_GONE} AND {same} "  # noqa: S608
        f"WHEN MATCHED THEN DELETE WHEN NOT MATCHED AND s.{OP} = {_ADDED} "
        f"THEN INSERT ({', '.join(names)}) VALUES ({', '.join(f's.{name}' for name in names)})"
    )


def _rows(schema: TableSchema, found: Differences, own: Own) -> pa.Table:
    """Returns the source of the statement: the keys whose rows are deleted, and the rows that are added. If the table
    may have soft-deleted rows, the deleted row of a key that must have a row is removed too."""
    revived: Sequence[pa.RecordBatch] = ()
    if DELETED in own.names:
        revived, key = found.right, schema.primary_key
        keys = {text for batch in revived for text in lake_text(batch, key).to_pylist()}
        found = replace(found, wrong=tuple(one for one in found.wrong if lake_text(one, key)[0].as_py() not in keys))
    parts = [_part(schema, found.wrong, _GONE), _part(schema, revived, _GONE), _part(schema, found.right, _ADDED)]
    return pa.concat_tables([part for part in parts if part is not None])


def _part(schema: TableSchema, batches: Sequence[pa.RecordBatch], kind: int) -> pa.Table | None:
    if not batches:
        return None
    fields = [pa.field(f.name, _plain(f.type)) for f in arrow_fields(schema)]
    names = [field.name for field in fields] if kind == _ADDED else [*schema.primary_key]
    rows = pa.Table.from_batches([batch.select(names) for batch in batches])
    columns = [
        rows.column(field.name).cast(field.type)
        if kind == _ADDED or field.name in schema.primary_key
        else pa.nulls(rows.num_rows, field.type)
        for field in fields
    ]
    ops = pa.array([kind] * rows.num_rows, pa.int8())
    return pa.Table.from_arrays([*columns, ops], schema=pa.schema([*fields, pa.field(OP, pa.int8())]))


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pt.is_dictionary(kind) else kind


def _refusal(path: str) -> str:
    return (
        "The Delta table refuses rows that the source has. Remove the constraint or NOT NULL (ALTER TABLE "
        f"delta.{quote(path)} DROP CONSTRAINT ..., or ALTER COLUMN ... DROP NOT NULL), then repair the table again."
    )
