"""A cache of opened Delta tables, which are brought up to date instead of being read again.

To open a table reads its last checkpoint and every commit since. An open one reads only the commits that are new. It is
taken for the same table as long as the commit that it had read last is unchanged; otherwise it is opened anew. That
commit is looked at when the table was opened and again after its use, so that a table which another one replaced
meanwhile is not kept under the other's commit.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSystem, FileType, LocalFileSystem, PyFileSystem, SubTreeFileSystem

from spark_jobs.stores import local_folder

_MOST = 2000  # tables, of some 35 KB each
_MOST_FILES = 100_000  # of all kept tables, of some 0.4 KB each


@dataclass(frozen=True, slots=True)
class _Kept:
    """A table, its folder, the size and the time of the file of its last commit, None if there is none, and how many
    files it has, as of its last use."""

    table: DeltaTable
    folder: FileSystem
    commit: tuple[int, int] | None
    files: int = 0

    def renewed(self) -> _Kept | None:
        """Returns it with the table at its newest version, or None if it must be opened anew."""
        version, seen = self.table.version(), _commit(self.folder, self.table)
        if seen != self.commit:
            return None
        try:
            self.table.update_incremental()
        except (DeltaError, OSError):  # to open it says what is wrong
            return None
        return self if self.table.version() == version else replace(self, commit=_commit(self.folder, self.table))

    def used(self, version: int) -> _Kept | None:
        """Returns it after a use that began at `version`, or None if another table is at its place."""
        seen = _commit(self.folder, self.table)
        if seen is None or (self.table.version() == version and seen != self.commit):
            return None
        return replace(self, commit=seen, files=self.table.get_add_actions().num_rows)


class KeptTables:
    """The tables of one store, whose options for delta-rs are `storage`. Safe to use from several threads."""

    def __init__(self, storage: Mapping[str, str]) -> None:
        self._storage = dict(storage) or None
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = {}

    def __repr__(self) -> str:
        return f"<KeptTables {len(self._kept)}>"

    @contextmanager
    def newest(self, path: str) -> Iterator[DeltaTable]:
        """Yields the table at its newest version, for the block alone. Raises what delta-rs raises when it opens a
        table. After an error in the block the table is not kept."""
        with self._lock:
            kept = self._kept.pop(path, None)
        one = (kept.renewed() if kept else None) or self._opened(path)
        version = one.table.version()
        yield one.table
        try:
            used = one.used(version)
        except (DeltaError, OSError):  # the next look opens it
            return
        if used is None or used.files > _MOST_FILES:
            return
        with self._lock:
            self._kept[path] = used
            while len(self._kept) > _MOST or sum(kept.files for kept in self._kept.values()) > _MOST_FILES:
                del self._kept[next(iter(self._kept))]  # the one that was not asked for the longest

    def _opened(self, path: str) -> _Kept:
        table = DeltaTable(path, storage_options=self._storage)
        folder = folder_at(path, self._storage)
        return _Kept(table, folder, _commit(folder, table))


def folder_at(path: str, storage: Mapping[str, str] | None) -> FileSystem:
    """Returns a table's folder. One on a disk does without delta-rs, whose calls take ten times as long."""
    if local := local_folder(path):
        return SubTreeFileSystem(str(local), LocalFileSystem())
    return PyFileSystem(DeltaStorageHandler(path, dict(storage or {}) or None))


def _commit(folder: FileSystem, table: DeltaTable) -> tuple[int, int] | None:
    try:
        (found,) = folder.get_file_info([f"_delta_log/{table.version():020}.json"])
    except (DeltaError, OSError):
        return None
    return (found.size, found.mtime_ns) if found.type is FileType.File else None
