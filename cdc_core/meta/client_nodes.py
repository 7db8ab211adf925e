"""The nodes of one destination's clients: their paths, and how they are read and changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from cdc_core.errors import CursorError, PositionError
from cdc_core.meta.nodes import Change, Node, Nodes

T = TypeVar("T")

_MEND = "Correct or remove the node, then start again. Nothing was overwritten."
_MALFORMED = (PositionError, AttributeError, KeyError, TypeError, ValueError)


class ClientNodes:
    """Base of those that give the nodes a meaning. Without state: every call goes to `nodes`."""

    def __init__(self, nodes: Nodes, destination: str) -> None:
        self._nodes = nodes
        self.destination = destination
        self._root = f"/otter/canal/destinations/{destination}"

    def _path(self, client_id: int, name: str) -> str:
        return f"{self._root}/{client_id}/{name}"

    def _parsed(self, path: str, node: Node | None, parse: Callable[[bytes], T], expected: str) -> T | None:
        """The node's value, parsed; None without a node. Raises CursorError for a value that `parse` refuses."""
        if node is None:
            return None
        try:
            return parse(node.value)
        except _MALFORMED as error:
            raise CursorError(
                f"not {expected}: {node.value[:200]!r}", place=self._nodes.place(path), hint=_MEND
            ) from error

    def _changes(self, client_id: int, values: Mapping[str, bytes | None]) -> dict[str, Change]:
        """Changes from the present values to `values`; None removes a node."""
        changes = {}
        for name, value in values.items():
            path = self._path(client_id, name)
            node = self._nodes.read(path)
            if value is not None or node is not None:
                changes[path] = Change(value, node.version if node else None)
        return changes

    def _put(self, path: str, node: Node | None, value: bytes) -> None:
        self._nodes.write({path: Change(value, node.version if node else None)})
