"""One table as its log shows it when a statement reaches it, and the ways to commit a step to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from deltalake import CommitProperties
from pyspark.sql.connect.session import SparkSession

from cdc_core.errors import TableStopped
from cdc_core.position import split_version
from cdc_core.schema.names import split_name
from spark_jobs.apply.commits import ddl_note
from spark_jobs.apply.ddl.steps import Step
from spark_jobs.apply.table import Batch, found_progress
from spark_jobs.lake.copying import CopyNeeded
from spark_jobs.lake.ddl import alter_table, fill_old_rows, listed, with_own_columns
from spark_jobs.lake.failures import lake_errors
from spark_jobs.lake.fence import NOTHING
from spark_jobs.lake.progress import TableProgress
from spark_jobs.lake.record import app_versions, begun_properties, dropped_property, followed_property
from spark_jobs.lake.remedy import copy_hint
from spark_jobs.lake.replacement import emptied_rows, replace_table, rows_of
from spark_jobs.lake.state import TableState, app_id
from spark_jobs.lake.transaction import commit_nothing, transaction


@dataclass(frozen=True, slots=True)
class DdlTarget:
    """`table` is `database.table`; `state` and `progress` are None where the lake has no such table."""

    batch: Batch
    table: str
    path: str
    app: str
    state: TableState | None
    progress: TableProgress | None = None

    def has(self, step: Step, *, anew: bool = False) -> bool:
        """Whether the table has the step already, from this epoch or an earlier one of the same server. Raises
        CopyNeeded if that is not known, unless the table begins `anew` by the step."""
        try:
            return self.progress is not None and self.progress.has(replace(self.batch.range, end=step.version))
        except CopyNeeded:
            if not (anew or step.begins_anew):
                raise
            return False

    def note(self, step: Step) -> dict[str, str]:
        """The property that says how far the table followed."""
        return followed_property((self.batch.claim.epoch, step.version))

    def begun(self, step: Step) -> dict[str, str]:
        """Returns the properties for a step after which the table's earlier rows do not count."""
        return begun_properties((self.batch.claim.epoch, step.version))

    @property
    def live(self) -> TableState | None:
        """The state of a table that the source had before the step, as far as the lake knows."""
        return None if self.state is None or self.state.dropped else self.state

    @property
    def is_shard(self) -> bool:
        """Whether a union names the table's files."""
        return self.batch.lake.shard(*split_name(self.table)) is not None

    @contextmanager
    def session(self) -> Iterator[SparkSession]:
        """A session in which an error that the table causes stops the table alone."""
        remedy = copy_hint(self.batch.claim.destination, self.table)
        with self.batch.sessions.take() as spark, lake_errors(self.path, remedy):
            yield spark

    @contextmanager
    def committing(self, step: Step) -> Iterator[SparkSession]:
        """A session of which the next statement is the step's commit."""
        with self.session() as spark, transaction(spark, self.app, step.version, self._metadata(step), few=False):
            yield spark
        self.batch.fence.skip(self.path)

    def noted(self, step: Step) -> CommitProperties:
        """Returns the properties of the step's commit if delta-rs makes it."""
        of_step = app_versions({self.app: step.version})
        return CommitProperties(custom_metadata={"userMetadata": self._metadata(step)}, app_transactions=of_step)

    def _metadata(self, step: Step) -> str:
        batch, mending = self.batch, self.table in self.batch.stopped
        return ddl_note(batch.claim, self.table, batch.run_id, step.kind, step.ddl, step.version, mending=mending)


def standing(batch: Batch, table: str, *, whole: bool = True, anew: bool = False) -> DdlTarget:
    """Returns the table, which only this run changes from now on. Raises TableStopped for a table that is not Sluice's.
    Raises CopyNeeded for a table that lost commits, if it is wanted `whole`, and for a table without a key whose
    statements and rows are uncertain, unless it begins `anew`."""
    claim, lake = batch.claim, batch.lake
    path = lake.path(*split_name(table))
    app = app_id(claim.destination, claim.client_id, table, claim.epoch)
    found = found_progress(batch, table, path, whole=whole)
    state = batch.fence.enter(path, app, found.state) if found is not None else None
    return DdlTarget(batch, table, path, app, state, _progress(batch, table, state, anew))


def _progress(batch: Batch, table: str, state: TableState | None, anew: bool) -> TableProgress | None:
    """Returns the table's progress; a dropped table has no row that could be there twice."""
    progress = batch.record(table) if state is not None else None
    if state is None or progress is None or state.dropped or progress.keyed:
        return replace(progress, keyed=True) if progress else None
    try:
        progress.repeats(batch.range)
    except TableStopped as error:
        if anew:
            return replace(progress, keyed=True)
        raise CopyNeeded(error.message, table) from error
    return progress


def filled(at: DdlTarget) -> TableState | None:
    """The table's state when old rows have their values in columns that came with rows, which a dead run still owed."""
    if at.state is None or not at.state.unfilled:
        return at.state
    with at.session() as spark:
        fill_old_rows(spark, at.batch.fence, at.path, at.state, at.app)
    return at.batch.lake.state(at.path, at.app) or at.state


def mark(at: DdlTarget, step: Step, properties: Mapping[str, str] = NOTHING) -> None:
    """The table has the step, which may have changed its columns, and these properties: a commit of no row."""
    fence = at.batch.fence
    if fence.note(at.path, properties, at.noted(step)):
        return
    if properties:
        with at.session() as spark:
            alter_table(spark, fence, at.path, f"SET TBLPROPERTIES ({listed(properties)})")
    state = at.batch.lake.state(at.path, at.app)
    assert state is not None
    with at.committing(step) as spark:
        commit_nothing(spark, at.path, state.columns[0].name)


def retire(at: DdlTarget, step: Step) -> None:
    """Commits that the table has no rows and no definition any more: the next table of its name replaces it."""
    assert at.state is not None
    state, gone = at.state, dropped_property(step.ddl.position)
    with at.committing(step) as spark:
        rows = rows_of(spark, at.path, state.version, "false")
        replace_table(at.path, rows, state.columns, state.own_properties | at.begun(step) | gone, state.comment)


def empty(at: DdlTarget, step: Step) -> None:
    """The table has no rows, or all are marked as deleted; its definition stays."""
    assert at.state is not None
    batch = at.batch
    with lake_errors(at.path):
        state = with_own_columns(batch.sessions, batch.lake, batch.fence, at.path, at.table, at.state, at.app)
    number, offset = split_version(step.version)
    ran = step.ddl.position.timestamp
    time = None if ran is None else f"timestamp_millis({ran:d})"
    with at.committing(step) as spark:
        rows = emptied_rows(spark, at.path, state, f"{number}:{offset}", time)
        replace_table(at.path, rows, state.columns, state.own_properties | at.begun(step), state.comment)


def set_dropped(at: DdlTarget, step: Step) -> None:
    """Marks the table. Its rows stay."""
    mark(at, step, at.begun(step) | dropped_property(step.ddl.position))
