"""`Remaker`: a table reloaded from one of its earlier versions, or from nothing, and its change log; in one commit.

Neither source nor binlog is needed. The table is at the same place before and after: only its rows are replaced. The
commit carries the app id of the table's batches and the number behind the last batch's version, at which no event ends,
as a repair's does: Delta skips or refuses it when a batch was written meanwhile. Killed before it, the table is as it
was; killed behind it, it is right. It is done again in either case.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession

from cdc_core.errors import LakeError
from spark_jobs.changes.columns import EPOCH, OP, TRUNCATE, VERSION
from spark_jobs.changes.net import ImageQuery, within
from spark_jobs.copy.commit import CONFLICTS
from spark_jobs.copy.result import WentOn
from spark_jobs.following.base import Base, base_of
from spark_jobs.following.now import logged, shown
from spark_jobs.following.parked import Parking
from spark_jobs.following.pending import Follows
from spark_jobs.lake.failures import lake_errors
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.record import REPAIRS, Mark, marked_property
from spark_jobs.lake.remedy import copy_hint
from spark_jobs.lake.replacement import replace_table
from spark_jobs.lake.sql import quote, table_at
from spark_jobs.lake.state import TableState
from spark_jobs.lake.transaction import transaction
from spark_jobs.session import Sessions

_TRIES = 5  # a try is lost to a run that wrote the table meanwhile


@dataclass(frozen=True, slots=True)
class Remade:
    """A table reloaded: the version that the commit made, and how many rows it has."""

    base: Base
    delta_version: int
    rows: int
    seconds: float = 0.0
    untold: str = ""


@dataclass(frozen=True, slots=True)
class Remaker:
    """For tables of one client. `run_id` is told in the commits; `views`: a table's view is rebuilt."""

    follows: Follows
    sessions: Sessions
    run_id: str = ""
    views: bool = False
    sleep: Callable[[float], None] = time.sleep

    def table(self, table: str, version: int | None) -> Remade:
        """From `version`, or from nothing. Raises what `base_of` raises, before anything is written; LakeError where
        runs write the table again and again."""
        began, follows = time.perf_counter(), self.follows
        for left in reversed(range(_TRIES)):
            try:
                made = self._made(base_of(follows, table, version))
                break
            except WentOn as error:
                if not left:
                    raise _busy(follows, table) from error
            self.sleep(1.0)
        Parking(follows.lake, follows.destination, follows.client_id).free(table)
        untold = shown(self.sessions, follows, table) if self.views else ""
        return Remade(made.base, made.delta_version, made.rows, time.perf_counter() - began, untold)

    def _made(self, base: Base) -> Remade:
        follows, path = self.follows, self.follows.path(base.table)
        fence = Fence(follows.lake, self.sessions)
        mark = self._mark(base)
        app = follows.app(base.table, mark.epoch)
        fence.enter(path, app, base.now, marked_property(base.now.properties, mark))
        again = base_of(follows, base.table, base.version)
        if (again.stretches, again.place, again.now.columns) != (base.stretches, base.place, base.now.columns):
            raise WentOn(path)
        about = self._about(base, fence.token)
        with self.sessions.take() as spark, lake_errors(path, copy_hint(follows.destination, base.table)):
            rows = self._rows(spark, again)
            self._check_fence(fence, path, again.now.version)
            _commit(spark, path, rows, again.now, (app, mark.upto), about)
        made = next((one for one in follows.lake.commits(path) if one.user_metadata == about), None)
        if made is None or made.version != again.now.version + 1:  # what came in between is in the log: once more
            raise WentOn(path)
        return Remade(again, made.version, made.count("numOutputRows"))

    def _check_fence(self, fence: Fence, path: str, version: int) -> None:
        """Raises WentOn where the table is not this run's any more, or not at the version that was looked at."""
        try:
            fence.check(path)
        except LakeError as error:
            raise WentOn(path) from error
        if self.follows.lake.open(path).version() != version:
            raise WentOn(path)

    def _mark(self, base: Base) -> Mark:
        """The mark of the commit. Raises LakeError when there is none left."""
        (epoch, at), path = base.place, self.follows.path(base.table)
        app = self.follows.app(base.table, epoch)
        mark = Mark.behind(epoch, at, self.follows.lake.applied(path, [app])[0], REPAIRS)
        if mark is None:
            hint = copy_hint(self.follows.destination, base.table)
            raise LakeError(f"its rows were replaced {REPAIRS} times since its last batch", place=path, hint=hint)
        return mark

    def _about(self, base: Base, token: str) -> str:
        """Delta's user metadata, as JSON without a `$`, which Spark would replace. No other commit has the same."""
        told = {"table": base.table, "from": base.version, "place": list(base.place), "run_id": self.run_id}
        return json.dumps({"remade": told | {"token": token}}).replace("$", "\\u0024")

    def _rows(self, spark: SparkSession, base: Base) -> str:
        """The query of the rows that the table must have. Raises WentOn where its log has not the last statement that
        emptied it."""
        path = self.follows.path(base.table)
        log = table_at(base.log.log.path, base.log.version)
        where = _within(base)
        asked = f"SELECT {EPOCH}, {VERSION} FROM {log} WHERE ({where}) AND {OP} = '{TRUNCATE}'"  # noqa: S608
        emptied = max(((int(one[0]), int(one[1])) for one in spark.sql(asked).collect()), default=None)
        if base.truncated is not None and (emptied is None or emptied < base.truncated):
            hint = f"Begin from a version behind the statement. {copy_hint(self.follows.destination, base.table)}"
            raise LakeError("the log does not have the statement that emptied the table", place=path, hint=hint)
        listed = ", ".join(quote(column.name) for column in base.now.columns)
        begins = f"SELECT {listed} FROM {table_at(path, base.version or 0)}"  # noqa: S608
        if base.version is None or emptied is not None:
            begins = "SELECT " + ", ".join(f"CAST(NULL AS {c.type}) AS {quote(c.name)}" for c in base.now.columns)
            begins += " WHERE false"
        if emptied is not None:
            epoch, version = emptied
            where = f"({where}) AND ({EPOCH} > {epoch:d} OR ({EPOCH} = {epoch:d} AND {VERSION} > {version:d}))"
        changes = ImageQuery(log, logged(base.log.table, base.now.columns), base.key, f"({where})")
        return changes.over(f"({begins})", base.now.columns)


def _busy(follows: Follows, table: str) -> LakeError:
    hint = (
        f"Use the job remake_{follows.destination}, which takes turns with the runs that merge; nothing was replaced."
    )
    return LakeError("runs write the table again and again", place=follows.path(table), hint=hint)


def _within(base: Base) -> str:
    """The condition for the log's rows that are applied to the base."""
    parts = [f"({within(one.epoch, one.after, one.upto)})" for one in base.stretches]
    return " OR ".join(parts) or "1 = 0"  # Spark takes `WHERE (false)` for an alias


def _commit(spark: SparkSession, path: str, query: str, state: TableState, at: tuple[str, int], about: str) -> None:
    """`at`: app id and txnVersion. Raises WentOn where another commit came in between."""
    try:
        with transaction(spark, *at, about):
            replace_table(path, spark.sql(query), state.columns, state.own_properties, state.comment)
    except PySparkException as error:
        if any(word in str(error) for word in CONFLICTS):
            raise WentOn(path) from error
        raise
