"""`Remaker`: reloads a table from one of its earlier versions, or from nothing, and its change log, in one commit.

Neither source nor binlog is needed. The table is at the same place before and after (`Rewrite`): only its rows are
replaced.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql.connect.session import SparkSession

from cdc_core.errors import LakeError, safe_name
from spark_jobs.changes.columns import EPOCH, OP, TRUNCATE, VERSION
from spark_jobs.changes.net import ImageQuery
from spark_jobs.lake.failures import lake_errors
from spark_jobs.lake.remedy import copy_hint
from spark_jobs.lake.replacement import replace_table
from spark_jobs.lake.sql import quote, table_at
from spark_jobs.lake.state import DeltaCommit, TableState
from spark_jobs.landing.client_tables import ClientTables
from spark_jobs.landing.parked import Parking
from spark_jobs.load.base import RebuildBase, base_of
from spark_jobs.load.replacement import Target
from spark_jobs.load.result import LakeClient, WentOn
from spark_jobs.load.rewrite import Rewrite
from spark_jobs.session import Sessions

_TRIES = 5  # a try fails if another run wrote the table meanwhile


@dataclass(frozen=True, slots=True)
class Remade:
    """A reloaded table: the version that the commit made, and its number of rows."""

    base: RebuildBase
    delta_version: int
    rows: int
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Remaker:
    """Reloads tables of one client. `run_id` is written into the commits."""

    tables: ClientTables
    sessions: Sessions
    run_id: str = ""
    sleep: Callable[[float], None] = time.sleep

    def table(self, table: str, version: int | None) -> Remade:
        """Reloads a table from `version`, or from nothing. Raises what `base_of` raises, before anything is written;
        LakeError if other runs keep writing the table."""
        began, tables = time.perf_counter(), self.tables
        for left in reversed(range(_TRIES)):
            try:
                made = self._made(base_of(tables, table, version))
                break
            except WentOn as error:
                if not left:
                    raise _busy(tables, table) from error
            self.sleep(1.0)
        Parking(tables.lake, tables.destination, tables.client_id).free(table)
        return Remade(made.base, made.delta_version, made.rows, time.perf_counter() - began)

    def _made(self, base: RebuildBase) -> Remade:
        target, remedy = self._target(base), copy_hint(self.tables.destination, base.table)
        rewrite = Rewrite.begun(target, self.sessions, base.place[1])
        again = base_of(self.tables, base.table, base.version)
        if (again.stretches, again.place, again.now.columns) != (base.stretches, base.place, base.now.columns):
            raise WentOn(target.path)
        facts = {"table": base.table, "from": base.version, "place": list(base.place), "run_id": self.run_id}
        with self.sessions.take() as spark, lake_errors(target.path, remedy):
            query = self._rows(spark, again)
        rewrite.check(again.now.version)
        made = _commit(rewrite, query, again.now, rewrite.about("remade", facts), remedy)
        if made.version != again.now.version + 1:  # changes that came in between are in the log: try again
            raise WentOn(target.path)
        return Remade(again, made.version, made.count("numOutputRows"))

    def _target(self, base: RebuildBase) -> Target:
        tables = self.tables
        client = LakeClient(tables.destination, tables.client_id, base.place[0], self.run_id)
        return Target.fenced(tables.lake, self.sessions, client, base.table)

    def _rows(self, spark: SparkSession, base: RebuildBase) -> str:
        """Returns the query of the rows that the table must have. Raises LakeError if its log lacks the last statement
        that emptied it."""
        path = self.tables.path(base.table)
        log = table_at(base.log.log.path, base.log.version)
        where = _within(base)
        asked = f"SELECT {EPOCH}, {VERSION} FROM {log} WHERE ({where}) AND {OP} = '{TRUNCATE}'"  # noqa: S608
        emptied = max(((int(one[0]), int(one[1])) for one in spark.sql(asked).collect()), default=None)
        if base.truncated is not None and (emptied is None or emptied < base.truncated):
            hint = f"Begin from a version after the statement. {copy_hint(self.tables.destination, base.table)}"
            raise LakeError("the log does not have the statement that emptied the table", place=path, hint=hint)
        listed = ", ".join(quote(column.name) for column in base.now.columns)
        begins = f"SELECT {listed} FROM {table_at(path, base.version or 0)}"  # noqa: S608
        if base.version is None or emptied is not None:
            begins = "SELECT " + ", ".join(f"CAST(NULL AS {c.type}) AS {quote(c.name)}" for c in base.now.columns)
            begins += " WHERE false"
        if emptied is not None:
            epoch, version = emptied
            where = f"({where}) AND ({EPOCH} > {epoch:d} OR ({EPOCH} = {epoch:d} AND {VERSION} > {version:d}))"
        changes = ImageQuery(log, base.log.having(base.now.columns), base.key, f"({where})")
        return changes.over(f"({begins})", base.now.columns)


def _busy(tables: ClientTables, table: str) -> LakeError:
    job = f"remake_{safe_name(tables.destination)}"
    hint = f"Use the job {job}, which takes turns with the runs that merge; nothing was replaced."
    return LakeError("other runs keep writing the table", place=tables.path(table), hint=hint)


def _within(base: RebuildBase) -> str:
    """Returns the condition for the log's rows that are applied to the base."""
    parts = [f"({one.sql})" for one in base.stretches]
    return " OR ".join(parts) or "1 = 0"  # Spark takes `WHERE (false)` for an alias


def _commit(rewrite: Rewrite, query: str, state: TableState, about: str, remedy: str) -> DeltaCommit:
    def replaced(spark: SparkSession) -> None:
        replace_table(rewrite.target.path, spark.sql(query), state.columns, state.own_properties, state.comment)

    return rewrite.commit(about, replaced, remedy)
