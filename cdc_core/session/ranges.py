"""Ranges of the log: what one is as a claim, and the position where it ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from cdc_core.binlog.block import BlockSlice
from cdc_core.contract.claim import Claim
from cdc_core.contract.reached import How, Reached
from cdc_core.gtid import Gtid, Gtids
from cdc_core.position import EntryPosition
from cdc_core.schema.table import TableSchema
from cdc_core.session.state import ClientState
from cdc_core.session.summary import summarize
from cdc_core.store.range import Range
from cdc_core.store.ring import Ring

GtidAfter = Callable[[list[BlockSlice], Gtid | Gtids | None], Gtid | Gtids | None]


@dataclass(frozen=True, slots=True)
class Ranges:
    """`table_of` gives a definition by its number, `gtid_after` the GTID or the set after some events, from that before
    them. `captured`: the filter by which the log is read, if that is known."""

    destination: str
    ring: Ring
    table_of: Callable[[int], TableSchema]
    gtid_after: GtidAfter
    captured: tuple[str, str] | None = None

    def claim(self, client: ClientState, found: Range, batch_id: int, owner: str, deadline: float) -> Claim:
        """The range as a claim of the client, with what it holds."""
        low, high = found.start.sequence, found.end.sequence
        slices = self.ring.log.slices(low, high)
        summary = summarize(slices, self.table_of)
        end = self.position(found.start.sequence, high, client.next_start)
        return Claim(
            destination=self.destination,
            client_id=client.client_id,
            batch_id=batch_id,
            start=client.next_start or EntryPosition(slices[0].block.journal_name, slices[0].block.start),
            end=end,
            tables=summary.tables,
            transactions=self.ring.log.commits_within(low, high),
            events=found.events,
            nbytes=found.nbytes,
            execute_times=summary.execute_times,
            epoch=client.epoch.number,
            owner=owner,
            lease_deadline=deadline,
            partial=found.partial,
            moved=client.epoch.moved,
            seamless=tuple(sorted(client.epoch.seamless.items())),
            reached=_reached_by(client),
            captured=self.captured,
        )

    def position(self, low: int, high: int, start: EntryPosition | None) -> EntryPosition:
        """Where the range (low, high] ends, with the GTID or the GTID set there."""
        gtid = self.gtid_after(self.ring.log.slices(low, high), start.gtid if start else None)
        return replace(self.ring.log.position(high), gtid=gtid)


def _reached_by(client: ClientState) -> Reached | None:
    """What the lake must have before the client's next claim: all that is acked or claimed already."""
    if not client.batches:
        return client.reached
    return Reached(How.BATCH, client.epoch.number, client.batches[-1].claim.end)
