"""A tree of small nodes: the interface that memory, a file and ZooKeeper have in common.

A write of several nodes is all or nothing, and done when the call returns. `meta.cursors` says what the nodes mean.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from cdc_core.errors import CursorError


class Node(NamedTuple):
    """A node's content, and its version: a write must name it, so that it overwrites nothing unseen."""

    value: bytes
    version: int


class Change(NamedTuple):
    """The new value of a node (None removes it), and the version that was read (None: there was no node)."""

    value: bytes | None
    version: int | None


class Nodes(Protocol):
    """A backend. Every call raises CursorError when the backend does not answer, or another write came in between."""

    def place(self, path: str) -> str:
        """The full path of a node, for errors."""

    def read(self, path: str) -> Node | None: ...

    def write(self, changes: Mapping[str, Change]) -> None:
        """Makes all changes or none. An empty write only checks whether the caller may write."""

    def children(self, path: str) -> list[str]: ...

    def close(self) -> None: ...


def conflict(place: str) -> CursorError:
    return CursorError(
        "the node was changed in between by another writer",
        place=place,
        hint="Make sure that only one service runs this destination; then try again.",
    )


class MemoryNodes:
    """In memory, for tests: nothing outlives the process."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._lock = threading.Lock()

    def place(self, path: str) -> str:
        return f"memory:{path}"

    def read(self, path: str) -> Node | None:
        return self._nodes.get(path)

    def write(self, changes: Mapping[str, Change]) -> None:
        with self._lock:
            self._nodes = apply(self._nodes, changes, self.place)

    def children(self, path: str) -> list[str]:
        return children_of(self._nodes, path)

    def close(self) -> None:
        """There is nothing to release."""


def apply(nodes: Mapping[str, Node], changes: Mapping[str, Change], place: _Place) -> dict[str, Node]:
    """`nodes` after `changes`. Raises CursorError when a node has another version than the change names."""
    after = dict(nodes)
    for path, change in changes.items():
        known = after.pop(path, None)
        if (known.version if known else None) != change.version:
            raise conflict(place(path))
        if change.value is not None:
            after[path] = Node(change.value, 0 if known is None else known.version + 1)
    return after


def children_of(nodes: Mapping[str, Node], path: str) -> list[str]:
    prefix = path.rstrip("/") + "/"
    return sorted({name[len(prefix) :].partition("/")[0] for name in nodes if name.startswith(prefix)})


class _Place(Protocol):
    def __call__(self, path: str) -> str: ...
