"""Keeps a lease of the service while a client works: that of a claim, or another."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Self

from cdc_core.contract.claim import Claim
from cdc_core.errors import SessionError, SluiceError

_LEAVE_SECONDS = 1.0  # for a renewal that is under way when the block ends


class Renewal:
    """Renews between entering and leaving the block, in a thread, after each third of the lease. `refusal` is the
    service's, None while it has refused none; nothing is renewed after it."""

    def __init__(self, name: str, seconds: float, renew: Callable[[], object]) -> None:
        self.refusal: SessionError | None = None
        self._seconds = seconds
        self._renew = renew
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._left.set()
        self._thread.join(_LEAVE_SECONDS)

    def _run(self) -> None:
        while not self._left.wait(self._seconds / 3):
            try:
                self._renew()
            except SessionError as refusal:
                self.refusal = refusal
                return
            except SluiceError:
                continue  # away for now: the next renewal or the ack shows whether the lease has survived


class Lease(Renewal):
    """The lease of a claim."""

    def __init__(self, claim: Claim, seconds: float, renew: Callable[[Claim, float], object]) -> None:
        super().__init__(f"lease of {claim.batch_id}", seconds, lambda: renew(claim, seconds))
        self._claim = claim

    def check(self) -> None:
        """Raises SessionError when the service has refused a renewal: the claim is lost."""
        if self.refusal is not None:
            raise SessionError(
                f"the claim was lost while its rows were processed: {self.refusal.message}",
                place=f"{self._claim.destination}, batch {self._claim.batch_id}",
                hint="Nothing was acked, and the range is claimed again. Give a longer lease if the machine stalls.",
            ) from self.refusal
