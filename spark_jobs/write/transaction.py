"""A statement that applies a batch: its errors in Spark say what they mean."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession

from cdc_core.errors import TableStopped
from spark_jobs.changes.net import NO_KEY, NOT_A_ROW
from spark_jobs.changes.whole_rows import NO_SUCH_ROW
from spark_jobs.lake.defaults import UNKNOWN_DEFAULT
from spark_jobs.lake.equality import FEWER_COPIES

_BUILD = "reload the table (sluice copy)."
_STOPS = {  # the word that a statement raises in Spark: what it means, and what to do
    FEWER_COPIES: (
        "the lake has fewer copies of a row than the source deleted",
        f"The lake never had those rows: {_BUILD}",
    ),
    NO_SUCH_ROW: (
        "an update carries only what changed, and the lake does not have its row",
        f"The lake never had that row: SET GLOBAL binlog_row_image=FULL, or {_BUILD} After a reset, the row may have "
        "been deleted later: reset again, with a batch_size that puts its update and its delete into one claim.",
    ),
    NO_KEY: (
        "a column of the primary key has a zero or partial date, which becomes NULL",
        f"Set sluice.zero.dates to string, or correct the row; then {_BUILD}",
    ),
    NOT_A_ROW: (
        "the change log has an entry that is no row",
        f"The merged table cannot follow it: {_BUILD}",
    ),
    UNKNOWN_DEFAULT: (
        "an insert leaves out a column whose default is unknown",
        f"SET GLOBAL binlog_row_image=FULL (sessions may override it), {_BUILD}",
    ),
}


def run_statement(spark: SparkSession, statement: str, path: str) -> None:
    """Raises TableStopped when the statement finds changes that the table at `path` cannot take."""
    try:
        spark.sql(statement).collect()
    except PySparkException as error:
        for word, (message, hint) in _STOPS.items():
            if word in str(error):
                detail = str(error).partition(word + ": ")[2].partition("\n")[0][:100]
                raise TableStopped(f"{message} ({detail})", place=path, hint=hint) from error
        raise
