"""`{database}.{table}__now`: a landed table as of the end of its log, whatever of it is merged.

The view reads one version of the merged table, without the keys that the log has behind what that version has, and the
last rows of these keys. So it stays exact while the log grows and while the table is merged. It is reloaded behind
merges (`views`), and behind each statement that the table follows. It lives in Spark's catalog; another Spark gets its
SQL.

Without a key it has the table's rows with the copies that the log adds and takes. Which rows of an epoch that began
later come again it cannot know: it raises an error from then on, until it is reloaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from deltalake import DeltaTable
from pyspark.sql.connect.session import SparkSession

from cdc_core.errors import SluiceError, TableStopped
from cdc_core.schema.names import split_name
from spark_jobs.changes.columns import EPOCH
from spark_jobs.changes.net import ImageQuery, within
from spark_jobs.following.files import epochs_in, log_files
from spark_jobs.following.pending import Follows
from spark_jobs.lake.failures import lake_errors
from spark_jobs.lake.own_columns import living_at
from spark_jobs.lake.progress import is_over
from spark_jobs.lake.sql import quote
from spark_jobs.lake.state import TableState
from spark_jobs.lake.types import LakeColumn
from spark_jobs.landing.log import OpenedLog
from spark_jobs.session import Sessions

SUFFIX = "__now"
NEW_EPOCH = "SLUICE_NEW_EPOCH"  # how a view says that it must be reloaded


def view_name(table: str) -> str:
    """The view of `database.table`, in SQL."""
    database, name = split_name(table)
    return f"{quote(database)}.{quote(name + SUFFIX)}"


def now_sql(follows: Follows, table: str) -> str:
    """The view's query. Raises TableStopped for a table without a log, or one that was dropped."""
    log, path = follows.log(table), follows.path(table)
    if log is None:
        hint = "Name a table whose mode is land_first; other tables are as of their last batch."
        raise TableStopped("the lake has no change log of the table", place=table, hint=hint)
    state = follows.lake.state(path, "")
    if state is None or state.dropped:
        hint = "Its first merge creates it; start the job that merges."
        raise TableStopped("the lake has no such table", place=table, hint=hint)
    key = log.definition.primary_key
    where = _behind(follows, table, log, state) if key else _copies_behind(follows, log, state)
    source = f"delta.{quote(log.path)}"
    newer = ImageQuery(source, logged(log.table, state.columns), key, where)
    return newer.over(living_at(path, state.version, state.own), state.columns)


def make_view(spark: SparkSession, follows: Follows, table: str) -> None:
    """Makes the view, or reloads it; takes it away where the table is gone."""
    try:
        query = now_sql(follows, table)
    except TableStopped:
        drop_view(spark, table)
        return
    spark.sql(f"CREATE DATABASE IF NOT EXISTS {quote(split_name(table)[0])}")
    spark.sql(f"CREATE OR REPLACE VIEW {view_name(table)} AS {query}")


def shown(sessions: Sessions, follows: Follows, table: str) -> str:
    """Makes the view. Why it could not, "" where it could: the tables are right without it."""
    try:
        with sessions.take() as spark, lake_errors(table):
            make_view(spark, follows, table)
    except SluiceError as error:
        return f"its view {view_name(table)} was not changed: {error.message}"
    return ""


def shown_anew(sessions: Sessions, follows: Follows, table: str) -> None:
    """The same for a table that followed a statement, where it has a log."""
    with suppress(SluiceError):
        if follows.log(table) is not None:
            shown(sessions, follows, table)


def drop_view(spark: SparkSession, table: str) -> None:
    """Takes the view away where there is one."""
    if spark.catalog.databaseExists(quote(split_name(table)[0])):
        spark.sql(f"DROP VIEW IF EXISTS {view_name(table)}")


def logged(log: DeltaTable, columns: Sequence[LakeColumn]) -> tuple[LakeColumn, ...]:
    """Those of a table's columns that its log has."""
    there = {field.name for field in log.schema().fields}
    return tuple(column for column in columns if column.name in there)


def _copies_behind(follows: Follows, log: OpenedLog, state: TableState) -> str:
    """The condition for the log's rows without a key that this version of the merged table lacks. It raises an error
    for rows of later epochs. Raises TableStopped where nobody knows what it lacks."""
    files, parts, newest = log_files(log.table), [], -1
    epochs = sorted({*epochs_in(log.table), *log.epochs, *([state.copied.epoch] if state.copied else [])})
    for one in follows.lacked(log, files, epochs, state.version):
        parts.append(f"({within(one.epoch, one.after, one.end if one.ends else None)})")
        newest = one.epoch
    newest = max([newest, *(epoch for epoch in epochs if is_over(state, epoch))])
    known, later = " OR ".join(parts) or "1 = 0", f"{EPOCH} > {newest:d}"
    raised = f"CAST(raise_error('{NEW_EPOCH}') AS BOOLEAN)"
    return f"({known} OR {later}) AND CASE WHEN {known} THEN true WHEN {later} THEN {raised} ELSE false END"


def _behind(follows: Follows, table: str, log: OpenedLog, state: TableState) -> str:
    """The condition for the log's rows that this version of the merged table lacks."""
    epochs, parts = epochs_in(log.table), []
    progress = follows.progress(table, max(epochs, default=0), state.version)
    for epoch in epochs:
        if is_over(state, epoch) or log.end(epoch) is None:
            continue
        after = follows.merged_to(log, progress, epoch)
        parts.append(f"({within(epoch, after, None)})")
    newest = max((*epochs, state.copied.epoch if state.copied else -1), default=-1)
    return " OR ".join([*parts, f"{EPOCH} > {newest:d}"])
