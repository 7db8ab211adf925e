"""Plans of reads, kept while their claim lasts, so that the splits of one table are planned once.

Several threads may ask for the same plan: one makes it, the others wait for it. All of them get its error, which is not
kept. `sweep` drops the plans of claims that are gone.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING

from cdc_core.doors.flight.tickets import ClaimId, Read
from cdc_core.errors import SluiceError

if TYPE_CHECKING:
    from cdc_core.rows.plan import RowsPlan


_SMALL_SIZE = 4096  # small plans: a claim has one for each of its tables before the first one is read


class Plans:
    """A cache that drops the least recently used plan. `plan` makes one; `check` raises RangeGone for a claim that is
    gone. Small plans have room of their own, because a claim may have hundreds of tables: `is_small` says which are."""

    def __init__(
        self,
        plan: Callable[[Read], RowsPlan],
        check: Callable[[ClaimId], object],
        is_small: Callable[[RowsPlan], bool],
        size: int = 32,
        small_size: int = _SMALL_SIZE,
    ) -> None:
        self._plan, self._check, self._is_small = plan, check, is_small
        self._size, self._small_size = size, small_size
        self._lock = threading.Lock()
        self._kept: OrderedDict[Read, Future[RowsPlan]] = OrderedDict()
        self._small: OrderedDict[Read, Future[RowsPlan]] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Plans {len(self._kept)} of {self._size} small={len(self._small)}>"

    def get(self, read: Read) -> RowsPlan:
        """Raises RangeGone when the claim is gone, also for a plan that is kept."""
        self._check(read.claim)
        with self._lock:
            future = self._small.get(read) or self._kept.get(read)
            mine = future is None
            if future is None:
                future = Future()
            if read in self._small:
                _keep(self._small, read, future, self._small_size)
            else:
                _keep(self._kept, read, future, self._size)
        if mine:
            self._make(read, future)
        return future.result()

    def sweep(self) -> None:
        """Drops the plans whose claims are gone. Each claim is checked once: it may have a plan for each table."""
        with self._lock:
            reads = [*self._kept, *self._small]
        gone = {claim for claim in {read.claim for read in reads} if self._is_gone(claim)}
        for read in reads:
            if read.claim in gone:
                self._drop(read)

    def _is_gone(self, claim: ClaimId) -> bool:
        try:
            self._check(claim)
        except SluiceError:
            return True
        return False

    def _make(self, read: Read, future: Future[RowsPlan]) -> None:
        try:
            made = self._plan(read)
        except BaseException as error:
            self._drop(read)
            future.set_exception(error)
            return
        future.set_result(made)
        with self._lock:
            if self._is_small(made) and read in self._kept:
                del self._kept[read]
                _keep(self._small, read, future, self._small_size)

    def _drop(self, read: Read) -> None:
        with self._lock:
            self._kept.pop(read, None)
            self._small.pop(read, None)


def _keep(plans: OrderedDict[Read, Future[RowsPlan]], read: Read, future: Future[RowsPlan], size: int) -> None:
    plans[read] = future
    plans.move_to_end(read)
    while len(plans) > size:
        plans.popitem(last=False)
