"""The lake: a Delta table for each MySQL table, and its state by its log.

Logs are read with delta-rs, without Spark.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSelector, FileType, PyFileSystem

from cdc_core.errors import LakeError, TableStopped
from cdc_core.schema.names import full_name, split_name
from spark_jobs.lake.catalog_names import CatalogRules
from spark_jobs.lake.failures import first_line
from spark_jobs.lake.folders import folder_of, name_of
from spark_jobs.lake.kept_tables import KeptTables
from spark_jobs.lake.layout import Layout, Layouts
from spark_jobs.lake.own_columns import Own
from spark_jobs.lake.paths import LOG_SUFFIX, QUARANTINE_SUFFIX, Paths
from spark_jobs.lake.record import CopyNote, Marks
from spark_jobs.lake.row_rules import RowRules
from spark_jobs.lake.state import DESTINATION, HISTORY, LOG, QUARANTINE, TABLE, UPKEEP, DeltaCommit, Origin, TableState
from spark_jobs.lake.types import LakeColumn, delta_type
from spark_jobs.lake.unions import NO_UNIONS, Unions
from spark_jobs.stores import check_root, local_folder, scheme_of

SMALL_TABLE = 256 << 10  # bytes; each MERGE leaves as many for VACUUM
_RECENT = 20  # commits that are read first
_BESIDE = frozenset((LOG, HISTORY, QUARANTINE))  # properties of tables that belong to another table
_UPKEEP = ("OPTIMIZE", "VACUUM")  # how such operations begin


class Lake(Paths):
    """A root path or URI. `complete` says that tables made from now on begin with the source's first row: it becomes a
    property of theirs. `storage` are delta-rs' options for a URI. `rules` say which columns Sluice adds to tables, and
    `layouts` how tables are laid out; None if they are not known: each table keeps its own.
    `catalog`: the names that tables have in a catalog; None if they are in none. `unions` say which tables of the
    source are shards of one table here."""

    def __init__(
        self,
        root: str | Path,
        *,
        complete: bool = False,
        storage: dict[str, str] | None = None,
        rules: RowRules | None = None,
        catalog: CatalogRules | None = None,
        layouts: Layouts | None = None,
        unions: Unions = NO_UNIONS,
    ) -> None:
        super().__init__(root, unions)
        self.complete = complete
        self.rules = rules
        self.catalog = catalog
        self.layouts = layouts
        self.storage = storage or {}
        self._kept = KeptTables(self.storage)

    def __repr__(self) -> str:
        return f"<Lake {self.root}>"

    def layout(self, table: str) -> Layout:
        """Returns the layout that `database.table` should have; the plain one if that is not known."""
        layout = self.layouts.of(table) if self.layouts else Layout()
        return layout.of_shard(table) if self.unions.of(table) else layout

    def ignores_case(self) -> bool:
        """Whether the lake's store treats names that differ only in case as one name. Object stores do not."""
        local = local_folder(self.root)
        if local is None:
            return False
        root = local.absolute()
        there = next((one for one in (root, *root.parents) if one.is_dir()), root)
        try:
            with tempfile.NamedTemporaryFile(dir=there, prefix=".sluice-CASE-") as probe:
                name = Path(probe.name)
                return name.with_name(name.name.swapcase()).exists()
        except OSError:
            return False

    @property
    def is_local(self) -> bool:
        """Whether it is in a file system of this machine."""
        return scheme_of(self.root) == "file"

    def check_writable(self) -> None:
        """Raises LakeError for a local root that cannot be written, and for a store whose configuration could lose
        commits. The first write shows whether another store can be written."""
        check_root(self.root, {**os.environ, **self.storage})
        root = local_folder(self.root)
        if root is None:
            return
        try:
            root.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=root):
                pass
        except OSError as error:
            hint = "Make the directory writable for the account that runs Spark, or name another lake."
            raise LakeError(f"the lake cannot be written: {error.strerror}", place=str(root), hint=hint) from error

    def has(self, database: str, table: str) -> bool:
        """Whether the table has a Delta table, whatever it holds. Raises LakeError for a lake that is unavailable."""
        path = self.path(database, table)
        try:
            return DeltaTable.is_deltatable(path, self.storage or None)
        except (DeltaError, OSError) as error:
            hint = "Make the lake readable."
            raise LakeError(f"the lake cannot be read: {first_line(error)}", place=path, hint=hint) from error

    def open(self, path: str, version: int | None = None) -> DeltaTable:
        """Returns the table, or a version of it, opened with delta-rs. Raises what delta-rs raises."""
        return DeltaTable(path, version=version, storage_options=self.storage or None)

    def live_tables(self, destination: str) -> list[str]:
        """Returns the tables of all databases, `database.table`, that the source has as far as the lake knows.

        Raises LakeError when a folder cannot be read."""
        names = (name for database in self.databases() for name in self.tables(database, destination))
        return [name for name in names if self.is_live(name)]

    def databases(self) -> list[str]:
        """Returns the databases that have a folder, also those of shards alone. Raises LakeError when a folder cannot
        be read."""
        found = (name_of(name) for root in self.roots for name in self.folders_in(root) if name != "_sluice")
        return list(dict.fromkeys(found))

    def logs(self, destination: str) -> list[str]:
        """Returns the tables, `database.table`, that have a change log. Raises LakeError when a folder cannot be
        read."""
        return self._having(destination, LOG_SUFFIX, LOG)

    def quarantines(self, destination: str) -> list[str]:
        """Returns the tables, `database.table`, that have a quarantine. Raises LakeError when a folder cannot be
        read."""
        return self._having(destination, QUARANTINE_SUFFIX, QUARANTINE)

    def _having(self, destination: str, suffix: str, kind: str) -> list[str]:
        found = []
        for database in (name for name in self.folders_in(self.root) if name != "_sluice"):
            for name in self.folders_in(f"{self.root}/{database}"):
                if name_of(name).endswith(suffix):
                    properties = self._properties(f"{self.root}/{database}/{name}")
                    if properties.get(DESTINATION) == destination and properties.get(kind) == "true":
                        found.append(properties[TABLE])
        return found

    def _properties(self, path: str) -> dict[str, str]:
        """Returns a table's properties, empty for a table that cannot be read: its next reader raises the error."""
        try:
            return dict(self.open(path).metadata().configuration)
        except (DeltaError, OSError):
            return {}

    def is_live(self, name: str) -> bool:
        """Whether the source has `database.table`, as far as the lake knows."""
        try:
            state = self.state(self.path(*split_name(name)), "")
        except TableStopped:
            return True
        return state is not None and not state.dropped

    def folders(self) -> list[str]:
        """Returns the folders in which tables may be, `database/table`, below the root. Raises LakeError when a folder
        cannot be read."""
        databases = sorted(name for name in self.folders_in(self.root) if name != "_sluice")
        return [f"{one}/{table}" for one in databases for table in sorted(self.folders_in(f"{self.root}/{one}"))]

    def folders_in(self, path: str) -> list[str]:
        """Returns the names of the folders in a path; empty if there is none. Raises LakeError when it cannot be
        read."""
        try:
            found = PyFileSystem(DeltaStorageHandler(path, self.storage or None)).get_file_info(FileSelector(""))
        except TableNotFoundError:
            return []
        except (DeltaError, OSError) as error:
            hint = "Make the lake readable; the batch stays claimable."
            raise LakeError(f"the folder cannot be read: {first_line(error)}", place=path, hint=hint) from error
        return [info.base_name for info in found if info.type is FileType.Directory]

    def tables(self, database: str, destination: str) -> list[str]:
        """Returns the tables of a database, `database.table`: the destination's, without their change logs, histories
        and quarantines, and all whose Delta log is damaged.

        Raises LakeError when the database's folder cannot be read.
        """
        names = []
        for name, path in self._paths_in(database):
            try:
                state = self.state(path, "")
            except TableStopped:
                names.append(full_name(database, name))
                continue
            if state is None or not _BESIDE.isdisjoint(state.properties):
                continue
            if state.properties.get(DESTINATION) == destination:
                names.append(state.properties[TABLE])
        return names

    def _paths_in(self, database: str) -> Iterator[tuple[str, str]]:
        """Yields the names that have a folder, with the paths where their tables may be; unions are left out."""
        unions = {self.path(*split_name(one.table)) for one in self.unions.all}
        plain = f"{self.root}/{folder_of(database)}"
        for folder in self.folders_in(plain):
            if (path := f"{plain}/{folder}") not in unions:
                yield name_of(folder), path
        for union in self.unions.all:
            for name in map(name_of, self.folders_in(f"{self.shards_path(union)}/{folder_of(database)}")):
                if union in self.unions.among([full_name(database, name)]):
                    yield name, self.path(database, name)

    def state(self, path: str, app: str, version: int | None = None) -> TableState | None:
        """Returns the table's state, or that of one `version`; None if there is no Delta table.

        Raises TableStopped for a damaged log, LakeError when the log cannot be read.
        """
        return next(iter(self.states(path, [app], version)), None)

    def states(self, path: str, apps: Sequence[str], version: int | None = None) -> list[TableState]:
        """Returns the state for each app id, by looking at the table once; empty if there is no Delta table."""
        try:
            if version is not None:
                return _states(self.open(path, version), apps)
            with self._kept.newest(path) as table:
                return _states(table, apps)
        except TableNotFoundError:
            return []
        except DeltaError as error:
            hint = "Restore its _delta_log, or move the table away and reload it (sluice copy)."
            raise TableStopped(f"the Delta table is damaged: {first_line(error)}", place=path, hint=hint) from error
        except OSError as error:
            hint = "Make the lake readable; the batch stays claimable."
            raise LakeError(f"the Delta table cannot be opened: {first_line(error)}", place=path, hint=hint) from error

    def origin(self, path: str) -> Origin | None:
        """Returns when and from what the table was made, or None if there is no readable table."""
        try:
            metadata = self.open(path).metadata()
        except (DeltaError, OSError):
            return None
        made = datetime.fromtimestamp(metadata.created_time / 1000, UTC)
        return Origin(made, CopyNote.of(dict(metadata.configuration)))

    def applied(self, path: str, apps: Sequence[str]) -> list[int | None]:
        """Returns the txnVersion of each app id in a table, None for an id that has written nothing."""
        if not apps:
            return []
        table = self.open(path)
        return [table.transaction_version(app) for app in apps]

    def commits(self, path: str) -> Iterator[DeltaCommit]:
        """Yields the commits that the table's log still has, the latest first."""
        recent = self._history(path, _RECENT)
        yield from map(_commit, recent)
        if len(recent) == _RECENT:
            last = recent[-1]["version"]
            yield from (_commit(entry) for entry in self._history(path) if entry["version"] < last)

    def commit_noted(self, path: str, metadata: str) -> DeltaCommit | None:
        """Returns the latest commit with that user metadata, or None."""
        return next((one for one in self.commits(path) if one.user_metadata == metadata), None)

    def _history(self, path: str, limit: int | None = None) -> list[dict[str, Any]]:
        """Returns the commits in the table's log. It reads again if a commit came meanwhile: delta-rs reads up to the
        newest one, but counts from the version that was opened."""
        table = self.open(path)
        while True:
            version, entries = table.version(), table.history(limit)
            table.update_incremental()
            if table.version() == version:
                return entries

    def written_at(self, path: str) -> int:
        """Returns the time of the latest commit that is not upkeep of files, in milliseconds since the epoch. If too
        many commits of upkeep follow it, the time of the oldest of them."""
        recent = self.open(path).history(_RECENT)
        written = [entry for entry in recent if not _is_upkeep(entry)]
        return int((written or recent[-1:])[0]["timestamp"])

    def commits_since(self, path: str, since: int) -> Iterator[DeltaCommit]:
        """Yields the commits after that time, in milliseconds since the epoch, that are not upkeep of files."""
        later = (entry for entry in self._history(path, None) if int(entry["timestamp"]) > since)
        yield from (_commit(entry) for entry in later if not _is_upkeep(entry))

    def is_small(self, path: str) -> bool:
        """Whether rewriting all of the table's files costs Spark less than one deletion vector does."""
        return self.size(path) <= SMALL_TABLE

    def size(self, path: str) -> int:
        """Returns the size of the table's files in bytes."""
        sizes = pa.table(self.open(path).get_add_actions()).column("size_bytes")
        return int(pc.sum(sizes).as_py() or 0)

    def rows(self, path: str) -> int | None:
        """Returns how many rows the table has by its log, or None if that does not say: a file has no statistics, or
        the table may have deletion vectors."""
        with self._kept.newest(path) as table:
            if "deletionVectors" in (table.protocol().reader_features or ()):
                return None
            counts = pa.table(table.get_add_actions())["num_records"]
        return None if counts.null_count else int(pc.sum(counts).as_py() or 0)

    def is_torn(self, path: str, version: int) -> bool:
        """Whether the file of a commit is empty, as a power cut can leave it. Only local lakes are checked."""
        folder = local_folder(path)
        if folder is None:
            return False
        commit = folder / "_delta_log" / f"{version:020}.json"
        return commit.is_file() and not commit.stat().st_size

    def bytes_outside(self, path: str, column: str, low: int, high: int) -> int:
        """Returns the size of the files without a value of an integer column from `low` to `high`, by their
        statistics."""
        files = pa.table(self.open(path).get_add_actions(flatten=True))
        least, most = f"min.{column}", f"max.{column}"
        if least not in files.column_names or most not in files.column_names:
            return 0
        named = (files.column(name).to_pylist() for name in (least, most, "size_bytes"))
        known = ((a, b, size) for a, b, size in zip(*named, strict=True) if a is not None and b is not None)
        return sum(size for a, b, size in known if b < low or a > high)


def _states(table: DeltaTable, apps: Sequence[str]) -> list[TableState]:
    properties, fields = dict(table.metadata().configuration), table.schema().fields
    own = Own.of(properties).present([field.name for field in fields])
    columns = tuple(_column(field) for field in fields if field.name not in own.names)
    comment = str(table.metadata().description or "")
    marks = Marks.of(properties)
    version = table.version()
    fresh = version == 0 and not table.file_uris()
    features = frozenset(table.protocol().writer_features or ())
    applied = [marks.applied(app, table.transaction_version(app)) for app in apps]
    return [TableState(version, one, columns, properties, comment, own, fresh, features) for one in applied]


def _column(field: Any) -> LakeColumn:
    return LakeColumn(field.name, delta_type(field.type), str(field.metadata.get("comment", "")))


def _is_upkeep(entry: dict[str, Any]) -> bool:
    noted = (entry.get("userMetadata") or "").startswith(f'{{"{UPKEEP}"')
    return noted or entry.get("operation", "").partition(" ")[0] in _UPKEEP


def _commit(entry: dict[str, Any]) -> DeltaCommit:
    went = str((entry.get("operationParameters") or {}).get("version", ""))
    operation = entry.get("operation", "")
    restored = int(went) if operation == "RESTORE" and went.isdecimal() else None
    return DeltaCommit(
        entry["version"], entry.get("userMetadata") or "", entry.get("operationMetrics", {}), operation, restored
    )
