"""What the doors need of the service: the shape of one destination's instance and of all of them together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from cdc_core.errors import UnknownDestination
from cdc_core.position import EntryPosition
from cdc_core.rewind import Target
from cdc_core.schema.table import TableSchema
from cdc_core.session.claim import Claim
from cdc_core.source.block import BlockSlice


class InstancePort(Protocol):
    """One destination. All calls may come from any thread; each raises errors of `cdc_core.errors` alone."""

    @property
    def registry(self) -> Any: ...

    @property
    def config(self) -> Any:
        """None for a destination that could not be set up."""
        ...

    def status(self) -> dict[str, Any]: ...

    def tables(self) -> list[TableSchema]: ...

    def client(self, client_id: int) -> dict[str, Any]: ...

    def claim(
        self, client_id: int, batch_size: int, timeout_seconds: float, owner: str, lease_seconds: float
    ) -> Claim | None: ...

    def ack(self, client_id: int, batch_id: int, owner: str) -> EntryPosition | None: ...

    def renew(self, client_id: int, batch_id: int, owner: str, lease_seconds: float) -> float: ...

    def rollback(self, client_id: int, batch_id: int | None, owner: str | None, reason: str) -> list[int]: ...

    def stop_table(self, client_id: int, table: str, reason: str, hint: str, position: EntryPosition) -> None: ...

    def resume_table(self, client_id: int, table: str) -> None: ...

    def slices(self, client_id: int, batch_id: int) -> list[BlockSlice]: ...

    def note_read(self, client_id: int, batch_id: int, part: str, error: Exception | None) -> None:
        """What came of reading a part of a claim."""
        ...

    def metrics(self) -> dict[str, Any]: ...


class ServerPort(Protocol):
    """All destinations."""

    def destinations(self) -> Sequence[str]: ...

    def instance(self, name: str) -> InstancePort:
        """Raises UnknownDestination."""
        ...

    def start_destination(self, name: str) -> dict[str, Any]:
        """By hand, as the next two; each returns the destination's status after it."""
        ...

    def stop_destination(self, name: str) -> dict[str, Any]: ...

    def reload_destination(self, name: str) -> dict[str, Any]: ...

    def positions(self, name: str) -> dict[str, Any]:
        """How far each client is behind the source; asks it."""
        ...

    def reset_destination(self, name: str, target: Target, *, dry_run: bool) -> dict[str, Any]:
        """Sets cursors, or tells what that would mean."""
        ...


def instances(server: ServerPort) -> dict[str, InstancePort]:
    """All by name; one that was taken away meanwhile is left out."""
    found = {}
    for name in server.destinations():
        try:
            found[name] = server.instance(name)
        except UnknownDestination:
            continue
    return found
