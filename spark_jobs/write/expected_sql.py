"""Expectations in SQL of a person's own: one query of Spark's for each, which returns the rows that fail.

The query sees `changes`, the batch's rows that the table gets, and `table`, as it would be. It is a subquery, so that
it cannot write. A query that fails or takes too long is not evaluated, which concerns its table alone.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession

from spark_jobs.changes.net import GONE, repeated
from spark_jobs.changes.table_changes import Changes, SeenChanges
from spark_jobs.expectations.expectation import Expectation, Severity, Sql
from spark_jobs.expectations.row_judge import RowJudge
from spark_jobs.lake.failures import first_line
from spark_jobs.lake.own_columns import living_now
from spark_jobs.lake.sql import quote
from spark_jobs.lake.state import TableState
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.types import COUNT, OP, LakeColumn
from spark_jobs.session import Sessions, is_gone
from spark_jobs.write.ready import ReadyTable
from spark_jobs.write.seen import seen_by

_SENT_ROWS = 100_000  # of a claim's rows are sent along; more are staged or pulled
_NOTHING = "_sluice_nothing"


@dataclass(frozen=True, slots=True)
class SqlChecks:
    """The queries of one table, which is ready for its batch."""

    sessions: Sessions
    lake: Lake
    destination: str
    ready: ReadyTable
    judge: RowJudge

    def evaluate(self, asked: Sequence[Expectation]) -> None:
        """Evaluates the expectations, one after the other. Raises LakeError when Spark is down."""
        ready, state, failed = self.ready, self.ready.prepared.state, self.judge.failed
        changes = ready.changes
        if failed is not None:
            changes = changes.without(failed.select(list(changes.key)))
        with (
            self.sessions.take() as spark,
            seen_by(spark, self.lake, self.destination, changes, state, _SENT_ROWS) as seen,
        ):
            rows = views(changes, seen, ready.path, state)
            for one in asked:
                self._evaluate(spark, one, rows)

    def _evaluate(self, spark: SparkSession, one: Expectation, rows: str) -> None:
        assert isinstance(one.test, Sql)
        over = threading.Event()

        def interrupt() -> None:
            over.set()
            spark.interruptAll()

        timer = threading.Timer(one.test.seconds, interrupt)
        timer.start()
        try:
            failing = self._failing(spark, one, rows)
        except PySparkException as error:
            if is_gone(error):
                raise
            late = f"its query takes more than {one.test.seconds:g} s"
            self.judge.give_up(one, late if over.is_set() else f"its query fails: {first_line(error)}")
        except ValueError as error:
            self.judge.give_up(one, str(error))
        else:
            self.judge.fail(one, failing, np.ones(failing.num_rows, bool))
        finally:
            timer.cancel()

    def _failing(self, spark: SparkSession, one: Expectation, rows: str) -> pa.Table:
        """Returns the keys of the rows that the query returns, one more than a quarantine takes at most."""
        assert isinstance(one.test, Sql)
        key, query = self.judge.key, f"({one.test.query.rstrip().rstrip(';')}\n)"
        there = set(spark.sql(f"WITH {rows} SELECT * FROM {query}").columns)  # noqa: S608
        named = bool(key) and set(key) <= there
        if one.severity is Severity.QUARANTINE and not named:
            raise ValueError(f"its query does not return the primary key ({', '.join(key)}), which a quarantine needs")
        listed = ", ".join(f"b.{quote(name)}" for name in key) if named else f"1 AS {_NOTHING}"
        same = " AND ".join(f"b.{quote(name)} = c.{quote(name)}" for name in key)
        only = f" LEFT SEMI JOIN changes AS c ON {same}" if one.severity is Severity.QUARANTINE else ""
        asked = f"WITH {rows} SELECT {listed} FROM {query} AS b{only} LIMIT {self.judge.most + 1}"  # noqa: S608
        return spark.sql(asked).toArrow()


def views(changes: Changes, seen: SeenChanges, path: str, state: TableState) -> str:
    """Returns the definitions of `changes` and `table` for a WITH."""
    columns, rows, there = changes.columns_in(state), changes.net(seen, path, state), living_now(path, state.own)
    listed = ", ".join(quote(column.name) for column in columns)
    if changes.key:
        added = f"SELECT {listed} FROM {rows} WHERE {f'NOT {GONE}' if state.own else f'{OP} = 1'}"  # noqa: S608
        same = " AND ".join(f"t.{quote(name)} = n.{quote(name)}" for name in changes.key)
        kept = ", ".join(f"t.{quote(column.name)}" for column in columns)
        left = f"SELECT {kept} FROM {there} AS t LEFT ANTI JOIN {rows} AS n ON {same}"  # noqa: S608
        whole = f"{left} UNION ALL SELECT * FROM changes"  # noqa: S608
    elif changes.counts.insert_only:
        added = f"SELECT {listed} FROM {rows}"  # noqa: S608
        whole = f"SELECT {listed} FROM {there} UNION ALL SELECT * FROM changes"  # noqa: S608
    else:
        added, gone = (_copies(rows, columns, sign) for sign in ("", "-"))
        whole = f"(SELECT {listed} FROM {there} UNION ALL SELECT * FROM changes) EXCEPT ALL {gone}"  # noqa: S608
    return f"changes AS ({added}), `table` AS ({whole})"


def _copies(rows: str, columns: Sequence[LakeColumn], sign: str) -> str:
    """Returns a query of the rows that are added, or with the sign `-` removed, each as often as it is."""
    listed = ", ".join(quote(column.name) for column in columns)
    some = f"(SELECT {listed}, {sign}{COUNT} AS {COUNT} FROM {rows} WHERE {sign}{COUNT} > 0)"  # noqa: S608
    return f"SELECT * FROM {repeated(some, columns)}"  # noqa: S608
