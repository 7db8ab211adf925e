"""One statement as one commit of Delta: with the batch's version, and with errors that say what they mean."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession

from cdc_core.errors import TableStopped
from spark_jobs.defaults import UNKNOWN_DEFAULT
from spark_jobs.statements import FEWER_COPIES
from spark_jobs.whole_rows import NO_SUCH_ROW

_TXN = "spark.databricks.delta.write.txn"
_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_CODEGEN = "spark.sql.codegen.factoryMode"
FEW_ROWS = 5_000  # for so few, writing a projection's code costs more than running it; whole stages stay compiled
_BUILD = "build the table again from the source, then lift its stop."
_STOPS = {  # what a statement raises in Spark, and what that means for its table
    FEWER_COPIES: (
        "the lake has fewer copies of a row than the source deleted",
        f"The lake never had those rows: {_BUILD}",
    ),
    NO_SUCH_ROW: (
        "an update tells only what changed, and the lake does not have its row",
        f"The lake never had that row: SET GLOBAL binlog_row_image=FULL, or {_BUILD} After a reset it may have been "
        "deleted later: reset again, with a batch_size that puts its update and its delete into one claim.",
    ),
    UNKNOWN_DEFAULT: (
        "an insert leaves out a column whose default is not known here",
        f"SET GLOBAL binlog_row_image=FULL (sessions may override it), {_BUILD}",
    ),
}


@contextmanager
def transaction(spark: SparkSession, app: str, version: int, metadata: str, *, few: bool) -> Iterator[None]:
    """The session's commits carry the batch's version, and none after it does."""
    settings = {f"{_TXN}AppId": app, f"{_TXN}Version": str(version), _METADATA: metadata}
    if few:
        settings[_CODEGEN] = "NO_CODEGEN"
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        yield
    finally:
        with suppress(PySparkException):  # an error of its own is on its way; `Sessions` ends such a session
            for key in settings:
                spark.conf.unset(key)


def run(spark: SparkSession, statement: str, path: str) -> None:
    """Raises TableStopped for what a statement finds that its table cannot take."""
    try:
        spark.sql(statement).collect()
    except PySparkException as error:
        for marker, (message, hint) in _STOPS.items():
            if marker in str(error):
                told = str(error).partition(marker + ": ")[2].partition("\n")[0][:100]
                raise TableStopped(f"{message} ({told})", place=path, hint=hint) from error
        raise
