"""Executes the statement that applies a batch, and explains its errors in Spark."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession

from cdc_core.errors import TableStopped
from spark_jobs.changes.net import NO_KEY, NOT_A_ROW
from spark_jobs.changes.whole_rows import NO_SUCH_ROW
from spark_jobs.lake.defaults import UNKNOWN_DEFAULT
from spark_jobs.lake.equality import FEWER_COPIES

_RELOAD = "reload the table (sluice copy)."
_STOPS = {  # the word that a statement raises in Spark: its meaning, and the remedy
    FEWER_COPIES: (
        "the lake has fewer copies of a row than the source deleted",
        f"The lake never had those rows: {_RELOAD}",
    ),
    NO_SUCH_ROW: (
        "an update carries only what changed, and the lake does not have its row",
        f"The lake never had that row: SET GLOBAL binlog_row_image=FULL, or {_RELOAD} After a reset, the row may have "
        "been deleted later: reset again, with a batch_size that puts its update and its delete into one claim. Or its "
        "key was changed later: then only a copy helps.",
    ),
    NO_KEY: (
        "a column of the primary key has a zero or partial date, which becomes NULL",
        f"Set sluice.zero.dates to string, or correct the row; then {_RELOAD}",
    ),
    NOT_A_ROW: (
        "the change log has an entry that is not a row",
        f"The merged table cannot follow it: {_RELOAD}",
    ),
    UNKNOWN_DEFAULT: (
        "an insert leaves out a column whose default is unknown",
        f"SET GLOBAL binlog_row_image=FULL (sessions may override it), {_RELOAD}",
    ),
}


def run_statement(spark: SparkSession, statement: str, path: str) -> None:
    """Executes the statement. Raises TableStopped if it finds changes that the table at `path` cannot take."""
    try:
        spark.sql(statement).collect()
    except PySparkException as error:
        for word, (message, hint) in _STOPS.items():
            if word in str(error):
                detail = str(error).partition(word + ": ")[2].partition("\n")[0][:100]
                raise TableStopped(f"{message} ({detail})", place=path, hint=hint) from error
        raise
