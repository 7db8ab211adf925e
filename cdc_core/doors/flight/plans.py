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

from cdc_core.doors.flight.tickets import Read
from cdc_core.errors import SluiceError

if TYPE_CHECKING:
    from cdc_core.rows.plan import RowsPlan


class Plans:
    """A small cache that drops the least recently used plan. `plan` makes one; `alive` raises RangeGone."""

    def __init__(self, plan: Callable[[Read], RowsPlan], alive: Callable[[Read], object], size: int = 32) -> None:
        self._plan = plan
        self._alive = alive
        self._size = size
        self._lock = threading.Lock()
        self._kept: OrderedDict[Read, Future[RowsPlan]] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Plans {len(self._kept)} of {self._size}>"

    def get(self, read: Read) -> RowsPlan:
        """Raises RangeGone when the claim is gone, also for a plan that is kept."""
        self._alive(read)
        with self._lock:
            future = self._kept.get(read)
            mine = future is None
            if future is None:
                future = self._kept[read] = Future()
            self._kept.move_to_end(read)
            while len(self._kept) > self._size:
                self._kept.popitem(last=False)
        if mine:
            self._make(read, future)
        return future.result()

    def sweep(self) -> None:
        """Drops the plans whose claims are gone."""
        with self._lock:
            reads = list(self._kept)
        for read in reads:
            try:
                self._alive(read)
            except SluiceError:
                self._drop(read)

    def _make(self, read: Read, future: Future[RowsPlan]) -> None:
        try:
            future.set_result(self._plan(read))
        except BaseException as error:
            self._drop(read)
            future.set_exception(error)

    def _drop(self, read: Read) -> None:
        with self._lock:
            self._kept.pop(read, None)
