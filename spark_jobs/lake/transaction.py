"""One statement as one commit of Delta that carries a version, so that it is applied once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession

from spark_jobs.lake.sql import quote

_TXN = "spark.databricks.delta.write.txn"
_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_CODEGEN = "spark.sql.codegen.factoryMode"
_VECTORS = "spark.databricks.delta.merge.deletionVectors.persistent"
_COPIED = "spark.databricks.delta.merge.materializeSource"
_SHUFFLED = "spark.databricks.delta.merge.repartitionBeforeWrite.enabled"
_WRITERS = "spark.sql.maxConcurrentOutputFileWriters"
MANY_ROWS = 50_000  # so many are written by the task that has them, whatever partition they belong to
_CONFLICTS = ("DELTA_CONCURRENT_", "DELTA_METADATA_CHANGED", "DELTA_PROTOCOL_CHANGED")
FEW_ROWS = 5_000  # for so few, compiling a projection's code takes longer than running it; whole stages stay compiled


@contextmanager
def transaction(
    spark: SparkSession,
    app: str,
    version: int,
    metadata: str = "",
    *,
    few: bool = False,
    rewrites: bool = False,
    fixed: bool = False,
    many: bool = False,
) -> Iterator[None]:
    """Makes the session's commits within the block carry app id, version and user metadata. `few`: so few rows that no
    code is compiled for their projections. `rewrites`: a MERGE rewrites the files that it touches instead of adding
    deletion vectors to them. `fixed`: a MERGE whose source gives the same rows however often it is read, so
    that Delta reads from it what each step needs, instead of copying all of it. `many`: so many rows into a partitioned
    table that they are neither shuffled nor sorted by partition beforehand.

    One INSERT, MERGE, UPDATE, DELETE or REPLACE TABLE ... AS SELECT belongs into the block. Delta skips it if the table
    has that version of the app id, and refuses it if another commit with the app id came in between. An ALTER TABLE
    carries no version in Delta: see `ddl.alter_table`. A CREATE TABLE would be counted as the batch, which Delta would
    then skip.
    """
    settings = {f"{_TXN}AppId": app, f"{_TXN}Version": str(version)}
    if metadata:
        settings[_METADATA] = metadata
    if few:
        settings[_CODEGEN] = "NO_CODEGEN"
    if rewrites:
        settings[_VECTORS] = "false"
    if fixed:
        settings[_COPIED] = "none"
    if many:
        settings |= {_SHUFFLED: "false", _WRITERS: "8"}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        yield
    finally:
        with suppress(PySparkException):  # the block's own error is on its way; `Sessions` ends such a session
            for key in settings:
                spark.conf.unset(key)


def is_conflict(error: Exception) -> bool:
    """Whether Delta refused a commit because another one came in between."""
    return any(word in str(error) for word in _CONFLICTS)


def commit_nothing(spark: SparkSession, path: str, column: str) -> None:
    """Makes a commit that changes no row, to record what the session's commits carry. `column` is any of the
    table's."""
    name = quote(column)
    spark.sql(f"UPDATE delta.{quote(path)} SET {name} = {name} WHERE false").collect()  # noqa: S608
