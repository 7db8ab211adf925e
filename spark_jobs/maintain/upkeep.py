"""`Upkeep`: rewrites one table's small files as large ones, a large table's rows in the order of its key, and deletes
files that no kept version needs.

No row changes, no property and no txnVersion. Killed anywhere, it is done again; finished commits stay. `turns` keeps
it out of the way of runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from deltalake.exceptions import DeltaError
from pyspark.errors import PySparkException
from pyspark.sql import Row
from pyspark.sql.connect.session import SparkSession

from cdc_core.client.connector import Connector
from cdc_core.errors import LakeError, TableStopped
from cdc_core.schema.names import full_name, split_name
from spark_jobs.following.history.columns import work_of
from spark_jobs.following.now import refresh_landed_view
from spark_jobs.following.pending import Follows
from spark_jobs.lake.failures import first_line, lake_errors
from spark_jobs.lake.layout import Layout
from spark_jobs.lake.sql import quote
from spark_jobs.lake.state import HISTORY, QUARANTINE, TABLE, TableState, app_id
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.transaction import is_conflict
from spark_jobs.landing.log import TableLog
from spark_jobs.landing.parked import Parking
from spark_jobs.maintain.key_order import KeyOrder, Reorder
from spark_jobs.maintain.readers import ReaderChange, ReaderPlan, reader_plan
from spark_jobs.maintain.result import Maintained, Ordered
from spark_jobs.maintain.retention import LEAST_HOURS, RETENTION, retention_hours
from spark_jobs.maintain.shape import LARGE, SMALL, Shape, shape
from spark_jobs.maintain.slices import AS_SHIPPED, KeyFile, RewriteLimits, depth
from spark_jobs.maintain.turns import Turns
from spark_jobs.session import Sessions
from spark_jobs.stores import local_folder
from spark_jobs.union.settled import needed_by_union

_OPTIMIZE = {
    "spark.databricks.delta.optimize.minFileSize": str(SMALL),
    "spark.databricks.delta.optimize.maxFileSize": str(LARGE),
}
_DAY = 86_400.0  # seconds: whoever has begun to write is done
_VACUUM = {"spark.sql.sources.parallelPartitionDiscovery.parallelism": "16"}  # 10,000 tasks by default, for any table


@dataclass(frozen=True, slots=True)
class Upkeep:
    """Maintains tables of one client. `quiet_seconds`: after so long without waiting changes no run lingers. `stays`: a
    run is always there, so files are rewritten while a claim is held, or not at all. `readers`: tables are brought to
    their layout too, and to the features that their columns need."""

    connector: Connector
    lake: Lake
    sessions: Sessions
    quiet_seconds: float = 30.0
    stays: bool = False
    clock: Callable[[], float] = time.monotonic
    limits: RewriteLimits = AS_SHIPPED
    readers: bool = False

    def table(self, database: str, table: str) -> Maintained:
        """Maintains a table. Raises LakeError if the lake or Spark fails, SessionError when another owner keeps a claim
        for too long. A table that is stopped, foreign, gone or damaged is left alone."""
        name, begun = full_name(database, table), self.clock()
        state = self._state(database, table)
        if isinstance(state, str):
            return Maintained(name, left=state)
        path = self.lake.path(database, table)
        follows = partial(self._follows_log, name, state)
        found = self._maintained(name, name, path, state, begun, follows, keyed=True)
        return replace(found, deleted=found.deleted + self._of_quarantine(database, table, found.retention_hours))

    def has_history(self, table: str) -> bool:
        """Whether there is a history of `database.table`, or was one. Raises LakeError."""
        try:
            state = self.lake.state(self.lake.history_path(*split_name(table)), "")
        except TableStopped:
            return True
        return state is not None and HISTORY in state.properties

    def history(self, table: str) -> Maintained:
        """Does the same for the history of `database.table`, which no claim writes."""
        begun, path = self.clock(), self.lake.history_path(*split_name(table))
        name = f"{table}__history"
        try:
            state = self.lake.state(path, "")
            if state is None:
                return Maintained(name, left="the table has no history")
            state.check_owner(self.connector.destination, table, path)
        except TableStopped as error:
            return Maintained(name, left=str(error))
        return self._maintained(name, work_of(table), path, state, begun, lambda: True, keyed=False)

    def _maintained(
        self, name: str, work: str, path: str, state: TableState, begun: float, without_claims: Callable[[], bool], *,
        keyed: bool,
    ) -> Maintained:  # fmt: skip
        """Maintains the table at a path. `work` is its name for runs that merge logs. `without_claims`: whether its
        runs hold none. `keyed`: whether a key has one row."""
        order = KeyOrder(self.lake, self.sessions, self.limits)
        try:
            before, files = shape(self.lake, path), order.files(path, state) if keyed else {}
            wanted = self._reader_plan(path, state, before.bytes, keyed=keyed) if self.readers else ReaderPlan()
            steps = [ReaderChange(self.lake, self.sessions, path, step) for step in wanted.steps]
            todo: list[Callable[[], bool]] = [*steps, *self._todo(path, state, before, order, files)]
            alongside = bool(todo) and without_claims()
            turns = Turns(self.connector, self.quiet_seconds, self.stays, self.clock)
            owner = (self.connector.destination, self.connector.client_id)
            turn = partial(Parking(self.lake, *owner).turn, work)
            done = turns.alongside(todo, turn) if alongside else turns.between(path, todo)
            hours = retention_hours(state.properties)
            kept = "" if hours else f"{RETENTION} is {state.properties[RETENTION]!r}, which is not understood"
            kept = kept or (needed_by_union(self.lake, name) if keyed else "")
            deleted = self._vacuum(path, hours) if hours and not kept else 0
            if deleted and keyed:  # its view may have read them
                refresh_landed_view(self.sessions, Follows(self.lake, *owner), name)
            after, ordered = shape(self.lake, path), order.files(path, state) if keyed else {}
        except (DeltaError, OSError) as error:
            hint = "Make the lake readable and writable, then run it again."
            raise LakeError(f"the table cannot be read: {first_line(error)}", place=path, hint=hint) from error
        slices = [work.part.size for work in done if isinstance(work, Reorder)]
        found = Ordered(depth(files), depth(ordered), len(slices), sum(slices)) if files and ordered else None
        idle = len(done) < len(todo) and not alongside
        return Maintained(
            name, before, after, any(work not in steps for work in done), deleted, hours, self.clock() - begun,
            kept=kept, idle=idle, ordered=found,
            changed=tuple(one.step.text for one in steps if one in done), lasting=wanted.lasting,
        )  # fmt: skip

    def _todo(
        self, path: str, state: TableState, before: Shape, order: KeyOrder, files: Mapping[str, KeyFile]
    ) -> Sequence[Callable[[], bool]]:
        """Returns the commits that pay. The commits of a table that is kept in order keep or bring it in order."""
        compact = partial(self._rewritten, path)
        if not files:
            return [compact] if before.piled_up else []
        if depth(files) == 1.0 and not before.piled_up:
            return []
        found = order.plan(path, state, files)
        return [Reorder(order, path, state, part) for part in found.slices] or ([compact] if found.piled_up else [])

    def _reader_plan(self, path: str, state: TableState, size: int, *, keyed: bool) -> ReaderPlan:
        """Returns what brings a table, or a history, to its layout."""
        name = state.properties.get(TABLE, "")
        is_shard = keyed and self.lake.unions.of(name) is not None
        layout = self.lake.layout(name) if self.lake.layouts or is_shard else None
        if not keyed and layout is not None:  # a history has its own partitions
            layout = Layout(layout.vectors)
        partitions = tuple(self.lake.open(path).metadata().partition_columns) if keyed else ()
        return reader_plan(path, state, layout, size, partitions, local=self.lake.is_local)

    def _state(self, database: str, table: str) -> TableState | str:
        """The table's state, or why it is left alone."""
        name, destination = full_name(database, table), self.connector.destination
        status = self.connector.client_status()
        for stop in status.stopped:
            if stop.table == name:
                return f"it is stopped: {stop.reason}"
        try:
            path = self.lake.path(database, table)
            state = self.lake.state(path, app_id(destination, self.connector.client_id, name, status.epoch))
            if state is None:
                return "the lake has no such table"
            state.check_owner(destination, name, path)
        except TableStopped as error:
            return str(error)
        return "the source no longer has the table" if state.dropped else state

    def _follows_log(self, table: str, state: TableState) -> bool:
        """Whether the table's last rows came from its log. Otherwise runs that hold claims write it."""
        client = self.connector.client_status()
        try:
            log = TableLog(self.lake, self.connector.destination, self.connector.client_id, table).open()
        except TableStopped:
            return False
        end = log.end(client.epoch) if log and log.is_owned else None
        return end is not None and end >= (state.applied or 0)

    def _rewritten(self, path: str) -> bool:
        """Rewrites small files. Returns False if another run wrote the table meanwhile: then nothing was changed."""
        with self.sessions.take() as spark, lake_errors(path):
            try:
                _with(spark, _OPTIMIZE, f"OPTIMIZE delta.{quote(path)}")
            except PySparkException as error:
                if is_conflict(error):
                    return False
                raise
        return True

    def _of_quarantine(self, database: str, table: str, hours: int | None) -> int:
        """Deletes files of earlier versions of a table's quarantine, if it has one, and returns how many."""
        path = self.lake.quarantine_path(database, table)
        try:
            state = self.lake.state(path, "")
        except TableStopped:  # it is damaged, which its table's batches say
            return 0
        return self._vacuum(path, hours) if hours and state is not None and QUARANTINE in state.properties else 0

    def _vacuum(self, path: str, hours: int) -> int:
        """Deletes files that no version of the last `hours` needs, and returns how many. Never below a week."""
        command = f"VACUUM delta.{quote(path)} RETAIN {max(hours, LEAST_HOURS)} HOURS"
        with self.sessions.take() as spark, lake_errors(path):
            found = len(_with(spark, _VACUUM, f"{command} DRY RUN"))
            if found:
                _with(spark, _VACUUM, command)
        if folder := local_folder(path):
            _drop_checksums(folder / "_delta_log", time.time() - _DAY)
        return found


def _drop_checksums(log: Path, before: float) -> None:
    """Deletes checksums from before a time whose commits are gone: on a local disk Spark writes some beside each of its
    commits, and delta-rs, which deletes old commits too, does not know them."""
    there = {file.name for file in log.iterdir()}
    versions = {name.partition(".")[0] for name in there if not name.endswith(".crc")}
    for name in sorted(there, reverse=True):  # that of a version comes before its own
        of = name.removesuffix(".crc")
        if name == of or of in versions or of.removeprefix(".") in there:
            continue
        with suppress(OSError):  # the next maintenance tries again
            if (log / name).stat().st_mtime < before:
                (log / name).unlink()
                there.remove(name)


def _with(spark: SparkSession, settings: dict[str, str], statement: str) -> list[Row]:
    """Returns the rows of a statement, which alone runs with these settings of the session."""
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        return spark.sql(statement).collect()
    finally:
        for key in settings:
            spark.conf.unset(key)
