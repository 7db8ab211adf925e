"""A snapshot's registration with the service, kept while the table is read.

While it is open, claims carry it, and their runs keep the table's changes in the lake's staging.
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
    """`snapshot` is the service's last answer."""

    def __init__(self, connector: Connector, snapshot: Snapshot) -> None:
        super().__init__(f"snapshot of {snapshot.table}", snapshot.lease_seconds, self._keep)
        self.snapshot = snapshot
        self._connector = connector
        self._lock = threading.Lock()

    def check(self) -> None:
        """Raises SessionError when the snapshot was cancelled or taken over, Broken when it cannot be finished."""
        if self.refusal is not None:
            raise self.refusal
        check_open(self.snapshot)

    def note(self, progress: Progress) -> None:
        """Keeps the progress with the service. Raises what `check` raises."""
        self.check()
        with self._lock:
            self.snapshot = self._connector.snapshots.note(self.snapshot, progress)
        self.check()

    def renew(self) -> None:
        """Asks the service for the snapshot's state. Raises what `check` raises."""
        self._keep()
        self.check()

    def _keep(self) -> None:
        with self._lock:
            self.snapshot = self._connector.snapshots.renew(self.snapshot)


class Registrations(Renewal):
    """The registrations of several tables of one owner, which one thread renews. Each is the service's last answer."""

    def __init__(self, connector: Connector) -> None:
        super().__init__("snapshots", LEASE_SECONDS, self._keep_all)
        self._connector = connector
        self._lock = threading.Lock()
        self._open: dict[str, Snapshot] = {}
        self._refused: dict[str, SessionError] = {}

    def open(self, table: str, owner: str, *, first: bool) -> Snapshot:
        """Opens the table's snapshot, and returns it. Raises SessionError while another owner reads the table."""
        found = self._connector.snapshots.open(table, owner=owner, first=first, lease_seconds=LEASE_SECONDS)
        return self._known(found)

    def note(self, snapshot: Snapshot, progress: Progress) -> Snapshot:
        """Keeps the progress with the service. Raises what `check` raises."""
        self.check(snapshot.table)
        found = self._known(self._connector.snapshots.note(snapshot, progress))
        self.check(snapshot.table)
        return found

    def check(self, table: str) -> None:
        """Raises SessionError when the snapshot was cancelled or taken over, Broken when it cannot be finished."""
        with self._lock:
            refused, there = self._refused.get(table), self._open.get(table)
        if refused is not None:
            raise refused
        if there is not None:
            check_open(there)

    def leave(self, table: str) -> None:
        """Stops renewing the table's snapshot: it has ended, or somebody else renews it."""
        with self._lock:
            self._open.pop(table, None)

    def _known(self, snapshot: Snapshot) -> Snapshot:
        with self._lock:
            self._open[snapshot.table] = snapshot
        return snapshot

    def _keep_all(self) -> None:
        with self._lock:
            kept = list(self._open.values())
        for one in kept:
            try:
                found = self._connector.snapshots.renew(one)
            except SessionError as refused:
                with self._lock:
                    if self._open.pop(one.table, None):
                        self._refused[one.table] = refused
                continue
            with self._lock:
                if one.table in self._open:
                    self._open[one.table] = found


def check_open(snapshot: Snapshot) -> None:
    """Raises Broken for a snapshot that cannot be finished."""
    if snapshot.broken:
        hint = "Start the snapshot again when the source's definitions and server no longer change."
        raise Broken(snapshot.broken, place=snapshot.table, hint=hint)


@contextmanager
def registered(
    connector: Connector, table: str, owner: str, *, first: bool, sleep: Callable[[float], None] = time.sleep
) -> Iterator[Registration]:
    """Yields the table's snapshot: a new one, or one of a run that is gone. `first`: the lake has no such table.

    It stays registered when the block ends. Waits for the end of a lease, whose run may have been killed; raises
    SessionError when that run is still at work.
    """
    with Registration(connector, _opened(connector, table, owner, first, sleep)) as registration:
        yield registration


def _opened(connector: Connector, table: str, owner: str, first: bool, sleep: Callable[[float], None]) -> Snapshot:
    try:
        return connector.snapshots.open(table, owner=owner, first=first, lease_seconds=LEASE_SECONDS)
    except SessionError:
        sleep(LEASE_SECONDS)
        return connector.snapshots.open(table, owner=owner, first=first, lease_seconds=LEASE_SECONDS)
