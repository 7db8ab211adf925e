"""Makes Spark see a table's changes: net changes as a view, or all images as their change log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from pyspark.sql.connect.session import SparkSession

from spark_jobs.changes.net import CLAIMED, LOGGED
from spark_jobs.changes.table_changes import Changes, OfClaim, OfLog, SeenChanges
from spark_jobs.lake.sql import table_at
from spark_jobs.lake.state import TableState
from spark_jobs.lake.tables import Lake
from spark_jobs.write.net_file import staged
from spark_jobs.write.sorted_images import last_images
from spark_jobs.write.view import create_sent_view, create_view

_VIEW, _LEFT_OUT = "sluice_net", "sluice_left_out"


@contextmanager
def seen_by(
    spark: SparkSession, lake: Lake, destination: str, changes: Changes, state: TableState, sent_rows: int
) -> Iterator[SeenChanges]:
    """Yields the changes for a table in `state`, as Spark sees them within the block. Of a claim up to `sent_rows` rows
    are sent along. Raises DecodeError for a value that the service refuses, and LakeError."""
    left_out = ""
    if changes.left_out is not None:
        create_sent_view(spark, changes.left_out, _LEFT_OUT)
        left_out = _LEFT_OUT
    if isinstance(changes.source, OfClaim):
        with _claimed(spark, lake, destination, changes, changes.source, state, sent_rows) as seen:
            yield replace(seen, left_out=left_out)
    else:
        with _logged(spark, lake, destination, changes, changes.source, state) as seen:
            yield replace(seen, left_out=left_out)


@contextmanager
def _claimed(
    spark: SparkSession,
    lake: Lake,
    destination: str,
    changes: Changes,
    source: OfClaim,
    state: TableState,
    sent_rows: int,
) -> Iterator[SeenChanges]:
    # Neither sent along nor staged for a fresh table: a late append would add the rows again.
    sent_rows = 0 if state.fresh else sent_rows
    with staged(lake, destination, source.read, source.door, fresh=state.fresh) as file:
        create_view(spark, source.read, _VIEW, source.door, sent_rows, file)
        yield SeenChanges(_VIEW, changes.rows, fixed=file is not None, form=CLAIMED if source.images else None)


@contextmanager
def _logged(
    spark: SparkSession, lake: Lake, destination: str, changes: Changes, source: OfLog, state: TableState
) -> Iterator[SeenChanges]:
    log = source.log
    in_log = SeenChanges(table_at(source.path, log.version()), changes.rows, form=LOGGED, where=changes.range.sql)
    if not changes.key or changes.by_images(state):
        yield in_log
        return
    names = [column.name for column in changes.columns_in(state)]
    with last_images(lake, destination, log, changes.range, names, changes.key) as images:
        if images is None:
            yield in_log
            return
        images.create_view(spark, _VIEW)
        yield SeenChanges(_VIEW, images.rows, fixed=True)
