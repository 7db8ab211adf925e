"""Nodes in one JSON file, for a service without ZooKeeper. Every write replaces the file and syncs it to disk.

A value is a text; bytes that are not UTF-8 are kept as lone surrogates in it, so that any value comes back as it was.
The nodes of the schema history and the parts of states of tables, which are large, have their own files in the
folders `tsdb` and `parts` next to it. It is durable on one machine. Two services must not use one file.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path

from cdc_core.errors import CursorError
from cdc_core.files import private, replace_file
from cdc_core.meta.folder import FolderNodes
from cdc_core.meta.nodes import Change, Node, apply, children_of

_ANY = ("utf-8", "surrogateescape")  # encoding and errors: lossless for all bytes


class FileNodes:
    """The first write creates `path`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._nodes: dict[str, Node] | None = None
        self._folders = {name: FolderNodes(path.parent / name) for name in ("tsdb", "parts")}

    def place(self, path: str) -> str:
        return f"{self._path}: {path}"

    def read(self, path: str) -> Node | None:
        folder = self._folder(path)
        if folder is not None:
            return folder.read(path)
        with self._lock:
            return self._load().get(path)

    def write(self, changes: Mapping[str, Change]) -> None:
        """Large nodes are written before the others, which may name them, and removed after them."""
        small = {path: change for path, change in changes.items() if self._folder(path) is None}
        large = {path: change for path, change in changes.items() if path not in small}
        self._write_large({path: change for path, change in large.items() if change.value is not None})
        if small:
            with self._lock:
                after = apply(self._load(), small, self.place)
                self._save(after)
                self._nodes = after
        self._write_large({path: change for path, change in large.items() if change.value is None})

    def _write_large(self, changes: Mapping[str, Change]) -> None:
        for path, change in changes.items():
            folder = self._folder(path)
            if folder is not None:
                folder.write({path: change})

    def children(self, path: str) -> list[str]:
        folder = self._folder(path)
        if folder is not None:
            return folder.children(path)
        with self._lock:
            return children_of(self._load(), path)

    def close(self) -> None:
        """There is nothing to release."""

    def _load(self) -> dict[str, Node]:
        if self._nodes is None:
            try:
                fields = json.loads(self._path.read_text("utf-8"))
                self._nodes = {path: Node(value.encode(*_ANY), 0) for path, value in fields.items()}
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
        text = json.dumps({path: node.value.decode(*_ANY) for path, node in sorted(nodes.items())}, indent=1)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self._path, text.encode(), private)
        except OSError as error:
            raise CursorError(
                f"cannot write the cursors: {error.strerror}",
                place=str(self._path),
                hint="Make the directory writable and check that the disk is not full; then try again.",
            ) from error

    def _folder(self, path: str) -> FolderNodes | None:
        """The folder of a node /otter/canal/destinations/{destination}/tsdb/... or .../{client}/parts/..., or None."""
        names = path.split("/")
        return self._folders.get(names[5] if names[5:6] == ["tsdb"] else "".join(names[6:7]))
