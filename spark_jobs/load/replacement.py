"""Replaces a table of the lake in one commit of Spark's.

The target is fenced before, noted with the commit, and found again after it. The commit is Spark's, because a table may
have features that delta-rs cannot write. It carries the table's app id and the copy's mark: Delta skips it when the
table has moved on meanwhile, and refuses it when a commit came in between.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.connect.functions import col
from pyspark.sql.connect.session import SparkSession

from cdc_core.errors import LakeError
from cdc_core.schema.names import full_name, split_name
from cdc_core.schema.table import TableSchema
from spark_jobs.lake.ddl import table_properties
from spark_jobs.lake.features import MAPPING
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.layout import LAYOUT
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.own_columns import OWN, Own
from spark_jobs.lake.progress import landed_ends
from spark_jobs.lake.record import ROOM, CopyNote, Mark, copied_properties
from spark_jobs.lake.replacement import replace_table
from spark_jobs.lake.sql import quote
from spark_jobs.lake.state import COMPLETE, RULES, TableState
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.transaction import is_conflict, transaction
from spark_jobs.lake.types import LakeColumn
from spark_jobs.load.result import LakeClient, WentOn
from spark_jobs.session import Sessions
from spark_jobs.stores import flush

_MAPPED = "delta.columnMapping."  # its other properties are Delta's own count


@dataclass(frozen=True, slots=True)
class Target:
    """One table of the lake, for one client."""

    lake: Lake
    fence: Fence
    client: LakeClient
    database: str
    table: str

    @classmethod
    def fenced(cls, lake: Lake, sessions: Sessions, client: LakeClient, name: str) -> Target:
        """Returns `database.table` with its own fence."""
        return cls(lake, Fence(lake, sessions), client, *split_name(name))

    @property
    def name(self) -> str:
        return full_name(self.database, self.table)

    @property
    def path(self) -> str:
        return self.lake.path(self.database, self.table)

    @property
    def app(self) -> str:
        return self.client.app(self.name)

    def entered(self) -> TableState | None:
        """Fences the table against writers of earlier claims, and returns its state, or None if there is no table.
        Raises TableStopped for a table that somebody else made."""
        state = self.lake.state(self.path, self.app)
        if state is None:
            return None
        state.check_owner(self.client.destination, self.name, self.path)
        return self.fence.enter(self.path, self.app, state)

    def mark(self, before: TableState | None, low: int) -> Mark:
        """Returns the mark of a copy with every row up to version `low`. Raises WentOn for a table that is beyond
        it, LakeError if all numbers of that place are used."""
        last, epoch = self.lake.applied(self.path, [self.app])[0] if before else None, self.client.epoch
        if last is None or last < low:
            return Mark(epoch, low, low)
        mark = Mark.next(epoch, low, last)
        if mark is not None:
            return mark
        if before is not None and before.applied == low:
            hint = "Copy it again when the source has written anything, for example after FLUSH BINARY LOGS there."
            message = f"it was copied or mended {ROOM} times while the source wrote nothing"
            raise LakeError(message, place=self.name, hint=hint)
        raise WentOn(self.path)

    def committed(self, about: str, *, flushed: bool = True) -> int:
        """Returns the Delta version of the commit with that metadata. It is on the disk, unless the caller flushes
        several (`flushed`), and from here on no statement of an earlier epoch begins. Raises WentOn if Delta skipped
        the commit, or such a statement came after it."""
        commit = self.lake.commit_noted(self.path, about)
        if commit is None:
            raise WentOn(self.path)
        self.fence.skip(self.path)
        self._pass_epochs(about)
        if flushed:
            flush(self.lake.root)
        return commit.version

    def _pass_epochs(self, about: str) -> None:
        """Makes Delta skip late merges of earlier epochs' changes. Such a merge may have been sent and not begun, and
        would not see the copy. An empty commit says that the table has these changes. Raises WentOn if a merge was
        faster."""
        client = self.client
        if not client.epoch:
            return
        ends = landed_ends(Ledger(self.lake, client.destination, client.client_id), self.name, client.epoch - 1)
        apps = {dataclasses.replace(client, epoch=epoch).app(self.name): end for epoch, end in ends.items()}
        applied = dict(zip(apps, self.lake.applied(self.path, [*apps]), strict=True))
        if passed := {app: end for app, end in apps.items() if (applied[app] or 0) < end}:
            self.fence.pass_over(self.path, passed)
        since = takewhile(lambda commit: commit.user_metadata != about, self.lake.commits(self.path))
        if any(int(commit.note.get("epoch", client.epoch)) < client.epoch for commit in since):
            raise WentOn(self.path)


@dataclass(frozen=True, slots=True)
class Replacement:
    """The replacement of a table by a commit. `state`: the table's, None if there is no table; `mark`: the commit's
    txnVersion, and its meaning; `metadata`: Delta's user metadata."""

    target: Target
    schema: TableSchema
    columns: tuple[LakeColumn, ...]
    state: TableState | None
    note: CopyNote
    mark: Mark
    metadata: str

    @property
    def properties(self) -> dict[str, str]:
        """Returns Sluice's properties, and those that others have set on the old table, also for Delta, but of a shard
        none by which its union could not name its files. Without rules the table keeps the added columns of the old
        one. Raises TableStopped for a table that cannot have them."""
        old, target = dict(self.state.properties) if self.state else {}, self.target
        if target.lake.shard(target.database, target.table):
            old = {key: value for key, value in old.items() if key not in (MAPPING, LAYOUT)}
        kept = {key: value for key, value in old.items() if key.startswith("delta.") and not key.startswith(_MAPPED)}
        kept |= {MAPPING: old[MAPPING]} if MAPPING in old else {}
        if target.lake.rules is None and OWN in old:
            Own.of(old).check(self.schema.name, self.schema.primary_key, [column.name for column in self.columns])
            kept[OWN] = old[OWN]
        if target.lake.layouts is None and LAYOUT in old:
            kept[LAYOUT] = old[LAYOUT]
        ours = table_properties(target.lake, target.client.destination, self.schema, target.fence.token)
        sluices = {key: value for key, value in ours.items() if not key.startswith("delta.")}
        declared = target.lake.layout(self.schema.name).declared
        no_rules = {RULES: "{}"} if RULES in old else {}  # a property of an exchanged table stays otherwise
        return (
            no_rules | ours | kept | sluices | declared | copied_properties(self.note, self.mark) | {COMPLETE: "true"}
        )


def staged_rows(spark: SparkSession, path: str) -> DataFrame:
    """Returns the rows of a staging table, with numbers for column names."""
    rows = spark.read.format("delta").load(path)
    return rows.toDF(*(str(number) for number in range(len(rows.columns))))


def replace(spark: SparkSession, rows: DataFrame, new: Replacement) -> None:
    """Replaces the table in one commit by rows with numbers for column names. Nothing is written when the table is at
    the mark or beyond. Raises WentOn when another commit came in between."""
    spark.conf.set("spark.sql.parquet.datetimeRebaseModeInRead", "CORRECTED")
    names = [col(quote(str(number))).alias(column.name) for number, column in enumerate(new.columns)]
    target = new.target
    with one_commit(spark, target.path, target.app, new.mark.upto, new.metadata):
        replace_table(target.path, rows.select(*names), new.columns, new.properties, new.schema.comment)


@contextmanager
def one_commit(
    spark: SparkSession, path: str, app: str, version: int, metadata: str, *, few: bool = False, rewrites: bool = False
) -> Iterator[None]:
    """Makes the block's one statement one commit of the table at `path`: see `transaction`. Raises WentOn when another
    commit came in between."""
    try:
        with transaction(spark, app, version, metadata, few=few, rewrites=rewrites):
            yield
    except PySparkException as error:
        if is_conflict(error):
            raise WentOn(path) from error
        raise
