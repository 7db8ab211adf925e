"""One statement as one commit of Delta that carries a version, so that it is applied once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession

_TXN = "spark.databricks.delta.write.txn"
_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_CODEGEN = "spark.sql.codegen.factoryMode"
_VECTORS = "spark.databricks.delta.merge.deletionVectors.persistent"
FEW_ROWS = 5_000  # for so few, compiling a projection's code takes longer than running it; whole stages stay compiled


@contextmanager
def transaction(
    spark: SparkSession, app: str, version: int, metadata: str = "", *, few: bool = False, small: bool = False
) -> Iterator[None]:
    """Within the block the session's commits carry app id, version and user metadata, and none after it does. `few`:
    of so few rows that no code is compiled for their projections. `small`: of a table so small (`Lake.is_small`) that
    a MERGE writes its files anew instead of deletion vectors.

    One INSERT, MERGE, UPDATE, DELETE or REPLACE TABLE ... AS SELECT belongs into the block. Delta skips it where the
    table has that version of the app id, and refuses it where another commit with the app id came in between. Delta
    lets an ALTER TABLE carry no version: see `ddl.alter_table`. A CREATE TABLE would be counted as the batch, which
    Delta would then skip.
    """
    settings = {f"{_TXN}AppId": app, f"{_TXN}Version": str(version)}
    if metadata:
        settings[_METADATA] = metadata
    if few:
        settings[_CODEGEN] = "NO_CODEGEN"
    if small:
        settings[_VECTORS] = "false"
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        yield
    finally:
        with suppress(PySparkException):  # the block's own error is on its way; `Sessions` ends such a session
            for key in settings:
                spark.conf.unset(key)
