"""The nodes below one node, in a folder, a file for each: large ones, which are seldom written. A write replaces the
file and syncs it.

Of several changes each is whole, not all together: a crash may leave some of them done.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cdc_core.errors import CursorError
from cdc_core.files import private, replace_file
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
                    replace_file(self._file(path), change.value, private)
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
