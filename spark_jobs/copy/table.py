"""`copy_table`: one table of the lake reloaded from the source, at a known position, in one commit.

Rows of the stream up to the position are left out afterwards, rows behind it apply once. Until the commit the old table
stays whole. The caller sees to it that no row behind the position is acked meanwhile: it holds a claim.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pyarrow as pa

from cdc_core.position import EntryPosition
from cdc_core.rows.columns.batch import arrow_fields
from cdc_core.rows.columns.cells import ZeroDates
from spark_jobs.copy.commit import Replacement, replace, staged_rows
from spark_jobs.copy.open import Opened, opened
from spark_jobs.copy.result import Copied, LakeClient, NoSuchTable
from spark_jobs.copy.staged import StagedRows, Staging
from spark_jobs.copy.staging import temporary
from spark_jobs.copy.target import Target
from spark_jobs.lake.failures import lake_errors
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.record import CopyNote
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.types import lake_columns
from spark_jobs.session import Sessions
from spark_jobs.snapshot.limits import Limits
from spark_jobs.snapshot.reading import read_rows
from spark_jobs.snapshot.source import Source


def copy_table(
    source: Source,
    lake: Lake,
    sessions: Sessions,
    fence: Fence,
    client: LakeClient,
    database: str,
    table: str,
    *,
    zero_dates: ZeroDates = "fail",
    progress: Callable[[int], None] = lambda _: None,
    confirm: Callable[[EntryPosition], None] = lambda _: None,
    sleep: Callable[[float], None] = time.sleep,
) -> Copied | NoSuchTable:
    """Makes the lake's table anew. A table that the source does not have is told; nothing is written then.

    `progress` is told the rows so far. `confirm` is called with the position before the commit, and raises where the
    caller lost what keeps rows behind it from being acked.
    Raises SourceError where no position can be had (`snapshot.place`), TableStopped for a table that a lake cannot
    have or that somebody else made, DecodeError for a refused value, WentOn when somebody wrote the table meanwhile.
    """
    target = Target(lake, fence, client, database, table)
    lake.check_writable()
    before = target.entered()
    with opened(source, database, table, as_text=zero_dates == "string", sleep=sleep) as there:
        if isinstance(there, NoSuchTable):
            return there
        note = CopyNote(client.epoch, there.place.low.version(), there.place.high.version())
        mark = target.mark(before, note.low)
        columns = lake_columns(pa.schema(arrow_fields(there.schema)), there.schema)
        with temporary(lake, client.destination) as staging:
            staged = stage_view(staging, there, zero_dates, progress)
            confirm(there.place.low)
            about = client.note(target.name, there.place, staged.rows)
            new = Replacement(target, there.schema, columns, before, note, mark, about)
            if before is not None:
                fence.check(target.path)
            with sessions.take() as spark, lake_errors(target.path):
                replace(spark, staged_rows(spark, staged.path), new)
    return Copied(there.schema, there.place, staged.rows, target.committed(about))


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
