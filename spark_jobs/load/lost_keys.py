"""The keys that left the parents of a table with an open snapshot, and the rows that named them.

Such rows were deleted or changed at the source without an event in the binlog. A run keeps the keys next to the change
log before it acks; they may be there more than once. There is a Delta table for each foreign key, which its description
names. The switch looks the rows up at the source by their own key, and appends their state there to the changes of the
log. If the source is ahead of the stream, later events of the same rows change nothing. If it is done again, it appends
the same rows once more.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pymysql
from deltalake import write_deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSelector, FileType, PyFileSystem
from pyspark.sql import DataFrame
from pyspark.sql.connect.session import SparkSession

from cdc_core.errors import LakeError
from cdc_core.rules.rules import NO_RULES, Rules
from cdc_core.schema.column_rule import ZeroDates
from cdc_core.schema.names import full_name
from cdc_core.schema.table import TableSchema
from spark_jobs.changes.columns import DELETE, INSERT, OP
from spark_jobs.lake.equality import references
from spark_jobs.lake.failures import first_line
from spark_jobs.lake.sql import quote
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.types import LakeColumn
from spark_jobs.load.files import numbered
from spark_jobs.load.result import Broken
from spark_jobs.snapshot.foreign_keys import ForeignKey, Rule
from spark_jobs.snapshot.source_rows import Touched, Unproven, touched

MOST = 200_000  # rows; with more of them the table is read once more
_ROWS, _LOST = "sluice_read", "sluice_lost"


@dataclass(frozen=True, slots=True)
class LostKeys:
    """The lost keys of one snapshot."""

    lake: Lake
    destination: str
    snapshot_id: str

    @property
    def path(self) -> str:
        return f"{self.lake.staging_path(self.destination, self.snapshot_id)}/lost"

    def keep(self, key: ForeignKey, keys: pa.Table) -> None:
        """Adds keys; the columns are the referenced ones, in their order. Raises LakeError."""
        if not keys.num_rows:
            return
        schema, text = numbered(keys.schema), json.dumps(asdict(key))
        name = hashlib.sha256(f"{text} {schema}".encode()).hexdigest()[:16]
        rows, storage = pa.Table.from_arrays(keys.columns, schema=schema), self.lake.storage or None
        try:
            write_deltalake(f"{self.path}/{name}", rows, mode="append", description=text, storage_options=storage)
        except (DeltaError, OSError) as error:
            hint = "Make the lake writable and give it room; the batch stays claimable."
            raise LakeError(f"lost keys cannot be kept: {first_line(error)}", place=self.path, hint=hint) from error

    def tables(self) -> Iterator[tuple[ForeignKey, str]]:
        """Yields the foreign keys, each with the path of the lost keys, whose columns have numbers for names. Raises
        LakeError."""
        try:
            folder = PyFileSystem(DeltaStorageHandler(self.path, self.lake.storage or None))
            for one in folder.get_file_info(FileSelector("", allow_not_found=True)):
                if one.type is FileType.Directory:
                    path = f"{self.path}/{one.base_name}"
                    yield _key(self.lake.open(path).metadata().description or ""), path
        except TableNotFoundError:
            return
        except (DeltaError, OSError) as error:
            hint = "Make the lake readable, and read the table again."
            raise LakeError(f"lost keys cannot be read: {first_line(error)}", place=self.path, hint=hint) from error


def _key(text: str) -> ForeignKey:
    fields = json.loads(text)
    child, parent = ((str(one[0]), str(one[1])) for one in (fields["child"], fields["parent"]))
    columns, referenced = tuple(fields["columns"]), tuple(fields["referenced"])
    return ForeignKey(child, columns, parent, referenced, Rule(fields["on_delete"]), Rule(fields["on_update"]))


def looked_up(
    spark: SparkSession,
    connection: pymysql.Connection[Any],
    rows: DataFrame,
    schema: TableSchema,
    columns: Sequence[LakeColumn],
    key: ForeignKey,
    lost: str,
    zero_dates: ZeroDates,
    rules: Rules = NO_RULES,
) -> pa.Table | None:
    """Returns the `rows` that name a key in the table at `lost` and differ at the source: as they are there, with the
    operation in `OP`. The columns of all have numbers for names. None if no row differs.

    Raises Broken if they cannot be looked up, and pymysql's errors.
    """
    found = _candidates(spark, rows, columns, key, lost, null_dates=rules.null_dates(zero_dates))
    if not found.num_rows:
        return None
    if found.num_rows > MOST or not schema.primary_key:
        why = f"more than {MOST:,} of its rows are affected" if schema.primary_key else "it has no primary key"
        raise _broken(key, why)
    names = [column.name for column in columns]
    named = found.rename_columns(names)
    try:
        there = touched(connection, key, schema.primary_key, named, names, zero_dates, rules)
    except Unproven as error:
        raise _broken(key, str(error)) from error
    return _changed(found, names, key, there) if there.rows else None


def _candidates(
    spark: SparkSession,
    rows: DataFrame,
    columns: Sequence[LakeColumn],
    key: ForeignKey,
    lost: str,
    *,
    null_dates: bool,
) -> pa.Table:
    names = [column.name for column in columns]
    rows.createOrReplaceTempView(_ROWS)
    parts = []
    for number, name in enumerate(key.columns):
        at = names.index(name)
        child, parent = f"r.{quote(str(at))}", f"k.{quote(str(number))}"
        parts.append(references(child, parent, columns[at].type, zero_dates=null_dates))
    keys = f"(SELECT DISTINCT * FROM delta.{quote(lost)})"  # noqa: S608
    found = f"SELECT r.* FROM {_ROWS} r LEFT SEMI JOIN {keys} k ON {' AND '.join(parts)} LIMIT {MOST + 1}"  # noqa: S608
    return spark.sql(found).toArrow()


def _changed(found: pa.Table, names: Sequence[str], key: ForeignKey, there: Touched) -> pa.Table:
    """Returns the rows with the source's values. A row that is gone keeps its own, but for a foreign key that became
    NULL."""
    rows = found.take(pa.array(there.rows, pa.int64()))
    for name in there.values.column_names:
        at = names.index(name)
        kept = there.gone if name in key.columns else [not one for one in there.there]
        values = pc.if_else(pa.array(kept, pa.bool_()), rows.column(at), there.values[name])
        rows = rows.set_column(at, rows.schema.field(at), values)
    return rows.append_column(OP, pa.array([DELETE if gone else INSERT for gone in there.gone], pa.string()))


def _broken(key: ForeignKey, why: str) -> Broken:
    child, parent = full_name(*key.child), full_name(*key.parent)
    reason = f"the source changed its rows by a foreign key to {parent}, which the binlog does not record, and {why}"
    hint = "Start the snapshot again while its parent is not written, or reload the table (sluice copy)."
    return Broken(reason, place=child, hint=hint)
