"""Whether a MERGE adds deletion vectors to the files that it touches, or rewrites these files.

Vectors spare Spark the rows that stay as they are, for a further step: the statement looks up the place of each row
that goes. Where a backlog changes much of a table, that step costs more than the few rows that stay.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.connect.session import SparkSession

from spark_jobs.changes.table_changes import Changes, SeenChanges
from spark_jobs.lake.ddl import alter_table
from spark_jobs.lake.features import ENABLE_VECTORS
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.layout import Vectors
from spark_jobs.lake.state import TABLE, TableState
from spark_jobs.lake.tables import Lake
from spark_jobs.write.order import MOST_BYTES

LARGE_SHARE = 0.5  # of the rows in a table's files: a MERGE that changes more of them rewrites the files


def gains_by_vectors(
    lake: Lake, path: str, changes: Changes, seen: SeenChanges, between: tuple[int, int] | None = None
) -> bool:
    """Whether a MERGE of the changes costs Spark less with deletion vectors than without. `between`: bounds of the
    key, outside of which the statement leaves files out."""
    if lake.is_small(path):
        return False
    changed = most_changed(changes, seen)
    if not changed:  # unknown, or rows that only come
        return True
    there = rows_in_files(lake, path, changes.key[0] if between else "", between)
    return there is None or changed <= LARGE_SHARE * there


def most_changed(changes: Changes, seen: SeenChanges) -> int | None:
    """Returns how many rows of the table the changes update or delete, at most; None if only their images are
    counted."""
    return seen.rows - (changes.counts.gained or 0) if seen.form is None else None


def rows_in_files(lake: Lake, path: str, key: str = "", between: tuple[int, int] | None = None) -> int | None:
    """Returns how many rows are in the table's files, with those that deletion vectors leave out, by its log; None if
    that does not say. With bounds: of the files that may have a `key` between them."""
    files = pa.table(lake.open(path).get_add_actions(flatten=True))
    least, most = (files[name] if name in files.column_names else None for name in (f"min.{key}", f"max.{key}"))
    if between is not None and least is not None and most is not None:
        low, high = between
        outside = pc.or_kleene(pc.greater(least, high), pc.less(most, low))
        files = files.filter(pc.fill_null(pc.invert(outside), True))
    counts = files["num_records"]
    return None if counts.null_count else int(pc.sum(counts).as_py() or 0)


def give_vectors(spark: SparkSession, lake: Lake, fence: Fence, path: str, state: TableState) -> None:
    """Gives a large table deletion vectors, if it may have any, before a MERGE in Spark that gains by them. Tables
    begin without them, because delta-rs does not write them, and few readers know them. Raises LakeError when another
    run has the table."""
    vectors = lake.layout(state.properties.get(TABLE, "")).vectors
    if ENABLE_VECTORS in state.properties or vectors is Vectors.NEVER:
        return
    if vectors is Vectors.ALWAYS or lake.size(path) > MOST_BYTES:
        alter_table(spark, fence, path, f"SET TBLPROPERTIES ('{ENABLE_VECTORS}' = 'true')")
