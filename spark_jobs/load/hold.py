"""Holds a destination's claim while a table is copied or compared.

Nobody gets the changes after a held claim, so no row after the copy's position is acked. If nothing waits, there is no
claim to hold. Then a run may write the table meanwhile, which makes the copy's commit fail. The copy is tried again,
and holds the changes that came meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from cdc_core.client.connector import Connector
from cdc_core.client.lease import Lease
from cdc_core.contract.claim import Claim
from cdc_core.errors import SessionError, SluiceError
from cdc_core.position import EntryPosition
from spark_jobs.load.result import WentOn

_Made = TypeVar("_Made")
_LEASE_SECONDS = 60.0
_WAIT_SECONDS = 2.0  # for something to claim
_PATIENCE_SECONDS = 900.0  # for another owner's batch
_TRIES = 5  # while others write the table


class Hold:
    """`check` raises SessionError when the held `claim` was lost. `claim` is None if there was nothing to claim."""

    def __init__(self, lease: Lease | None, claim: Claim | None = None) -> None:
        self._lease, self.claim = lease, claim

    @property
    def start(self) -> EntryPosition | None:
        """Returns the start of the claim: everything before it is acked."""
        return self.claim.start if self.claim else None

    def check(self) -> None:
        if self._lease is not None:
            self._lease.check()


@contextmanager
def held(
    connector: Connector,
    owner: str,
    clock: Callable[[], float] = time.monotonic,
    reason: str = "a table was copied meanwhile",
    wait: float = _WAIT_SECONDS,
) -> Iterator[Hold]:
    """Holds a claim for the block, and gives it back after it. Waits until nobody else has a claim, and for a while for
    something to claim.

    Raises SessionError when another owner keeps a claim for too long.
    """
    claim = _claimed(connector, owner, clock, wait)
    if claim is None:
        yield Hold(None)
        return
    with Lease(claim, _LEASE_SECONDS, connector.renew) as lease:
        try:
            yield Hold(lease, claim)
        finally:
            with suppress(SluiceError):  # then it is free when its lease ends
                connector.rollback(claim, reason=reason)


def under_hold(
    connector: Connector, owner: str, work: Callable[[Hold], _Made], sleep: Callable[[float], None]
) -> _Made:
    """Does the work while a claim is held, again if it raises WentOn, and returns its result.

    Raises what `held` and `work` raise, WentOn when others keep writing the table.
    """
    for left in reversed(range(_TRIES)):
        try:
            with held(connector, owner) as hold:
                return work(hold)
        except WentOn:
            if not left:
                raise
        sleep(1.0)
    raise AssertionError("unreachable")


def _claimed(connector: Connector, owner: str, clock: Callable[[], float], wait: float) -> Claim | None:
    """Returns a claim, or None if nothing waits to be claimed."""
    deadline = clock() + _PATIENCE_SECONDS
    while True:
        claim = connector.get_without_ack(1, owner=owner, timeout_seconds=wait, lease_seconds=_LEASE_SECONDS)
        others = () if claim else connector.client_status().claims
        if claim is not None or not others:
            return claim
        if clock() > deadline:
            message = f"batch {others[0].batch_id} is claimed by {others[0].owner}, which keeps it too long"
            hint = "Check that run, or give its claim back (the job rollback); then try again."
            raise SessionError(message, place=f"{connector.destination}/{connector.client_id}", hint=hint)
