"""Nodes in one JSON file, for a service without ZooKeeper. Every write replaces the file and syncs it to disk.

The nodes of the schema history, which are large, have files of their own in the folder `tsdb` beside it. It promises
durability on one machine, and nothing when two services use one file.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path

from cdc_core.errors import CursorError
from cdc_core.meta.folder import FolderNodes, replace_file
from cdc_core.meta.nodes import Change, Node, apply, children_of


class FileNodes:
    """The first write creates `path`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._nodes: dict[str, Node] | None = None
        self._large = FolderNodes(path.parent / "tsdb")

    def place(self, path: str) -> str:
        return f"{self._path}: {path}"

    def read(self, path: str) -> Node | None:
        if _is_large(path):
            return self._large.read(path)
        with self._lock:
            return self._load().get(path)

    def write(self, changes: Mapping[str, Change]) -> None:
        self._large.write({path: change for path, change in changes.items() if _is_large(path)})
        small = {path: change for path, change in changes.items() if not _is_large(path)}
        if not small:
            return
        with self._lock:
            after = apply(self._load(), small, self.place)
            self._save(after)
            self._nodes = after

    def children(self, path: str) -> list[str]:
        if _is_large(path):
            return self._large.children(path)
        with self._lock:
            return children_of(self._load(), path)

    def close(self) -> None:
        """There is nothing to release."""

    def _load(self) -> dict[str, Node]:
        if self._nodes is None:
            try:
                fields = json.loads(self._path.read_text("utf-8"))
                self._nodes = {path: Node(value.encode(), 0) for path, value in fields.items()}
            except FileNotFoundError:
                self._nodes = {}
            except (OSError, ValueError, AttributeError) as error:
                raise CursorError(
                    f"cannot read the cursors: {error}",
                    place=str(self._path),
                    hint="Correct the file's JSON or its permissions. Nothing was overwritten.",
                ) from error
        return self._nodes

    def _save(self, nodes: Mapping[str, Node]) -> None:
        text = json.dumps({path: node.value.decode() for path, node in sorted(nodes.items())}, indent=1)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self._path, text.encode())
        except OSError as error:
            raise CursorError(
                f"cannot write the cursors: {error.strerror}",
                place=str(self._path),
                hint="Make the directory writable and check that the disk is not full; then try again.",
            ) from error


def _is_large(path: str) -> bool:
    """Whether a node, /otter/canal/destinations/{destination}/tsdb/..., belongs to the schema history."""
    return path.split("/")[5:6] == ["tsdb"]
