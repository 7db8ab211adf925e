"""`switch`: makes staged rows a table, in one commit at a known place.

The changes since the rows were read are laid over them: the changes of a snapshot's log, or nothing if no row was
handed out meanwhile. The staged files become the table's own if they can; otherwise Spark writes the rows once more.
The commit carries the table's app id and that place. Killed before it, the table is as it was; killed after it, it is
right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.connect.session import SparkSession

from cdc_core.rows.columns.batch import arrow_fields
from cdc_core.schema.column_rule import ZeroDates
from cdc_core.schema.table import TableSchema
from spark_jobs.expectations.expectation import NO_EXPECTATIONS, Expectations
from spark_jobs.lake.failures import lake_errors
from spark_jobs.lake.record import CopyNote
from spark_jobs.lake.state import TableState
from spark_jobs.lake.types import LakeColumn, lake_columns
from spark_jobs.load.adopt import adopt, adoptable, claim_own, remove_copies
from spark_jobs.load.change_log import ChangeLog, folded
from spark_jobs.load.files import files_of
from spark_jobs.load.judged import acceptances, judged, with_results
from spark_jobs.load.lost_keys import LostKeys, looked_up
from spark_jobs.load.overlay import laid_over
from spark_jobs.load.replacement import Replacement, Target, replace, staged_rows
from spark_jobs.load.result import Broken, Copied
from spark_jobs.load.staging import StagedRows
from spark_jobs.session import Sessions
from spark_jobs.snapshot.failures import asked
from spark_jobs.snapshot.foreign_keys import ForeignKey
from spark_jobs.snapshot.place import SnapshotPlace
from spark_jobs.snapshot.source import Source


@dataclass(frozen=True, slots=True)
class Meanwhile:
    """The changes in a snapshot's log after the place of its rows. `source`: the server at which rows that foreign keys
    changed are looked up; without it such a snapshot starts again."""

    log: ChangeLog
    source: Source | None = None
    zero_dates: ZeroDates = "fail"

    @property
    def lost(self) -> LostKeys:
        return LostKeys(self.log.lake, self.log.destination, self.log.snapshot_id)


@dataclass(frozen=True, slots=True)
class Load:
    """The new rows of a table: the `staged` rows, and over them the `changes` up to version `upto`. Without changes the
    rows have everything up to there. `place` is the table's place afterwards."""

    staged: StagedRows
    place: SnapshotPlace
    upto: int
    changes: Meanwhile | None = None

    @classmethod
    def of(cls, staged: StagedRows) -> Load:
        """Returns the load of the rows as they were read."""
        return cls(staged, staged.place, staged.place.low.version())

    @property
    def low(self) -> int:
        return self.staged.place.low.version()

    @property
    def log(self) -> ChangeLog | None:
        """Returns the log of the changes that are laid over the rows, or None."""
        if self.changes is None or self.upto <= self.low or self.changes.log.types() is None:
            return None
        return self.changes.log

    @property
    def by_snapshot(self) -> str:
        """Returns the id of the snapshot of the rows, or ""."""
        return self.changes.log.snapshot_id if self.changes else ""


def entered(target: Target) -> TableState | None:
    """Returns the table's state, or None if there is no table. Only this run changes it from now on."""
    claim_own(target)
    return target.entered()


def switch(
    target: Target,
    sessions: Sessions,
    load: Load,
    before: TableState | None,
    confirm: Callable[[], None],
    *,
    flushed: bool = True,
    expectations: Expectations = NO_EXPECTATIONS,
) -> Copied:
    """Makes the rows the table, if they are as expected. `before` is its state, as it was entered. `confirm` is called
    before the commit, and raises if the caller lost the claim that keeps rows after the place from being acked.
    `flushed`: the commit is on the disk when this returns.

    Raises WentOn if another run wrote the table meanwhile, Broken if the changes cannot be laid over the rows,
    TableStopped for a table that the lake cannot have, or whose rows break an expectation, LakeError if it cannot be
    written.
    """
    staged, client = load.staged, target.client
    results = judged(expectations, target, staged, load.log, load.upto) if expectations else ()
    note = CopyNote(client.epoch, load.upto, max(staged.place.high.version(), load.upto))
    mark = target.mark(before, load.upto)
    about = with_results(client.note(target.name, load.place, staged.rows, load.by_snapshot, note), results)
    new = Replacement(target, staged.schema, columns_of(staged.schema), before, note, mark, about)
    confirm()
    if before is not None:
        target.fence.check(target.path)
    _commit(sessions, load, new)
    version = target.committed(about, flushed=flushed)
    if results:
        acceptances(target).end(target.name)
    return Copied(staged.schema, load.place, staged.rows, version, (note.epoch, note.high), results)


def columns_of(schema: TableSchema) -> tuple[LakeColumn, ...]:
    """Returns the columns of the lake's table."""
    return lake_columns(pa.schema(arrow_fields(schema)), schema)


def _commit(sessions: Sessions, load: Load, new: Replacement) -> None:
    target, staged = new.target, load.staged
    if load.changes is not None and load.upto > load.low:
        for key, path in load.changes.lost.tables():
            _look_up(sessions, load, load.changes, new.note.epoch, key, path)
    # A table's own files take a second commit, for its properties: a switch killed in between must be done again.
    rows = target.lake.open(staged.path)
    if load.by_snapshot and adoptable(rows, new):
        log = load.log
        over = (staged.path, staged.schema, log, load.low, load.upto) if log else None
        files = laid_over(target.lake, *over) if over else files_of(rows)
        if files is not None:
            adopt(rows, staged.path, files, new)
            return
    if new.state is None:
        remove_copies(target)
    with sessions.take() as spark, lake_errors(target.path):
        replace(spark, _rows(spark, load), new)


def _rows(spark: SparkSession, load: Load) -> DataFrame:
    """Returns the rows as they are at `upto`."""
    if (log := load.log) is not None:
        return _folded(spark, log, load.staged, load.low, load.upto)
    return staged_rows(spark, load.staged.path)


def _folded(spark: SparkSession, log: ChangeLog, staged: StagedRows, low: int, upto: int) -> DataFrame:
    columns = columns_of(staged.schema)
    names = [column.name for column in columns]
    key = [names.index(name) for name in staged.schema.primary_key]
    return folded(spark, staged.path, log.path, [column.type for column in columns], key, low, upto)


def _look_up(sessions: Sessions, load: Load, changes: Meanwhile, epoch: int, key: ForeignKey, lost: str) -> None:
    """Brings the rows that a foreign key changed at the source meanwhile into the log. Raises Broken if it cannot."""
    staged, name = load.staged, load.staged.schema.name
    if changes.source is None:
        hint = "Start the snapshot again."
        raise Broken("a foreign key changed its rows, which the binlog does not record", place=name, hint=hint)
    with asked(changes.source, name) as connection, sessions.take() as spark, lake_errors(staged.path):
        rows, columns = _rows(spark, load), columns_of(staged.schema)
        found = looked_up(
            spark, connection, rows, staged.schema, columns, key, lost, changes.zero_dates, changes.source.rules
        )
    if found is not None:
        changes.log.correct(found, epoch, load.upto)
