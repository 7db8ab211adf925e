"""The stage that each client is in: its rows wait for a claim, a claim is out, or an ack of it is written."""

from __future__ import annotations

from dataclasses import dataclass, field

from cdc_core.contract.stages import ACK, APPLY, CLAIM
from cdc_core.session.session import Session
from cdc_core.session.stage_seconds import StageSeconds
from cdc_core.session.state import ClientState
from cdc_core.store.ring import Ring


@dataclass(slots=True)
class ClientStages:
    """Changes nothing but `seconds`."""

    ring: Ring
    session: Session
    seconds: StageSeconds
    _seen: dict[int, str | None] = field(default_factory=dict)

    def look(self) -> None:
        """To be called under the store's lock, after each change of the ring or the session."""
        clients, seen = self.session.clients, self._seen
        for client_id, client in clients.items():
            if (stage := self._stage(client)) != seen.get(client_id):
                seen[client_id] = stage
                self.seconds.enter(client_id, stage)
        if len(seen) > len(clients):
            for client_id in seen.keys() - clients.keys():
                del seen[client_id]
                self.seconds.enter(client_id, None)

    def _stage(self, client: ClientState) -> str | None:
        if client.batches:
            return ACK if client.busy else APPLY
        marks, ring = self.ring.clients[client.client_id], self.ring
        reach = ring.put if ring.full else ring.log.committed
        waits = marks.get.rows < reach.rows or marks.get.statements < reach.statements
        return CLAIM if waits and marks.after is None else None
