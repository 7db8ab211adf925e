"""One table read in one view of the source.

`copy_table` makes the lake's table of it, while the caller holds a claim: so a table is loaded whose changes no log can
keep (images that leave columns out), and one of a run that has the claim already. Rows of the stream up to the place
are left out afterwards, rows behind it apply once. Until the commit the old table stays whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pyarrow as pa

from cdc_core.rows.columns.cells import ZeroDates
from spark_jobs.copy.open import Opened, opened
from spark_jobs.copy.result import Copied, NoSuchTable
from spark_jobs.copy.staged import StagedRows, Staging
from spark_jobs.copy.staging import temporary
from spark_jobs.copy.switch import Load, entered, switch
from spark_jobs.copy.target import Target
from spark_jobs.session import Sessions
from spark_jobs.snapshot.limits import Limits
from spark_jobs.snapshot.reading import read_rows
from spark_jobs.snapshot.source import Source


def copy_table(
    source: Source,
    target: Target,
    sessions: Sessions,
    *,
    zero_dates: ZeroDates = "fail",
    progress: Callable[[int], None] = lambda _: None,
    confirm: Callable[[], None] = lambda: None,
    sleep: Callable[[float], None] = time.sleep,
) -> Copied | NoSuchTable:
    """Reloads the lake's table. Where the source has no such table nothing is written.

    `progress` is told the rows so far. `confirm` is called before the commit, and raises where the caller lost what
    keeps rows behind the place from being acked.
    Raises SourceError where no position can be had (`snapshot.place`), TableStopped for a table that a lake cannot
    have or that somebody else made, DecodeError for a refused value, WentOn when somebody wrote the table meanwhile.
    """
    target.lake.check_writable()
    before, as_text = entered(target), zero_dates == "string"
    with (
        opened(source, target.database, target.table, as_text=as_text, sleep=sleep) as there,
        temporary(target.lake, target.client.destination) as staging,
    ):
        if isinstance(there, NoSuchTable):
            return there
        staged = stage_view(staging, there, zero_dates, progress)
        return switch(target, sessions, Load.of(staged), before, confirm)


def stage_view(
    staging: Staging,
    there: Opened,
    zero_dates: ZeroDates,
    progress: Callable[[int], None],
    limits: Limits | None = None,
) -> StagedRows:
    """Stages all rows of a table that is opened in one view. `progress` is told how many there are so far.

    Raises DecodeError for a refused value, LakeError where they cannot be staged, and pymysql's errors.
    """

    def counted() -> Iterator[pa.RecordBatch]:
        rows = 0
        for batch in read_rows(there.connection, there.schema, zero_dates, limits=limits):
            rows += batch.num_rows
            progress(rows)
            yield batch

    return StagedRows(staging.path, there.schema, there.place, staging.write(counted(), there.schema))
