"""The nodes of one term: every write is one transaction with the term's checks, or fails.

However late a write comes, from a process that was paused or cut off, it succeeds only if no other server took over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cdc_core.errors import LeadershipLost
from cdc_core.ha.election import Term
from cdc_core.meta.nodes import Change, Node
from cdc_core.meta.zookeeper import ZookeeperNodes


class FencedNodes:
    """`over` is called when ZooKeeper refuses a write because the term is over."""

    def __init__(self, nodes: ZookeeperNodes, term: Term, over: Callable[[], None]) -> None:
        self._nodes = nodes
        self._term = term
        self._over = over

    def place(self, path: str) -> str:
        return self._nodes.place(path)

    def read(self, path: str) -> Node | None:
        return self._nodes.read(path)

    def write(self, changes: Mapping[str, Change]) -> None:
        try:
            self._nodes.write(changes, self._term.checks)
        except LeadershipLost:
            self._over()
            raise

    def children(self, path: str) -> list[str]:
        return self._nodes.children(path)

    def close(self) -> None:
        """The connection is shared and stays open."""
