"""A snapshot's registration with the service, kept while the table is read.

While it is open, claims carry it, and their runs keep the table's changes beside the lake.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cdc_core.client.connector import Connector
from cdc_core.client.lease import Renewal
from cdc_core.contract.snapshot import Progress, Snapshot
from cdc_core.errors import SessionError
from spark_jobs.load.result import Broken

LEASE_SECONDS = 30.0


class Registration(Renewal):
    """`snapshot` is what the service said last."""

    def __init__(self, connector: Connector, snapshot: Snapshot) -> None:
        super().__init__(f"snapshot of {snapshot.table}", snapshot.lease_seconds, self._keep)
        self.snapshot = snapshot
        self._connector = connector
        self._lock = threading.Lock()

    def check(self) -> None:
        """Raises SessionError when the snapshot was cancelled or taken over, Broken when it cannot be finished."""
        if self.refusal is not None:
            raise self.refusal
        if self.snapshot.broken:
            hint = "Start the snapshot again when the source's definitions and its server rest."
            raise Broken(self.snapshot.broken, place=self.snapshot.table, hint=hint)

    def note(self, progress: Progress) -> None:
        """Keeps the progress with the service. Raises what `check` raises."""
        self.check()
        with self._lock:
            self.snapshot = self._connector.snapshots.note(self.snapshot, progress)
        self.check()

    def renew(self) -> None:
        """Asks the service how the snapshot is. Raises what `check` raises."""
        self._keep()
        self.check()

    def _keep(self) -> None:
        with self._lock:
            self.snapshot = self._connector.snapshots.renew(self.snapshot)


@contextmanager
def registered(
    connector: Connector, table: str, owner: str, *, first: bool, sleep: Callable[[float], None] = time.sleep
) -> Iterator[Registration]:
    """The table's snapshot: a new one, or that of a run that is gone. `first`: the lake has no such table.

    It stays registered when the block ends. Waits for the end of a lease, whose run may have been killed; raises
    SessionError when that run is at work.
    """
    with Registration(connector, _opened(connector, table, owner, first, sleep)) as registration:
        yield registration


def _opened(connector: Connector, table: str, owner: str, first: bool, sleep: Callable[[float], None]) -> Snapshot:
    try:
        return connector.snapshots.open(table, owner=owner, first=first, lease_seconds=LEASE_SECONDS)
    except SessionError:
        sleep(LEASE_SECONDS)
        return connector.snapshots.open(table, owner=owner, first=first, lease_seconds=LEASE_SECONDS)
