"""Names the rows that a commit met against the presumption of the source's changes, or missed.

The sums of a commit show that there are some, not which. All images of the range are read once more, and compared by
key with the table as it was before the commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql.connect.session import SparkSession

from cdc_core.client.changes import RowsDoor
from cdc_core.contract.claim import Claim
from spark_jobs.apply.commits import Commit
from spark_jobs.changes.net import CLAIMED
from spark_jobs.lake.doubt import KEYS, Doubt
from spark_jobs.lake.sql import literal, quote, table_at
from spark_jobs.lake.types import OP, LakeColumn, lake_columns
from spark_jobs.write.view import create_view

_VIEW = "sluice_images"
_LENGTH = 64  # characters of one value
_ORDER = f"struct({', '.join(CLAIMED.order)})"


@dataclass(frozen=True, slots=True)
class ClaimChanges:
    """A table's images in a claim, after version `after`."""

    claim: Claim
    table: str
    after: int | None
    door: RowsDoor


def odd_rows(spark: SparkSession, path: str, source: ClaimChanges, commit: Commit) -> Doubt:
    """Returns the number of odd keys, and some of them, such as `id=5`. `commit` is the table's newest."""
    read = source.door.info(source.claim, source.table, mode="changes", after=source.after)
    if commit.delta_version is None or not read.tickets:
        return Doubt()
    create_view(spark, read, _VIEW, source.door, sent_rows=0)
    columns = [one for one in lake_columns(read.schema, read.table) if one.name in read.table.primary_key]
    found = spark.sql(_question(path, columns, commit.delta_version - 1)).collect()
    counts = {fresh: rows for _, fresh, rows in found}
    return Doubt(counts.get(True, 0), counts.get(False, 0), tuple(text for text, *_ in found))


def _question(path: str, key: Sequence[LakeColumn], version: int) -> str:
    """Returns the query for some keys whose first image presumes a row that the table did not have, or no row although
    it had one; with the number of each kind."""
    names = ", ".join(quote(column.name) for column in key)
    shown = ", ".join(f"concat({literal(f'{column.name}=')}, left({_text(column)}, {_LENGTH}))" for column in key)
    same = " AND ".join(f"c.{quote(column.name)} = t.{quote(column.name)}" for column in key)
    table = table_at(path, version)
    return (
        f"WITH c AS (SELECT {names}, min_by({OP}, {_ORDER}) IN ('insert', 'update_after') AS fresh "  # noqa: S608
        f"FROM {_VIEW} GROUP BY {names}), "
        f"t AS (SELECT DISTINCT {names}, true AS there FROM (SELECT * FROM {table}) AS t LEFT SEMI JOIN c ON {same}), "
        f"odd AS (SELECT concat_ws(', ', {shown}) AS text, fresh FROM c LEFT JOIN t ON {same} "
        "WHERE fresh = (there IS NOT NULL)), "
        "numbered AS (SELECT *, count(*) OVER (PARTITION BY fresh) AS found, "
        "row_number() OVER (PARTITION BY fresh ORDER BY text) AS number FROM odd) "
        f"SELECT text, fresh, found FROM numbered WHERE number <= {KEYS // 2} ORDER BY fresh, text"
    )


def _text(column: LakeColumn) -> str:
    name = f"c.{quote(column.name)}"
    return f"hex({name})" if column.type == "binary" else f"CAST({name} AS STRING)"
