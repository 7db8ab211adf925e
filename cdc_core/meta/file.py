"""Cursors in one JSON file, for a service without ZooKeeper: replaced as a whole and synced on every write.

It promises durability on one machine, and nothing about two services on one file.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path

from cdc_core.errors import CursorError
from cdc_core.meta.nodes import Change, Node, apply, children_of


class FileNodes:
    """`path` is made with the first write."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._nodes: dict[str, Node] | None = None

    def place(self, path: str) -> str:
        return f"{self._path}: {path}"

    def read(self, path: str) -> Node | None:
        with self._lock:
            return self._load().get(path)

    def write(self, changes: Mapping[str, Change]) -> None:
        if not changes:
            return
        with self._lock:
            after = apply(self._load(), changes, self.place)
            self._save(after)
            self._nodes = after

    def children(self, path: str) -> list[str]:
        with self._lock:
            return children_of(self._load(), path)

    def close(self) -> None:
        """Nothing to let go of."""

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
                    hint="Mend the file's JSON or its permissions; nothing was overwritten.",
                ) from error
        return self._nodes

    def _save(self, nodes: Mapping[str, Node]) -> None:
        text = json.dumps({path: node.value.decode() for path, node in sorted(nodes.items())}, indent=1)
        fresh = self._path.with_name(self._path.name + ".new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with fresh.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self._path)
            _sync_directory(self._path.parent)
        except OSError as error:
            raise CursorError(
                f"cannot write the cursors: {error.strerror}",
                place=str(self._path),
                hint="Make the directory writable and see that the disk is not full; the call may be made again.",
            ) from error


def _sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
