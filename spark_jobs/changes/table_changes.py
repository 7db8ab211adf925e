"""`Changes`: the changes of one table that one commit brings, from a claim or from its change log, and their net.

A claim's net changes are the service's: with a key, the last image of each; without one, signed counts of equal rows.
Of a log, Arrow or Spark finds the same. Either way the statement that follows gets the rows of `Changes.net`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pyarrow as pa
from deltalake import DeltaTable

from cdc_core.client.changes import PlanCounts, RowsDoor, TableRead
from cdc_core.contract.claim import Claim
from cdc_core.schema.table import TableSchema
from spark_jobs.changes.net import ImageForm, ImageQuery, grouped, repeated
from spark_jobs.changes.version_range import VersionRange
from spark_jobs.changes.whole_rows import whole_copies, whole_rows
from spark_jobs.lake.defaults import insert_defaults
from spark_jobs.lake.sql import quote
from spark_jobs.lake.state import TableState
from spark_jobs.lake.types import LakeColumn, lake_columns


@dataclass(frozen=True, slots=True)
class OfClaim:
    """The rows that the service hands out by Flight for `read`: net changes, or all `images`."""

    door: RowsDoor
    read: TableRead
    images: bool = False


@dataclass(frozen=True, slots=True)
class OfLog:
    """All images, in the files of the change log at `path`, which is opened at one version."""

    path: str
    log: DeltaTable


@dataclass(frozen=True, slots=True)
class SeenChanges:
    """The changes as Spark reads them: `sql` is a view or a table of net changes; or of all images, in a `form`, of
    which those count for which `where` holds. At most `rows`. `fixed`: they are the same however often and late Spark
    reads them."""

    sql: str
    rows: int
    fixed: bool = False
    form: ImageForm | None = None
    where: str = "true"
    left_out: str = ""


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of one table in a range. `definition`: the table's, `schema`: the columns in which they come; `rows`:
    how many come, at most. `counts`: the service's, or what the statistics of a log show. `left_out`: keys of which no
    change counts, None for none."""

    definition: TableSchema
    schema: pa.Schema
    range: VersionRange
    rows: int
    counts: PlanCounts
    source: OfClaim | OfLog
    left_out: pa.Table | None = field(default=None, repr=False)

    @classmethod
    def claimed(cls, claim: Claim, read: TableRead, door: RowsDoor, after: int | None) -> Changes:
        """Returns the net changes of a claim after version `after`."""
        asked = VersionRange(claim.epoch, after, claim.end.version())
        return cls(read.table, read.schema, asked, read.rows, read.counts, OfClaim(door, read))

    def as_images(self, read: TableRead) -> Changes:
        """Returns the same changes of a claim as `read`, which has all their images."""
        assert isinstance(self.source, OfClaim)
        source = replace(self.source, read=read, images=True)
        return replace(self, schema=read.schema, rows=read.rows, source=source)

    def without(self, keys: pa.Table) -> Changes:
        """Returns the same changes without those of these keys, which have a row after them. Its `counts` are those of
        the keys that are left, as far as they are counted by key."""
        if not keys.num_rows:
            return self
        left = {"rows": self.counts.rows - keys.num_rows, "upserts": self.counts.upserts - keys.num_rows}
        return replace(self, counts=replace(self.counts, **left), left_out=keys)

    @property
    def key(self) -> tuple[str, ...]:
        return self.definition.primary_key

    @property
    def columns(self) -> tuple[LakeColumn, ...]:
        """Returns the source's columns. Raises TableStopped for a name that a Delta table cannot have."""
        return lake_columns(self.schema, self.definition, self.counts.partial)

    def columns_in(self, state: TableState) -> tuple[LakeColumn, ...]:
        """Returns those that the table has: a policy may leave columns out."""
        there = {column.name for column in state.columns}
        return tuple(column for column in self.columns if column.name in there)

    def dropped_in(self, state: TableState) -> list[str]:
        """Returns the table's columns that the source has no more."""
        return sorted({column.name for column in state.columns}.difference(one.name for one in self.columns))

    def by_images(self, state: TableState) -> bool:
        """Whether the table is written by all images: for the columns of Sluice's, or since a row keeps what it has in
        a column that the source has dropped, and another row that gets its key does not. Where images leave columns
        out, no key may have got another row: `own_images.check_kept`."""
        return bool(state.own) or (bool(self.key) and not self.counts.lacking and bool(self.dropped_in(state)))

    def net(self, seen: SeenChanges, path: str, state: TableState) -> str:
        """Returns the net changes for the table at `path`: a view, or a query in brackets.

        With a key: the columns of each key's last image, and `OP`, 1 for a key that has a row then, 2 for one without;
        for a table that is written `by_images` what `ImageQuery.last` returns. Without a key: each distinct row, and
        `COUNT`, the copies added or removed; only the rows, as often as they come, if all were inserted."""
        columns = self.columns_in(state)
        if seen.form is not None:
            images = ImageQuery(seen.sql, columns, self.key, seen.where, seen.form)
            return self._counting(self._of_images(images, state), seen)
        rows = self._whole(seen.sql, path, columns) if self.counts.partial else seen.sql
        if self.key:
            return self._counting(rows, seen)
        return repeated(rows, columns) if self.counts.insert_only else grouped(rows, columns)

    def _counting(self, rows: str, seen: SeenChanges) -> str:
        """Returns the rows whose key is not left out."""
        if self.left_out is None:
            return rows
        same = " AND ".join(f"c.{quote(name)} = o.{quote(name)}" for name in self.key)
        return f"(SELECT c.* FROM {rows} AS c LEFT ANTI JOIN {seen.left_out} AS o ON {same})"  # noqa: S608

    def _of_images(self, images: ImageQuery, state: TableState) -> str:
        if self.by_images(state):
            return images.last(state.own, anew=bool(self.dropped_in(state)))
        return images.inserted() if not self.key and self.counts.insert_only else images.net()

    def _whole(self, view: str, path: str, columns: tuple[LakeColumn, ...]) -> str:
        """Returns a query in place of the view, for images that leave columns out."""
        defaults = insert_defaults(self.definition, self.columns)
        if not self.key:
            return whole_copies(view, columns, defaults)
        return whole_rows(path, view, columns, self.key, defaults, gone=bool(self.counts.deletes))
