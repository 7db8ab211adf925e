"""`{database}.{table}__as_of`: a table as of one place, as a view in Spark.

It reads a version of the table. Of a table that lands first, it also reads the rows of one version of its change log
that come after that. The view is right as long as VACUUM leaves both versions; then reading it fails.
"""

from __future__ import annotations

from pyspark.sql.connect.session import SparkSession

from cdc_core.errors import LakeError
from spark_jobs.as_of.as_of import TablesAsOf, place_text
from spark_jobs.as_of.choice import Chosen
from spark_jobs.catalog.session_catalog import View, replace_views
from spark_jobs.changes.columns import OP, TRUNCATE, VERSION
from spark_jobs.changes.net import ImageQuery
from spark_jobs.following.now import view_name
from spark_jobs.lake.catalog_names import CatalogName
from spark_jobs.lake.own_columns import NO_OWN, Own, living_at
from spark_jobs.lake.sql import quote, table_at
from spark_jobs.lake.state import TableState
from spark_jobs.lake.types import LakeColumn
from spark_jobs.landing.client_tables import ClientTables
from spark_jobs.landing.log import OpenedLog, TableLog
from spark_jobs.stores import location

SUFFIX = "__as_of"
_BETWEEN = "The log does not have these values: ask for a place at which the log was merged."


def as_of_view(tables: ClientTables, table: str) -> str:
    """Returns the name of the view, in SQL."""
    return _name(tables, table).sql


def as_of_sql(tables: ClientTables, chosen: Chosen, *, whole: bool = False) -> str:
    """Returns the view's query; `whole`: with the columns of Sluice's, and rows that are marked as deleted. Raises
    LakeError if the version is gone meanwhile."""
    path, version = tables.path(chosen.table), chosen.version
    if version is None:
        log = _log(tables, chosen)
        named = {column.name for column in log.definition.shown}
        columns = tuple(column for column in log.columns if column.name in named)
        nothing = ", ".join(f"CAST(NULL AS {column.type}) AS {quote(column.name)}" for column in columns)
        return _with_log(log, chosen, f"(SELECT {nothing} WHERE false)", columns, log.definition.primary_key)
    state = tables.lake.state(path, "", version)
    if state is None:
        raise LakeError(f"version {version} is gone", place=path, hint="Ask for the place again.")
    own = state.own if whole else NO_OWN
    rows = table_at(path, version) if whole else living_at(path, version, state.own)
    if chosen.later:
        log = _log(tables, chosen)
        if why := _lacks(tables, chosen, log, state):
            raise LakeError(f"{chosen.table} is not known there: {why}", place=path, hint=_BETWEEN)
        return _with_log(log, chosen, rows, state.columns, state.primary_key, own)
    return f"SELECT {', '.join(map(quote, (*(one.name for one in state.columns), *own.names)))} FROM {rows}"  # noqa: S608


def make_views(spark: SparkSession, tables: ClientTables, found: TablesAsOf) -> None:
    """Makes the views in the place of earlier ones, and drops those of absent tables. Raises LakeError if a name is
    somebody else's."""
    queries = queries_as_of(tables, found)
    comment = f"as of {found.position}, place {place_text(found.place)}"
    views = [View(_name(tables, one), _path(tables, one), query, comment) for one, query in queries.items()]
    replace_views(spark, views, {_name(tables, one): _path(tables, one) for one in found.absent})


def queries_as_of(tables: ClientTables, found: TablesAsOf) -> dict[str, str]:
    """Returns the views' queries by table. Raises LakeError if a version is gone meanwhile."""
    return {table: as_of_sql(tables, chosen) for table, chosen in found.tables.items()}


def _name(tables: ClientTables, table: str) -> CatalogName:
    return view_name(tables, table, SUFFIX)


def _path(tables: ClientTables, table: str) -> str:
    return location(tables.path(table))


def lacks_values(tables: ClientTables, chosen: Chosen, then: TableState) -> str:
    """Returns why later rows of the log cannot be laid over the table as it was `then`, or "". The source may have
    dropped a column before or after the place, and the log does not say which."""
    return _lacks(tables, chosen, _log(tables, chosen), then)


def _lacks(tables: ClientTables, chosen: Chosen, log: OpenedLog, then: TableState) -> str:
    now = tables.lake.state(tables.path(chosen.table), "")
    return log.lacks_values([one for one in then.columns if now and one in now.columns])


def _log(tables: ClientTables, chosen: Chosen) -> OpenedLog:
    log = TableLog(tables.lake, tables.destination, tables.client_id, chosen.table)
    return OpenedLog(log, tables.lake.open(log.path, chosen.log_version))


def _with_log(
    log: OpenedLog,
    chosen: Chosen,
    rows: str,
    columns: tuple[LakeColumn, ...],
    key: tuple[str, ...],
    own: Own = NO_OWN,
) -> str:
    """Returns the query of `rows` after the log's later ones, with the columns of `own`, which a table without a key
    has not. Columns and key are those of the version: the log may have others by now."""
    source = table_at(log.path, log.version)
    where = " OR ".join(f"({one.sql})" for one in chosen.later) or "1 = 0"
    if chosen.version is None:  # a log alone has entries of statements that emptied the table
        emptied = f"SELECT max({VERSION}) FROM {source} WHERE ({where}) AND {OP} = '{TRUNCATE}'"  # noqa: S608
        where = f"({where}) AND {VERSION} > coalesce(({emptied}), -1)"
    return ImageQuery(source, log.having(columns), key, where).over(rows, columns, own=own)
