"""Claims that wait for their rows: the range is chosen under the store's lock, what it needs from disk is read outside.

A claim whose DDL statements cannot be read is given back. Nothing here writes a cursor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from cdc_core.binlog.block import BlockSlice
from cdc_core.contract.claim import Claim
from cdc_core.schema.ddl import Ddl
from cdc_core.session.open_snapshots import OpenSnapshots
from cdc_core.session.readers import Readers
from cdc_core.session.session import Session
from cdc_core.session.stops import Stops
from cdc_core.store.disk.stored import StoredSegment
from cdc_core.store.store import Store


class Limits(NamedTuple):
    """What a claim has at most."""

    rows: int
    nbytes: int | None = None


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A claim, and its events if there are DDL statements among them: they are read outside of the lock. Or no claim,
    but what is to be compared with its checksums before there can be one."""

    claim: Claim | None = None
    slices: tuple[BlockSlice, ...] = ()
    unchecked: Sequence[StoredSegment] = ()


@dataclass(slots=True)
class Claiming:
    """`roll_back` gives a client's batch of an owner back. `clock` is in seconds since the epoch. `identity` is the
    destination's, once it is read."""

    store: Store
    session: Session
    stops: Stops
    snapshots: OpenSnapshots
    readers: Readers
    clock: Callable[[], float]
    read_ddl: Callable[[Sequence[BlockSlice]], tuple[Ddl, ...]]
    roll_back: Callable[[int, int, str], object]
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
        """Waits up to `timeout` seconds for rows or DDL statements; None when none came. `entries`: who asks reads
        Canal's entries, which also show statements that change nothing in the lake.

        Raises SessionError for a client that is not subscribed.
        """
        limits = Limits(max_rows, max_bytes)
        with self.store.changed:
            self.session.client(client_id)
        self.readers.note(client_id, entries=entries)
        found = self._wait(client_id, limits, timeout, owner, lease_seconds)
        while found is not None and found.claim is None:
            for part in found.unchecked:
                part.check()
            found = self._wait(client_id, limits, timeout, owner, lease_seconds)
        if found is None or found.claim is None:
            return None
        return self._with_ddl(found.claim, found.slices) if found.slices else found.claim

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

    def _wait(
        self, client_id: int, limits: Limits, timeout: float, owner: str, lease_seconds: float
    ) -> _Candidate | None:
        return self.store.wait_for(
            lambda: self._take(client_id, limits, owner, lease_seconds),
            timeout,
            lambda: self._until_expiry(client_id),
        )

    def unchecked(self, client_id: int, limits: Limits) -> list[StoredSegment]:
        """What the next range has on disk that nobody has compared with its checksums yet."""
        ring = self.store.ring
        found = ring.take(client_id, *limits) if ring.log.parts.stored else None
        return [] if found is None else ring.log.parts.unchecked(found.start.sequence, found.end.sequence)

    def _take(self, client_id: int, limits: Limits, owner: str, lease_seconds: float) -> _Candidate | None:
        if unchecked := self.unchecked(client_id, limits):
            return _Candidate(unchecked=unchecked)
        claim = self.session.claim(
            client_id,
            limits.rows,
            owner,
            lease_seconds,
            self.clock(),
            limits.nbytes,
            entries=self.readers.of_entries(client_id),
        )
        if claim is None:
            return None
        batch = self.session.client(client_id).batches[-1]
        slices = self.session.slices(client_id, batch.id) if batch.range.statements else None
        stopped, snapshots = self.stops.names(client_id), self.snapshots.names(client_id)
        return _Candidate(
            replace(claim, stopped=stopped, snapshots=snapshots, identity=self.identity), tuple(slices or ())
        )

    def _until_expiry(self, client_id: int) -> float | None:
        deadline = self.session.next_deadline(client_id)
        return None if deadline is None else deadline - self.clock()
