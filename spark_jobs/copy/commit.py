"""One commit of Spark's that replaces rows and definition of a table.

The commit is Spark's, because a table may have features that delta-rs cannot write. It carries the table's app id and
the copy's mark: Delta skips it when the table has gone on meanwhile, and refuses it when a commit came in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.connect.functions import col
from pyspark.sql.connect.session import SparkSession

from cdc_core.schema.table import TableSchema
from spark_jobs.copy.result import WentOn
from spark_jobs.copy.target import Target
from spark_jobs.lake.ddl import table_properties
from spark_jobs.lake.own_columns import OWN, Own
from spark_jobs.lake.record import CopyNote, Mark, copied_properties
from spark_jobs.lake.replacement import MAPPING, replace_table
from spark_jobs.lake.sql import quote
from spark_jobs.lake.state import COMPLETE, TableState
from spark_jobs.lake.transaction import is_conflict, transaction
from spark_jobs.lake.types import LakeColumn

_MAPPED = "delta.columnMapping."  # its other properties are Delta's own count


@dataclass(frozen=True, slots=True)
class Replacement:
    """What a commit puts in a table's place. `state`: the table's, None when there is none; `mark`: the commit's
    txnVersion, and what it means; `metadata`: Delta's user metadata."""

    target: Target
    schema: TableSchema
    columns: tuple[LakeColumn, ...]
    state: TableState | None
    note: CopyNote
    mark: Mark
    metadata: str

    @property
    def properties(self) -> dict[str, str]:
        """Ours, and of the old table what others have set, also for Delta. Without rules it has the columns that the
        old one had. Raises TableStopped for a table that cannot have them."""
        old, target = self.state.properties if self.state else {}, self.target
        kept = {key: value for key, value in old.items() if key.startswith("delta.") and not key.startswith(_MAPPED)}
        kept |= {MAPPING: old[MAPPING]} if MAPPING in old else {}
        if target.lake.rules is None and OWN in old:
            Own.of(old).check(self.schema.name, self.schema.primary_key, [column.name for column in self.columns])
            kept[OWN] = old[OWN]
        ours = table_properties(target.lake, target.client.destination, self.schema, target.fence.token)
        sluices = {key: value for key, value in ours.items() if not key.startswith("delta.")}
        return ours | kept | sluices | copied_properties(self.note, self.mark) | {COMPLETE: "true"}


def staged_rows(spark: SparkSession, path: str) -> DataFrame:
    """The rows of a staging table, the columns under numbers."""
    rows = spark.read.format("delta").load(path)
    return rows.toDF(*(str(number) for number in range(len(rows.columns))))


def replace(spark: SparkSession, rows: DataFrame, new: Replacement) -> None:
    """One commit of rows whose columns are under numbers. Nothing is written when the table is at the mark or
    beyond. Raises WentOn when another commit came in between."""
    spark.conf.set("spark.sql.parquet.datetimeRebaseModeInRead", "CORRECTED")
    names = [col(quote(str(number))).alias(column.name) for number, column in enumerate(new.columns)]
    target = new.target
    with one_commit(spark, target.path, target.app, new.mark.upto, new.metadata):
        replace_table(target.path, rows.select(*names), new.columns, new.properties, new.schema.comment)


@contextmanager
def one_commit(spark: SparkSession, path: str, app: str, version: int, metadata: str) -> Iterator[None]:
    """One statement of the block is one commit of the table at `path`: see `transaction`. Raises WentOn when another
    commit came in between."""
    try:
        with transaction(spark, app, version, metadata):
            yield
    except PySparkException as error:
        if is_conflict(error):
            raise WentOn(path) from error
        raise
