"""The running node in ZooKeeper: looked at, taken, given back. Thin over one session; decides nothing.

One transaction takes it: the ephemeral node is made and written once, so that its version is 1 where a Canal server's
is 0, and the version of the `sluice_leader` node next to it rises. Both versions together are the term: they match as
long as no other server, ours or Canal's, took over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from cdc_core.errors import CursorError
from cdc_core.ha.election import Term
from cdc_core.ha.running import Running
from cdc_core.meta.zookeeper import ZookeeperNodes


@dataclass(frozen=True, slots=True)
class SeatHolder:
    running: Running
    ours: bool


class Seat:
    """`path` is the running node, `me` its content while it is ours, `counter` the node whose version rises with each
    term; None for a seat without fencing. Every call raises CursorError when ZooKeeper is down."""

    def __init__(self, nodes: ZookeeperNodes, path: str, me: Running, counter: str | None = None) -> None:
        self._nodes = nodes
        self._client = nodes.client
        self._path = path
        self._me = me
        self._counter = counter

    def __repr__(self) -> str:
        return f"<Seat {self._path} for {self._me.address}>"

    def look(self, changed: Callable[[], None]) -> SeatHolder | None:
        """The holder. `changed` is called once, when somebody else may hold it."""

        def watch(_event: Any) -> None:
            changed()

        if self._nodes.call(self._path, lambda: self._client.exists_async(self._path, watch)) is None:
            return None
        try:
            value, stat = self._nodes.call(self._path, lambda: self._client.get_async(self._path))
        except NoNodeError:
            return None
        return SeatHolder(Running.from_json(value), self._owned(stat))

    def take(self) -> Term | None:
        """None when somebody else took it first."""
        versions = {self._path: 1}
        value = self._me.to_json()
        parent = self._path.rpartition("/")[0]
        self._nodes.call(parent, lambda: self._client.ensure_path_async(parent))
        request = self._client.transaction()
        request.create(self._path, value, ephemeral=True)
        request.set_data(self._path, value)
        if self._counter is not None:
            versions[self._counter] = self._raise(request, self._counter) + 1
        results = self._nodes.call(self._path, request.commit_async)
        if any(isinstance(result, NodeExistsError | BadVersionError) for result in results):
            return None
        failed = next((result for result in results if isinstance(result, Exception)), None)
        if failed is not None:
            raise self._nodes.away(self._path, failed)
        return Term(versions)

    def _raise(self, request: Any, counter: str) -> int:
        """Adds the rise of the counter to the transaction. Returns the counter's version before it."""
        self._nodes.call(counter, lambda: self._client.ensure_path_async(counter))
        stat = self._nodes.call(counter, lambda: self._client.exists_async(counter))
        if stat is None:
            raise CursorError(
                "the node was deleted", place=self._nodes.place(counter), hint="It is created again automatically."
            )
        request.set_data(counter, self._me.address.encode(), version=stat.version)
        return int(stat.version)

    def give_back(self) -> None:
        """Deletes the node if this session made it."""
        stat = self._nodes.call(self._path, lambda: self._client.exists_async(self._path))
        if stat is None or not self._owned(stat):
            return
        try:
            self._nodes.call(self._path, lambda: self._client.delete_async(self._path, version=stat.version))
        except NoNodeError:
            return

    def _owned(self, stat: Any) -> bool:
        session = self._client.client_id
        return session is not None and bool(stat.ephemeralOwner == session[0])
