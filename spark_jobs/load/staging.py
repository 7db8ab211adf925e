"""The staging of a load's rows until they are in their table: groups of chunks, each one commit of a staging table.

The staging table's log is the truth: each commit says how many groups and rows there are, and where the next group
begins. A group whose commit carries a number that is there already is not committed again.

The staged rows of a snapshot wait for the run that continues it. The staged rows of a copy under a hold end with it: a
killed copy leaves its folder, and the next copy removes it. A living copy writes its mark every minute, so a folder
that was not written for an hour has no owner. All times are the store's own.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction, RemoveAction
from pyarrow.fs import FileSelector, FileType, PyFileSystem

from cdc_core.errors import LakeError
from cdc_core.schema.table import TableSchema
from spark_jobs.lake.failures import first_line
from spark_jobs.lake.record import app_versions
from spark_jobs.lake.statistics import INDEXED_COLUMNS, MOST_INDEXED, new_file
from spark_jobs.lake.tables import Lake
from spark_jobs.load.files import Files, StagedFile, staged_schema, unwritable
from spark_jobs.snapshot.chunk import Chunk
from spark_jobs.snapshot.place import SnapshotPlace

_MARK, _ONE_ROW = "_alive", pa.table({"0": [1]})  # a table of its own: every store takes what delta-rs writes
COPIES = "copies"  # snapshots are staged outside: they have no owner's mark, and may wait for longer
_EVERY = 60.0  # seconds between two marks
_PATIENCE = 3600.0  # seconds without any


@dataclass(frozen=True, slots=True)
class Groups:
    """The staged groups. `last` is the last staged chunk, None before the first group. Rows without a group are of an
    earlier version's copy, one commit without a note."""

    count: int = 0
    chunks: int = 0
    rows: int = 0
    last: Chunk | None = None

    @property
    def whole(self) -> bool:
        """Whether nothing is left to be read: the last chunk has no end."""
        return self.last is not None and self.last.high is None

    def then(self, chunks: Sequence[Chunk]) -> Groups:
        """Returns it with one group more, whose rows are counted when it is committed."""
        return replace(self, count=self.count + 1, chunks=self.chunks + len(chunks), last=chunks[-1])

    def to_json(self) -> str:
        """Returns Delta's user metadata of a group's commit. The rows are counted by the table's files."""
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
    and no transaction after `place.high`; without a key the two are one place."""

    path: str
    schema: TableSchema
    place: SnapshotPlace
    rows: int


class Staging:
    """The folder of a snapshot's rows until they are in their table."""

    def __init__(self, lake: Lake, destination: str, snapshot_id: str) -> None:
        self.lake, self.id = lake, snapshot_id
        self.home = lake.staging_path(destination, snapshot_id)
        self.path = f"{self.home}/rows"

    def staged(self) -> Groups:
        """Returns the staged groups. Raises LakeError for a log that cannot be read."""
        try:
            table = self.lake.open(self.path)
            texts = (one.user_metadata for one in self.lake.commits(self.path) if one.user_metadata)
            files = pa.table(table.get_add_actions(flatten=True))
            rows = int(pc.sum(files["num_records"]).as_py() or 0)
            return Groups.from_json(text, rows) if (text := next(texts, None)) else Groups(rows=rows)
        except TableNotFoundError:
            return Groups()
        except (DeltaError, OSError) as error:
            hint = "Cancel the snapshot, which removes its staged rows, and start it again."
            raise LakeError(
                f"the staged rows cannot be read: {first_line(error)}", place=self.path, hint=hint
            ) from error

    def table(self, schema: pa.Schema) -> DeltaTable:
        """Returns the table as it is before a group is read, and creates it if needed. Raises LakeError."""
        try:
            return DeltaTable.create(
                self.path,
                schema,
                mode="ignore",
                configuration={INDEXED_COLUMNS: str(MOST_INDEXED)},  # the table's own may be any, up to that
                storage_options=self.lake.storage or None,
            )
        except (DeltaError, OSError) as error:
            raise unwritable(self.path, error) from error

    def commit(self, table: DeltaTable, files: Sequence[StagedFile], then: Groups) -> None:
        """Commits a group's files. Raises LakeError, also if another run has committed the group."""
        added: list[AddAction | RemoveAction] = [new_file(file.path, file.size, file.stats) for file in files]
        noted = CommitProperties(
            custom_metadata={"userMetadata": then.to_json()}, app_transactions=app_versions({self.id: then.count})
        )
        try:
            if (table.transaction_version(self.id) or 0) >= then.count:
                raise CommitFailedError("another run has staged the same rows")
            table.create_write_transaction(added, "append", table.schema(), commit_properties=noted)
        except (DeltaError, OSError) as error:
            raise unwritable(self.path, error) from error

    def write(self, batches: Iterable[pa.RecordBatch], schema: TableSchema) -> int:
        """Stages all rows of a table as one group, and returns their number. Raises LakeError, and what `batches`
        raise."""
        columns = staged_schema(schema)
        table, files = self.table(columns), Files(self.path, self.lake.storage, columns)
        for batch in batches:
            files.add(batch)
        written = files.end()
        self.commit(table, written, Groups().then([Chunk(0)]))
        return sum(file.rows for file in written)

    def keep_groups(self) -> Groups:
        """Removes rows that belong to no group, and returns the groups. Raises LakeError."""
        found = self.staged()
        if found.rows and not found.count:
            self.clear()
            return Groups()
        return found

    def clear(self) -> None:
        """Removes the rows. The change log stays, which runs write."""
        with suppress(OSError, DeltaError):
            DeltaStorageHandler(self.path, self.lake.storage or None).delete_dir("")

    def remove(self) -> None:
        with suppress(OSError, DeltaError):
            DeltaStorageHandler(self.home, self.lake.storage or None).delete_dir("")


@contextmanager
def temporary(lake: Lake, destination: str, every: float = _EVERY) -> Iterator[Staging]:
    """Yields a staging that is removed after the block. Stagings without an owner are removed before it."""
    store, name, ended = DeltaStorageHandler(lake.root, lake.storage or None), uuid.uuid4().hex, threading.Event()
    staging = Staging(lake, destination, f"{COPIES}/{name}")
    root = lake.staging_path(destination, COPIES).removeprefix(f"{lake.root}/")
    _mark(lake, staging.home)
    _remove_dead(store, root, name)
    thread = threading.Thread(target=_keep_marked, args=(lake, staging.home, ended, every), name="staging", daemon=True)
    thread.start()
    try:
        yield staging
    finally:
        ended.set()
        thread.join()
        staging.remove()


def _keep_marked(lake: Lake, path: str, ended: threading.Event, every: float) -> None:
    while not ended.wait(every):
        _mark(lake, path)


def _mark(lake: Lake, path: str) -> None:
    """Writes a mark. Errors are ignored: the next mark may succeed, and writing the rows shows a store that is down."""
    with suppress(OSError, DeltaError):
        write_deltalake(f"{path}/{_MARK}", _ONE_ROW, mode="overwrite", storage_options=lake.storage or None)


def _remove_dead(store: DeltaStorageHandler, root: str, own: str) -> None:
    with suppress(OSError, DeltaError):
        for name in dead(_written(store, root), own):
            _remove(store, f"{root}/{name}")


def _written(store: DeltaStorageHandler, root: str) -> dict[str, float]:
    """Returns the time of the last write in each folder, in seconds by the store's clock."""
    last: dict[str, float] = {}
    for info in PyFileSystem(store).get_file_info(FileSelector(root, recursive=True)):
        name, below, _ = info.path.removeprefix(f"{root}/").partition("/")
        if info.type is FileType.File and below and info.mtime_ns is not None:
            last[name] = max(last.get(name, 0.0), info.mtime_ns / 1e9)
    return last


def dead(written: Mapping[str, float], own: str) -> list[str]:
    """Returns the folders without an owner. The own folder was written just now; if it is missing in `written`, nothing
    is known."""
    now = written.get(own, 0.0)
    return sorted(name for name, last in written.items() if last < now - _PATIENCE)


def _remove(store: DeltaStorageHandler, folder: str) -> None:
    with suppress(OSError, DeltaError):
        store.delete_dir(folder)
