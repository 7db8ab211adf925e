"""`{database}.{table}__now`: a landed table as of the end of its log, however much of the log is merged.

The view reads one version of the merged table, without the keys of later changes in the log, and the last rows of these
keys. So it stays exact while the log grows and while the table is merged. It is rebuilt after merges (`views`), and
after each statement that the table follows. It is in a catalog of Spark's; a Spark without it gets its SQL.

Without a key it has the table's rows with the copies that the log adds and removes. When a new epoch begins, it cannot
know which of its rows are repeated: it raises an error from then on, until it is rebuilt.
"""

from __future__ import annotations

from contextlib import suppress

from pyspark.sql.connect.session import SparkSession

from cdc_core.errors import SluiceError, TableStopped
from cdc_core.schema.names import split_name
from spark_jobs.catalog.plan import NOW
from spark_jobs.catalog.session_catalog import drop_view, make_view
from spark_jobs.changes.columns import EPOCH
from spark_jobs.changes.net import ImageQuery
from spark_jobs.changes.version_range import within
from spark_jobs.following.pending import Follows
from spark_jobs.lake.catalog_names import CatalogName
from spark_jobs.lake.failures import lake_errors
from spark_jobs.lake.own_columns import living_at
from spark_jobs.lake.progress import is_over
from spark_jobs.lake.sql import quote
from spark_jobs.lake.state import TableState
from spark_jobs.landing.client_tables import ClientTables
from spark_jobs.landing.files import epochs_in, log_files
from spark_jobs.landing.log import OpenedLog
from spark_jobs.session import Sessions
from spark_jobs.stores import location

NEW_EPOCH = "SLUICE_NEW_EPOCH"  # the error of a view that must be rebuilt


def view_name(tables: ClientTables, table: str, suffix: str = NOW) -> CatalogName:
    """Returns the name of a view of `database.table`: by the rules for names in a catalog, if there are any."""
    database, name = split_name(table + suffix)
    if tables.lake.catalog is None:
        return CatalogName("", database, name)
    return tables.lake.catalog.name(tables.destination, database, name)


def now_sql(follows: Follows, table: str) -> str:
    """Returns the view's query. Raises TableStopped for a table without a log, or a dropped one."""
    log, path = follows.log(table), follows.path(table)
    if log is None:
        hint = "Name a table whose mode is land_first; other tables are as of their last batch."
        raise TableStopped("the lake has no change log of the table", place=table, hint=hint)
    state = follows.lake.state(path, "")
    if state is None or state.dropped:
        hint = "Its first merge creates it; start the job that merges."
        raise TableStopped("the lake has no such table", place=table, hint=hint)
    key = log.definition.primary_key
    where = _later_rows(follows, table, log, state) if key else _later_copies(follows, log, state)
    source = f"delta.{quote(log.path)}"
    kept = log.dropped(state.columns)
    columns = [column for column in log.having(state.columns) if column.name not in kept]
    newer = ImageQuery(source, tuple(columns), key, where)
    return newer.over(living_at(path, state.version, state.own), state.columns, kept)


def build_view(spark: SparkSession, follows: Follows, table: str) -> None:
    """Creates or replaces the view; drops it if the table is gone. Raises LakeError if the name is somebody else's."""
    name, log = view_name(follows, table), location(follows.lake.log_path(*split_name(table)))
    try:
        query = now_sql(follows, table)
    except TableStopped:
        drop_view(spark, name, log)
    else:
        make_view(spark, name, log, query)


def refresh_view(sessions: Sessions, follows: Follows, table: str) -> str:
    """Creates or replaces the view. Returns why it could not, or "": the tables are right without it."""
    try:
        with sessions.take() as spark, lake_errors(table):
            build_view(spark, follows, table)
    except SluiceError as error:
        return f"its view {view_name(follows, table).sql} was not replaced: {error.message}"
    return ""


def refresh_landed_view(sessions: Sessions, follows: Follows, table: str) -> None:
    """Creates or replaces the view of a table that followed a statement, if it has a log."""
    with suppress(SluiceError):
        if follows.log(table) is not None:
            refresh_view(sessions, follows, table)


def _later_copies(follows: Follows, log: OpenedLog, state: TableState) -> str:
    """Returns the condition for the log's rows without a key that this version of the merged table lacks. It raises an
    error in Spark for rows of later epochs. Raises TableStopped if it is unknown what the table lacks."""
    files, parts, newest = log_files(log.table), [], -1
    epochs = sorted({*epochs_in(log.table), *log.epochs, *([state.copied.epoch] if state.copied else [])})
    for one in follows.lacked(log, files, epochs, state.version):
        parts.append(f"({within(one.epoch, one.after, one.end if one.ends else None)})")
        newest = one.epoch
    newest = max([newest, *(epoch for epoch in epochs if is_over(state, epoch))])
    known, later = " OR ".join(parts) or "1 = 0", f"{EPOCH} > {newest:d}"
    raised = f"CAST(raise_error('{NEW_EPOCH}') AS BOOLEAN)"
    return f"({known} OR {later}) AND CASE WHEN {known} THEN true WHEN {later} THEN {raised} ELSE false END"


def _later_rows(follows: Follows, table: str, log: OpenedLog, state: TableState) -> str:
    """Returns the condition for the log's rows that this version of the merged table lacks."""
    epochs, parts = epochs_in(log.table), []
    progress = follows.progress(table, max(epochs, default=0), state.version)
    for epoch in epochs:
        if is_over(state, epoch) or log.end(epoch) is None:
            continue
        after = follows.merged_to(log, progress, epoch)
        parts.append(f"({within(epoch, after, None)})")
    newest = max((*epochs, state.copied.epoch if state.copied else -1), default=-1)
    return " OR ".join([*parts, f"{EPOCH} > {newest:d}"])
