"""What a snapshot has staged in the lake so far: groups of chunks, each one commit of the staging table.

The staging table's log is the truth: each commit says how many groups and rows there are, and where the next group
begins. A group whose commit carries a number that is there already is not committed again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction, RemoveAction

from cdc_core.errors import LakeError
from cdc_core.schema.table import TableSchema
from spark_jobs.copy.files import Files, StagedFile, staged_schema, unwritable
from spark_jobs.lake.failures import first_line
from spark_jobs.lake.tables import Lake
from spark_jobs.snapshot.chunk import Chunk
from spark_jobs.snapshot.place import SnapshotPlace


@dataclass(frozen=True, slots=True)
class Groups:
    """`last` is the last chunk that is staged, None before the first group."""

    count: int = 0
    chunks: int = 0
    rows: int = 0
    last: Chunk | None = None

    @property
    def whole(self) -> bool:
        """Whether nothing is left to be read: the last chunk has no end."""
        return self.last is not None and self.last.high is None

    def then(self, chunks: Sequence[Chunk]) -> Groups:
        """With one group more; its rows are counted when it is there."""
        return replace(self, count=self.count + 1, chunks=self.chunks + len(chunks), last=chunks[-1])

    def to_json(self) -> str:
        """Delta's user metadata of a group's commit. The rows are those of the table's files."""
        last = self.last and {"number": self.last.number, "high": self.last.high}
        return json.dumps({"groups": self.count, "chunks": self.chunks, "last": last})

    @classmethod
    def from_json(cls, text: str, rows: int) -> Groups:
        fields = json.loads(text)
        high = fields["last"]["high"]
        last = Chunk(fields["last"]["number"], None, None if high is None else tuple(high))
        return cls(fields["groups"], fields["chunks"], rows, last)


@dataclass(frozen=True, slots=True)
class StagedRows:
    """A table's rows as they were read, in the staging table at `path`. They have every transaction up to `place.low`,
    and none behind `place.high`; without a key the two are one place."""

    path: str
    schema: TableSchema
    place: SnapshotPlace
    rows: int


class Staging:
    """Where a snapshot's rows lie until they are in their table."""

    def __init__(self, lake: Lake, destination: str, snapshot_id: str) -> None:
        self.lake, self.id = lake, snapshot_id
        self.home = lake.staging_path(destination, snapshot_id)
        self.path = f"{self.home}/rows"

    def staged(self) -> Groups:
        """Raises LakeError for a log that cannot be read."""
        try:
            table = self.lake.open(self.path)
            texts = (one.user_metadata for one in self.lake.commits(self.path) if one.user_metadata)
            files = pa.table(table.get_add_actions(flatten=True))
            return Groups.from_json(next(texts), int(pc.sum(files["num_records"]).as_py() or 0))
        except (TableNotFoundError, StopIteration):
            return Groups()
        except (DeltaError, OSError) as error:
            hint = "Cancel the snapshot, which removes what is staged, and begin it anew."
            raise LakeError(
                f"what is staged cannot be read: {first_line(error)}", place=self.path, hint=hint
            ) from error

    def table(self, schema: pa.Schema) -> DeltaTable:
        """The table as it is before a group is read; it is made where there is none. Raises LakeError."""
        try:
            return DeltaTable.create(self.path, schema, mode="ignore", storage_options=self.lake.storage or None)
        except (DeltaError, OSError) as error:
            raise unwritable(self.path, error) from error

    def commit(self, table: DeltaTable, files: Sequence[StagedFile], then: Groups) -> None:
        """One commit of a group's files. Raises LakeError, also where another run has committed the group."""
        added: list[AddAction | RemoveAction] = [
            AddAction(file.path, file.size, {}, 0, True, file.stats) for file in files
        ]
        noted = CommitProperties(
            custom_metadata={"userMetadata": then.to_json()}, app_transactions=[Transaction(self.id, then.count)]
        )
        try:
            if (table.transaction_version(self.id) or 0) >= then.count:
                raise CommitFailedError("another run has staged the same rows")
            table.create_write_transaction(added, "append", table.schema(), commit_properties=noted)
        except (DeltaError, OSError) as error:
            raise unwritable(self.path, error) from error

    def write(self, batches: Iterable[pa.RecordBatch], schema: TableSchema) -> int:
        """Stages all rows of a table as one group; how many there are. Raises LakeError, and what `batches` raise."""
        columns = staged_schema(schema)
        table, files = self.table(columns), Files(self.path, self.lake.storage, columns)
        for batch in batches:
            files.add(batch)
        written = files.end()
        self.commit(table, written, Groups().then([Chunk(0)]))
        return sum(file.rows for file in written)

    def clear(self) -> None:
        """Removes the rows. The change log stays, which runs write."""
        with suppress(OSError, DeltaError):
            DeltaStorageHandler(self.path, self.lake.storage or None).delete_dir("")

    def remove(self) -> None:
        with suppress(OSError, DeltaError):
            DeltaStorageHandler(self.home, self.lake.storage or None).delete_dir("")
