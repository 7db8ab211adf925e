"""The snapshot of one table that a load opens, goes on with, breaks off or ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from cdc_core.client.connector import Connector
from cdc_core.contract.snapshot import FIRST_START, Snapshot
from cdc_core.errors import SluiceError
from cdc_core.schema.names import split_name
from spark_jobs.lake.tables import Lake
from spark_jobs.load.registration import Registration, registered
from spark_jobs.load.result import Broken
from spark_jobs.load.staging import Staging

JOB = "job-"  # prefix of a snapshot's owner if a run of Dagster reads it


@dataclass(frozen=True, slots=True)
class LoadSnapshot:
    """The snapshot of `table` as one owner of it sees it."""

    connector: Connector
    lake: Lake
    table: str
    owner: str
    sleep: Callable[[float], None]

    @contextmanager
    def registered(self, *, resumable: bool) -> Iterator[Registration]:
        """Yields the table's snapshot. It stays open after an error if it is resumable, or if this load took it over,
        because others may wait for it. A broken snapshot stays open as such: the next load starts it again."""
        connector, first = self.connector, not self.lake.has(*split_name(self.table))
        before = connector.client_status()
        stopped = any(one.table == self.table for one in before.stopped)
        stays = resumable or any(one.table == self.table for one in before.snapshots)
        with registered(connector, self.table, self.owner, first=first, sleep=self.sleep) as registration:
            done = stays
            try:
                yield registration
                done = True
            except Broken as error:
                if stays:
                    self.break_off(registration.snapshot, error.message)
                raise
            finally:
                if not done:
                    self._give_up(registration.snapshot, lift=first and not stopped)

    def end(self, *, idle: bool = False) -> None:
        """Ends the table's snapshot if this load took it over, or nobody has taken it: the table is in the lake.
        `idle`: also one that no job reads any more, or that is broken, of a table that is gone or not captured: the
        sensor would start loads of it for ever."""
        for one in self.connector.client_status().snapshots:
            left = idle and (one.broken or (is_job(one.owner) and one.lease_deadline < time.time()))
            if one.table == self.table and (left or one.owner in (self.owner, FIRST_START)):
                self.connector.snapshots.cancel(self.table)
                self.staging(one.id).remove()

    def break_off(self, snapshot: Snapshot, reason: str) -> None:
        """Marks the snapshot as broken: claims no longer name it, and its staged rows are removed."""
        self.connector.snapshots.break_off(snapshot.table, snapshot.id, reason)
        self.staging(snapshot.id).remove()

    def remove_broken(self) -> None:
        """Removes the staged rows of a broken snapshot without a reader: the next snapshot has another id."""
        for one in self.connector.client_status().snapshots:
            if one.table == self.table and one.broken:
                self.staging(one.id).remove()

    def staging(self, snapshot_id: str) -> Staging:
        """Returns the staging of a snapshot."""
        return Staging(self.lake, self.connector.destination, snapshot_id)

    def _give_up(self, snapshot: Snapshot, *, lift: bool) -> None:
        """Closes the snapshot. `lift`: resumes a table that the snapshot stopped, if no changes of it were acked."""
        with suppress(SluiceError):
            self.connector.snapshots.cancel(self.table)
            if lift:
                self.connector.lift_stop(self.table)
        self.staging(snapshot.id).remove()


def is_job(owner: str) -> bool:
    """Whether a snapshot's owner is a run of the job, which may be started again."""
    return owner.startswith(JOB)
