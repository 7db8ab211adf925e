"""A folder in the lake for the rows of one copy, until they are in their table.

It ends with the copy. A copy that was killed leaves its folder behind; the next one removes it. A copy that lives
writes its mark every minute, so what nobody has written for an hour has no owner. All times are the store's own.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

import pyarrow as pa
from deltalake import write_deltalake
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSelector, FileType, PyFileSystem

from spark_jobs.copy.staged import Staging
from spark_jobs.lake.tables import Lake

_MARK, _ONE_ROW = "_alive", pa.table({"0": [1]})  # a table of its own: what delta-rs writes, every store takes
COPIES = "copies"  # what a snapshot stages has no owner's mark, and may wait for longer: it lies beside
_EVERY = 60.0  # seconds between two marks
_PATIENCE = 3600.0  # seconds without any


@contextmanager
def temporary(lake: Lake, destination: str, every: float = _EVERY) -> Iterator[Staging]:
    """A staging that is removed with the block. Those without an owner are removed before."""
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
    """A mark that cannot be written fails nothing: the next one may be, and the rows tell a store that is away."""
    with suppress(OSError, DeltaError):
        write_deltalake(f"{path}/{_MARK}", _ONE_ROW, mode="overwrite", storage_options=lake.storage or None)


def _remove_dead(store: DeltaStorageHandler, root: str, own: str) -> None:
    with suppress(OSError, DeltaError):
        for name in dead(_written(store, root), own):
            _remove(store, f"{root}/{name}")


def _written(store: DeltaStorageHandler, root: str) -> dict[str, float]:
    """When something in each folder was written last, in seconds by the store's clock."""
    last: dict[str, float] = {}
    for info in PyFileSystem(store).get_file_info(FileSelector(root, recursive=True)):
        name, below, _ = info.path.removeprefix(f"{root}/").partition("/")
        if info.type is FileType.File and below and info.mtime_ns is not None:
            last[name] = max(last.get(name, 0.0), info.mtime_ns / 1e9)
    return last


def dead(written: Mapping[str, float], own: str) -> list[str]:
    """The folders without an owner. The own one was written just now; where it is not seen, nothing is known."""
    now = written.get(own, 0.0)
    return sorted(name for name, last in written.items() if last < now - _PATIENCE)


def _remove(store: DeltaStorageHandler, folder: str) -> None:
    with suppress(OSError, DeltaError):
        store.delete_dir(folder)
