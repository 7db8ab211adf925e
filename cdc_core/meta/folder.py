"""The nodes below one node, in a folder, a file for each: large ones, which are seldom written. A write replaces the
file and syncs it.

Of several changes each is whole, not all together: a crash may leave some of them done.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from cdc_core.errors import CursorError
from cdc_core.meta.nodes import Change, Node


class FolderNodes:
    """The first write creates `folder`. Only one process may use it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def place(self, path: str) -> str:
        return str(self._file(path))

    def read(self, path: str) -> Node | None:
        try:
            return Node(self._file(path).read_bytes(), 0)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._failure("read", path, error) from error

    def write(self, changes: Mapping[str, Change]) -> None:
        for path, change in changes.items():
            try:
                if change.value is None:
                    self._file(path).unlink(missing_ok=True)
                else:
                    self._folder.mkdir(parents=True, exist_ok=True)
                    replace_file(self._file(path), change.value)
            except OSError as error:
                raise self._failure("write", path, error) from error

    def children(self, path: str) -> list[str]:  # noqa: ARG002 the one node that has any
        names = self._folder.iterdir() if self._folder.is_dir() else ()
        return sorted(one.name for one in names if not one.name.endswith(".new"))

    def close(self) -> None:
        """There is nothing to release."""

    def _file(self, path: str) -> Path:
        return self._folder / path.rpartition("/")[2]

    def _failure(self, what: str, path: str, error: OSError) -> CursorError:
        hint = "Correct the folder's permissions and check that the disk is not full; then try again."
        return CursorError(f"cannot {what} a node: {error.strerror}", place=self.place(path), hint=hint)


def private(path: str, flags: int) -> int:
    """Opens a file that its owner alone may read; also one that exists already."""
    opened = os.open(path, flags | os.O_CLOEXEC, 0o600)
    os.fchmod(opened, 0o600)
    return opened


def replace_file(path: Path, content: bytes) -> None:
    """Writes a file as a whole, and syncs it and its directory to disk. Raises OSError."""
    fresh = path.with_name(path.name + ".new")
    with open(fresh, "wb", opener=private) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    handle = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
