"""What clients may ask of one destination: the interface of all doors, named as Canal's.

Errors that clients run into are noted in the health of the capture that serves them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

import structlog

from cdc_core.binlog.block import BlockSlice
from cdc_core.config.models import InstanceConfig
from cdc_core.contract.claim import Claim
from cdc_core.contract.client_status import ClientStatus
from cdc_core.contract.snapshot import Progress, Snapshot
from cdc_core.contract.stopped_table import StoppedTable
from cdc_core.destination.catalogue import Catalogue
from cdc_core.destination.health import Health
from cdc_core.destination.reporter import Reporter
from cdc_core.errors import ConfigError, CursorError, DecodeError, SchemaError, SessionError, SluiceError
from cdc_core.position import EntryPosition
from cdc_core.rules.rules import NO_RULES, Rules
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.schema.table import TableSchema
from cdc_core.session.durable_session import DurableSession
from cdc_core.session.upcoming import Upcoming
from cdc_core.stream.ddl_events import DdlReader
from cdc_core.stream.filter import check_foreign

QUEUE = "message queue"  # the owner of what goes to a message queue

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CanalService:
    """The clients of one capture. Any thread may call; every call raises errors of `cdc_core.errors` alone. It ends
    with its capture: ask the destination for it again with each call. The rows of `slices` refer to the table
    definitions in `registry`. `unconnected` gives the error to raise before the capture's first connection; `hurry` is
    called when somebody asks how far a client is."""

    config: InstanceConfig
    registry: SchemaRegistry
    sessions: DurableSession
    catalogue: Catalogue
    reporter: Reporter
    health: Health
    unconnected: Callable[[], SluiceError]
    ddl: DdlReader
    hurry: Callable[[], None]

    def subscribe(self, client_id: int, *, entries: bool = False) -> ClientStatus:
        """Makes a client known, from the newest transaction on; a subscribed one stays as it is. `entries`: it will
        read Canal's entries."""
        self._connected().subscriptions.subscribe(client_id)
        if entries:
            self.sessions.readers.note(client_id, entries=True)
        return self.reporter.client(client_id)

    def unsubscribe(self, client_id: int) -> None:
        """Forgets a client and its cursor. Raises SessionError for one that is configured."""
        self._connected().subscriptions.unsubscribe(client_id)

    def claim(
        self,
        client_id: int,
        batch_size: int,
        timeout_seconds: float,
        owner: str,
        lease_seconds: float,
        max_bytes: int | None = None,
        *,
        entries: bool = False,
    ) -> Claim | None:
        """Canal's getWithoutAck: at most about `batch_size` rows, and `max_bytes` of the binlog; None when nothing came
        within the time. With `entries` also a range that only Canal's entries show. The claim and its rows are as the
        client's rules have them. Raises ConfigError for rules that cannot be applied."""
        if owner != QUEUE:
            self._check_queue(client_id)
        session = self._connected()
        if entries and session.rules.text(client_id):
            raise _shows_all(self.config.destination, client_id)
        return session.claim(client_id, batch_size, timeout_seconds, owner, lease_seconds, max_bytes, entries=entries)

    def await_change(self, seen: int, seconds: float) -> tuple[int, bool]:
        """Returns when there may be something to claim, or after so long: what to give as `seen` the next time, and
        whether there may be."""
        return self.sessions.await_change(seen, seconds)

    def clients(self) -> list[int]:
        """The subscribed clients, sorted (Canal's listAllSubscribe)."""
        return sorted(self._connected().session.clients)

    def batches(self, client_id: int, owner: str) -> list[int]:
        """The client's outstanding batches of this owner, in the order of their claims (Canal's listBatchIds)."""
        return self._connected().batches(client_id, owner)

    def filter_of(self, client_id: int) -> str:
        """The filter that the client brought along; empty without one."""
        return self.sessions.filters.of(client_id)

    def set_filter(self, client_id: int, text: str) -> None:
        """Keeps a client's own filter, which counts from its next claim on. Raises ConfigError for one that is no
        regular expression, or that would hold the service up."""
        check_foreign(text, f"the filter of client {client_id}")
        self._connected().filters.set(client_id, text)

    def ack(self, client_id: int, batch_id: int, owner: str, mended: Collection[str] = ()) -> EntryPosition | None:
        """The cursor after it, which is written by then. `mended`: tables whose stop ends in the same write."""
        session = self._connected()
        try:
            cursor = session.ack(client_id, batch_id, owner, mended)
        except CursorError as error:
            self.health.note(client_id, "an ack cannot be written", error, batch_id)
            raise
        self.health.acked(client_id, batch_id)
        self.health.note_cursors(None)  # they can be written
        return cursor

    def renew(self, client_id: int, batch_id: int, owner: str, lease_seconds: float) -> float:
        """The lease's new end, in epoch seconds."""
        return self._connected().renew(client_id, batch_id, owner, lease_seconds)

    def rollback(self, client_id: int, batch_id: int | None, owner: str | None, reason: str) -> list[int]:
        """The batches given back: this one and all later ones; without a batch all, or all of the owner's."""
        given = self._connected().rollback(client_id, batch_id, owner)
        if given:
            log.warning("rolled back", destination=self.config.destination, batches=given, owner=owner, reason=reason)
        return given

    def slices(self, client_id: int, batch_id: int) -> list[BlockSlice]:
        """The events of an outstanding claim. Raises RangeGone."""
        return self._connected().slices(client_id, batch_id)

    def _check_queue(self, client_id: int) -> None:
        queue = self.config.queue
        if queue is not None and client_id == queue.client_id:
            raise _is_the_queues(self.config.destination, client_id)

    def rules_of(self, client_id: int) -> str:
        """The rules of the client's lake as JSON; empty without any."""
        return self._connected().rules.text(client_id)

    def set_rules(self, client_id: int, text: str) -> None:
        """Keeps the rules of a client's lake, which count from its next claim on. Open snapshots of tables that have
        another rule then start again. Raises ConfigError for rules that cannot be applied, such as a salt that is
        missing here, SessionError for the message queue's client, which would send nothing any more."""
        self._check_queue(client_id)
        session = self._connected()
        try:
            before = Rules.from_json(session.rules.text(client_id))
        except ConfigError:
            before = NO_RULES  # of another version: they can be set again
        session.rules.set(client_id, text)
        now = Rules.from_json(session.rules.text(client_id))
        for table, snapshot_id in session.snapshots.names(client_id):
            if before.of(table) != now.of(table):
                session.snapshots.break_off(client_id, table, snapshot_id, "the rules of the table changed")

    def seen_by(self, client_id: int, batch_id: int) -> Rules:
        """The rules by which the owner of an outstanding claim sees it. Raises RangeGone."""
        return self._connected().seen_by(client_id, batch_id)

    def span(self, client_id: int, batch_id: int) -> tuple[int, int] | None:
        """Where an outstanding claim lies in the log of `sessions`; None when it is not outstanding."""
        return self._connected().span(client_id, batch_id)

    def upcoming(self, client_id: int, max_rows: int, max_bytes: int) -> Upcoming | None:
        """What the client's next claim with these limits will be, if that is certain; nothing is claimed."""
        return self._connected().upcoming(client_id, max_rows, max_bytes)

    def note_read(self, client_id: int, batch_id: int, part: str, error: Exception | None) -> None:
        """How the reading of a part of a claim went. Rows that cannot be read are the destination's error until they
        can be read, or are acked; a range that is gone concerns its reader alone."""
        if isinstance(error, DecodeError | SchemaError) or not isinstance(error, SluiceError):
            self.health.note(client_id, f"{part} cannot be read", error, batch_id)

    def stop_table(self, client_id: int, stopped: StoppedTable) -> None:
        """From now on, claims name it among their stopped tables."""
        self._connected().stops.stop(client_id, stopped)

    def lift_stop(self, client_id: int, table: str, copied: EntryPosition | None, owner: str = "") -> None:
        """`copied`: where the table was reloaded from the source; `owner`: whose claims will be given back. Raises
        SessionError when the table would miss changes."""
        self._connected().stops.lift(client_id, table, copied, owner)

    def report_quarantined(self, client_id: int, rows: Mapping[str, int], *, whole: bool) -> None:
        """Keeps how many rows of these tables wait in their quarantines. `whole`: no row of any other one does. Raises
        SessionError for a client that is not subscribed."""
        session = self._connected()
        session.session.client(client_id)
        session.quarantined.report(client_id, rows, whole=whole)

    def report_blocked(self, client_id: int, tables: Iterable[StoppedTable]) -> None:
        """Keeps which tables' change logs wait, as their rows break what is expected of them: no others do. Raises
        SessionError for a client that is not subscribed."""
        session = self._connected()
        session.session.client(client_id)
        session.blocked.report(client_id, tables)

    def open_snapshot(self, client_id: int, table: str, owner: str, lease_seconds: float, *, first: bool) -> Snapshot:
        """The table's snapshot: a new one, or one whose owner is gone. `first`: the lake has no such table. Raises
        SessionError while another owner reads it."""
        return self._connected().snapshots.open(client_id, table, owner, lease_seconds, first=first)

    def note_snapshot(
        self, client_id: int, table: str, snapshot_id: str, owner: str, lease_seconds: float, progress: Progress | None
    ) -> Snapshot:
        """Renews the owner's lease, and keeps the progress where there is some. Raises SessionError for others."""
        return self._connected().snapshots.note(client_id, table, snapshot_id, owner, lease_seconds, progress)

    def break_snapshot(self, client_id: int, table: str, snapshot_id: str, reason: str) -> None:
        """It cannot be finished: its reader starts again."""
        self._connected().snapshots.break_off(client_id, table, snapshot_id, reason)

    def close_snapshot(self, client_id: int, table: str, snapshot_id: str | None, owner: str | None) -> None:
        """By its owner when it is in the lake; by anybody to cancel it."""
        self._connected().snapshots.close(client_id, table, snapshot_id, owner)

    def client(self, client_id: int) -> ClientStatus:
        """As it is now. What waits for its time, because it has no rows, moves the cursor soon."""
        self._connected()
        self.hurry()
        return self.reporter.client(client_id)

    def tables(self) -> list[TableSchema]:
        """The captured tables as the server has them now."""
        return self.catalogue.tables()

    def _connected(self) -> DurableSession:
        """Before the first connection no client is known: the source's state, not the caller's mistake."""
        if not self.sessions.session.clients:
            raise self.unconnected()
        return self.sessions


def _shows_all(destination: str, client_id: int) -> SessionError:
    return SessionError(
        f"client {client_id} has rules for its lake, and Canal's entries would show all values",
        place=destination,
        hint="Read entries with a client id of its own (sluice.clients = 1001, 1002).",
    )


def _is_the_queues(destination: str, client_id: int) -> SessionError:
    return SessionError(
        f"client {client_id} is the message queue's: what another reader acks would never reach the queue",
        place=destination,
        hint="Read with a client id of its own (`client_id` in defs.yaml; sluice.clients = 1001, 1002), or give the "
        "queue another one with sluice.mq.client.",
    )
