"""Claims that wait for their rows: the range is chosen under the store's lock, what it needs from disk is read outside.

A claim whose DDL statements cannot be read is given back. Nothing here writes a cursor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from cdc_core.binlog.block import BlockSlice
from cdc_core.contract.claim import Claim
from cdc_core.rules.claims import seen_claim
from cdc_core.rules.rules import NO_RULES, Rules
from cdc_core.schema.ddl import Ddl
from cdc_core.session.lake_rules import LakeRules
from cdc_core.session.open_snapshots import OpenSnapshots
from cdc_core.session.readers import Readers
from cdc_core.session.session import Session
from cdc_core.session.state import Batch
from cdc_core.session.stops import Stops
from cdc_core.store.disk.stored import StoredSegment
from cdc_core.store.store import Store


class Limits(NamedTuple):
    """What a claim has at most."""

    rows: int
    nbytes: int | None = None


class _Asked(NamedTuple):
    """What a claimer asks for: how much, for whom and how long."""

    limits: Limits
    owner: str
    lease_seconds: float


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A claim with the rules by which it is seen, and its events if there are DDL statements among them: they are read
    outside of the lock. Or no claim, but what is to be compared with its checksums before there can be one."""

    claim: Claim | None = None
    rules: Rules = NO_RULES
    slices: tuple[BlockSlice, ...] = ()
    unchecked: Sequence[StoredSegment] = ()


@dataclass(slots=True)
class Claiming:
    """`roll_back` gives a client's batch of an owner back. `clock` is in seconds since the epoch. `identity` is the
    destination's, once it is read. `on_claimed` is called under the store's lock."""

    store: Store
    session: Session
    stops: Stops
    snapshots: OpenSnapshots
    readers: Readers
    rules: LakeRules
    clock: Callable[[], float]
    read_ddl: Callable[[Sequence[BlockSlice]], tuple[Ddl, ...]]
    roll_back: Callable[[int, int, str], object]
    on_claimed: Callable[[], None] = lambda: None
    identity: str = ""

    def claim(
        self,
        client_id: int,
        max_rows: int,
        timeout: float,
        owner: str,
        lease_seconds: float,
        max_bytes: int | None = None,
        *,
        entries: bool = False,
    ) -> Claim | None:
        """Waits up to `timeout` seconds for rows or DDL statements; None when none came. `entries`: the client reads
        Canal's entries, which also show statements that change nothing in the lake. The claim is as the client's rules
        have it when its rows are there. Raises ConfigError for rules that cannot be applied.

        Raises SessionError for a client that is not subscribed.
        """
        self.rules.of(client_id)
        asked = _Asked(Limits(max_rows, max_bytes), owner, lease_seconds)
        with self.store.changed:
            self.session.client(client_id)
        self.readers.note(client_id, entries=entries)
        found = self._wait(client_id, asked, timeout)
        while found is not None and found.claim is None:
            for part in found.unchecked:
                part.check()
            found = self._wait(client_id, asked, timeout)
        if found is None or found.claim is None:
            return None
        return seen_claim(self._with_ddl(found.claim, found.slices) if found.slices else found.claim, found.rules)

    def _with_ddl(self, claim: Claim, slices: Sequence[BlockSlice]) -> Claim:
        """The claim with its DDL statements; given back where they cannot be read."""
        try:
            claim = replace(claim, ddl=self.read_ddl(slices))
        except BaseException:
            self.roll_back(claim.client_id, claim.batch_id, claim.owner)
            raise
        with self.store.changed:
            self.session.keep_ddl(claim)
        return claim

    def _wait(self, client_id: int, asked: _Asked, timeout: float) -> _Candidate | None:
        return self.store.wait_for(lambda: self._take(client_id, asked), timeout, lambda: self._until_expiry(client_id))

    def unchecked(self, client_id: int, limits: Limits) -> list[StoredSegment]:
        """What the next range has on disk that nobody has compared with its checksums yet."""
        ring = self.store.ring
        found = ring.take(client_id, *limits) if ring.log.parts.stored else None
        return [] if found is None else ring.log.parts.unchecked(found.start.sequence, found.end.sequence)

    def _take(self, client_id: int, asked: _Asked) -> _Candidate | None:
        if unchecked := self.unchecked(client_id, asked.limits):
            return _Candidate(unchecked=unchecked)
        rules = self.rules.of(client_id)  # not before: its snapshots may be those of other rules
        claim = self.session.claim(
            client_id,
            asked.limits.rows,
            asked.owner,
            asked.lease_seconds,
            self.clock(),
            asked.limits.nbytes,
            entries=self.readers.of_entries(client_id),
            rules=rules,
        )
        if claim is None:
            return None
        batch = self.session.client(client_id).batches[-1]
        slices = self.session.slices(client_id, batch.id) if batch.range.statements else None
        stopped, snapshots = self.stops.names(client_id), self.snapshots.names(client_id, claim.end)
        moments = self._moments(batch)
        claim = replace(claim, stopped=stopped, snapshots=snapshots, identity=self.identity, moments=moments)
        self.on_claimed()
        return _Candidate(claim, rules, tuple(slices or ()))

    def _moments(self, batch: Batch) -> tuple[float | None, ...]:
        """Those of `Claim.moments`. A claim without rows has them of its first event. What was read of the store's
        clock is as long ago by this one."""
        low, high = batch.range.start, batch.range.end
        first = self.store.ring.log.sequence_of_rows(low.rows) if low.rows < high.rows else low.sequence
        ahead, arrived = batch.since - self.store.clock(), self.store.arrivals.at(first)
        return *([moment + ahead for moment in arrived] if arrived else (None,) * 3), batch.since

    def _until_expiry(self, client_id: int) -> float | None:
        deadline = self.session.next_deadline(client_id)
        return None if deadline is None else deadline - self.clock()
