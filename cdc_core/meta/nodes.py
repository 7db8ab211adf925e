"""Where cursors are kept, seen as a tree of small nodes: three verbs that memory, a file and ZooKeeper have in common.

A write of several nodes is all or nothing, and done when the call returns. What the nodes mean is `meta.cursors`'.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from cdc_core.errors import CursorError


class Node(NamedTuple):
    """A node's content, and the version that a write must name so that it overwrites nothing unseen."""

    value: bytes
    version: int


class Change(NamedTuple):
    """What a node shall hold (None: be gone), given the version that was read (None: there was no node)."""

    value: bytes | None
    version: int | None


class Nodes(Protocol):
    """A backend. Every call raises CursorError when the backend is away or somebody else wrote in between."""

    def place(self, path: str) -> str:
        """The node's full path, for errors."""

    def read(self, path: str) -> Node | None: ...

    def write(self, changes: Mapping[str, Change]) -> None:
        """No changes are none to make; whether the caller may write is looked at all the same."""

    def children(self, path: str) -> list[str]: ...

    def close(self) -> None: ...


def conflict(place: str) -> CursorError:
    return CursorError(
        "somebody else changed the node in between",
        place=place,
        hint="See that only one service serves this destination; the call may be made again.",
    )


class MemoryNodes:
    """Forgets with the process: for tests, and for what need not outlive the service."""

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
        """Nothing to let go of."""


def apply(nodes: Mapping[str, Node], changes: Mapping[str, Change], place: _Place) -> dict[str, Node]:
    """`nodes` after `changes`. Raises CursorError when a version does not fit."""
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
