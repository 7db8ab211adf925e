"""`RowRepair`: the rows of the lake that differ from the source's are brought right, in one commit under a held claim.

The commit carries the app id of the table's batches and the number behind the last batch's version, at which no event
ends: a note in the table's properties says that it means that version. So Delta skips or refuses the commit when a
batch was written since the rows were compared, and the next batch finds the table where it was. Killed anywhere it is
done again: the rows are right, or as they were.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from cdc_core.errors import LakeError, TableStopped
from cdc_core.rows.columns.batch import arrow_fields
from cdc_core.schema.table import TableSchema
from spark_jobs.copy.commit import CONFLICTS
from spark_jobs.lake.failures import lake_errors
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.own_columns import DELETED, Own
from spark_jobs.lake.record import REPAIRS, Mark, marked_property
from spark_jobs.lake.remedy import copy_hint
from spark_jobs.lake.sql import quote
from spark_jobs.lake.state import TableState, app_id
from spark_jobs.lake.transaction import transaction
from spark_jobs.lake.types import OP
from spark_jobs.session import Sessions
from spark_jobs.verify.audit import Differences, Settle, differing
from spark_jobs.verify.row_text import lake_text
from spark_jobs.verify.standing import ComparedTable, ExpectedRows, Moving

_VIEW = "sluice_repair"
_ADDED, _GONE = 1, 2  # of OP: a row that the lake must have, and a key whose rows go


@dataclass(frozen=True, slots=True)
class RowRepair:
    """For tables of one client. `run_id` is told in the commits."""

    sessions: Sessions
    run_id: str = ""

    def of(self, place: ComparedTable) -> Settle:
        """What brings the rows of one table right."""

        def settle(standing: ExpectedRows, differences: Differences) -> bool:
            self._repair(place, standing, differences)
            return True

        return settle

    def _repair(self, place: ComparedTable, standing: ExpectedRows, differences: Differences) -> None:
        """Raises Moving where somebody wrote the table meanwhile, TableStopped for a table that is stopped or that
        refuses the rows, LakeError for one that was repaired too often at one place."""
        lake, path = place.lake, place.path
        check_takes_changes(place)
        app, mark = _mark(place, standing)
        standing.state.check_owner(place.connector.destination, place.schema.name, path)
        standing.state.check_form(place.schema.name)
        fence = Fence(lake, self.sessions)
        after = fence.enter(path, app, standing.state, marked_property(standing.state.properties, mark))
        _check_same(standing, after, path)
        about = _about(place, standing, differences, self.run_id, fence.token)
        standing.hold.check()
        fence.check(path)
        with self.sessions.take() as spark, lake_errors(path, _refusal(path)):
            _commit(spark, path, place.schema, _rows(place.schema, differences, after.own), (app, mark.upto), about)
        made = next((one.version for one in lake.commits(path) if one.user_metadata == about), None)
        if made is None:
            raise Moving("a run wrote the table meanwhile", place=path, hint="Repair it again.")
        _check(place, replace(standing, state=replace(after, version=made)), differences)


def _check(place: ComparedTable, standing: ExpectedRows, found: Differences) -> None:
    """Looks at the rows once more. Raises LakeError where they are not what was written."""
    key = place.schema.primary_key
    keys = {text for batch in (*found.wrong, *found.right) for text in lake_text(batch, key).to_pylist()}
    if left := differing(place, standing, keys):
        hint = copy_hint(place.connector.destination, place.schema.name)
        raise LakeError(f"{left.rows} rows differ still after their repair", place=place.path, hint=hint)


def check_takes_changes(place: ComparedTable) -> None:
    """Raises TableStopped for a table that is stopped: what the lake has of it stands at no place."""
    for stop in place.connector.client_status().stopped:
        if stop.table == place.schema.name:
            raise TableStopped(f"the table is stopped: {stop.reason}", place=stop.table, hint=stop.hint)


def _mark(place: ComparedTable, standing: ExpectedRows) -> tuple[str, Mark]:
    """The app id and the mark of the commit. Raises LakeError when there is none left, Moving for a table that
    has gone on since it was compared."""
    connector, name = place.connector, place.schema.name
    app = app_id(connector.destination, connector.client_id, name, standing.epoch)
    last = place.lake.applied(place.path, [app])[0]  # read first: what comes later is above it
    _check_same(standing, place.lake.state(place.path, app), place.path)
    mark = Mark.behind(standing.epoch, standing.state.applied or 0, last, REPAIRS)
    if mark is None:
        hint = copy_hint(connector.destination, name)
        raise LakeError(f"its rows were repaired {REPAIRS} times since its last batch", place=name, hint=hint)
    return app, mark


def _check_same(standing: ExpectedRows, now: TableState | None, path: str) -> None:
    """Raises Moving for a table that has other batches or columns than when it was compared."""
    before = standing.state
    if now is None or (now.applied, now.columns) != (before.applied, before.columns):
        raise Moving("a run wrote the table meanwhile", place=path, hint="Repair it again.")


def _about(place: ComparedTable, standing: ExpectedRows, found: Differences, run_id: str, token: str) -> str:
    """Delta's user metadata, as JSON without a `$`, which Spark would replace. No other commit has the same."""
    counts = {"missing": found.missing, "extra": found.extra, "different": found.different}
    told: dict[str, Any] = {"table": place.schema.name, "place": str(standing.place), "epoch": standing.epoch, **counts}
    return json.dumps({"repair": {**told, "run_id": run_id, "token": token}}).replace("$", "\\u0024")


def _commit(
    spark: SparkSession, path: str, schema: TableSchema, rows: pa.Table, at: tuple[str, int], about: str
) -> None:
    """`at`: app id and txnVersion. Raises Moving where another commit came in between."""
    types = from_arrow_schema(rows.schema, prefer_timestamp_ntz=True)
    spark.createDataFrame(rows, types).createOrReplaceTempView(_VIEW)
    try:
        with transaction(spark, *at, about):
            spark.sql(statement(path, schema)).collect()
    except PySparkException as error:
        if any(word in str(error) for word in CONFLICTS):
            raise Moving("somebody wrote the table meanwhile", place=path, hint="Repair it again.") from error
        raise


def statement(path: str, schema: TableSchema) -> str:
    """One MERGE: of each key all rows go, however many there are, and the one that it must have is added."""
    names = [quote(column.name) for column in schema.shown]
    same = " AND ".join(f"t.{quote(name)} = s.{quote(name)}" for name in schema.primary_key)
    return (
        f"MERGE INTO delta.{quote(path)} AS t USING {_VIEW} AS s ON s.{OP} = {_GONE} AND {same} "  # noqa: S608
        f"WHEN MATCHED THEN DELETE WHEN NOT MATCHED AND s.{OP} = {_ADDED} "
        f"THEN INSERT ({', '.join(names)}) VALUES ({', '.join(f's.{name}' for name in names)})"
    )


def _rows(schema: TableSchema, found: Differences, own: Own) -> pa.Table:
    """What the statement takes: the keys whose rows go, and the rows that come. Where the table may have rows that are
    deleted, one of a key that must have a row goes too."""
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
        "The Delta table refuses rows that the source has. Take the constraint or NOT NULL away (ALTER TABLE "
        f"delta.{quote(path)} DROP CONSTRAINT ..., or ALTER COLUMN ... DROP NOT NULL), then repair the table again."
    )
