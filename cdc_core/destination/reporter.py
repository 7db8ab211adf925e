"""Makes the `Status` and `Metrics` of a running capture. Reads its parts under the store's lock; changes none."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cdc_core.contract.client_status import ClaimStatus, ClientStatus
from cdc_core.contract.failover import Detected
from cdc_core.contract.status import ErrorReport, SourceStatus, Status, StoreFigures
from cdc_core.contract.stopped_table import StoppedTable
from cdc_core.destination.health import Health
from cdc_core.destination.metrics import Metrics
from cdc_core.destination.positions import Waiting
from cdc_core.destination.start import StartFinder
from cdc_core.errors import StoreError
from cdc_core.position import EntryPosition
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.session.durable_session import DurableSession
from cdc_core.session.stage_seconds import StageSeconds
from cdc_core.source.checks import ServerInfo
from cdc_core.source.dump import DumpStatus
from cdc_core.source.expiry import Expiry
from cdc_core.store.mark import Mark
from cdc_core.store.ring import Ring
from cdc_core.store.store import Store

_PATIENCE = 10.0  # seconds for which a client may hold a full ring back before that is an error


@dataclass(frozen=True, slots=True)
class Reporter:
    """The parts of a capture. `clock` is in epoch seconds."""

    destination: str
    address: str
    store: Store
    sessions: DurableSession
    registry: SchemaRegistry
    dump: DumpStatus
    health: Health
    start_finder: StartFinder
    expiry: Expiry
    stages: StageSeconds
    detected: Callable[[], Detected]
    clock: Callable[[], float]

    def status(self, state: str, server: ServerInfo | None, start: EntryPosition | None) -> Status:
        """`server` is None before the first connection; `start` is the position to show while the ring has none."""
        ring, session = self.store.ring, self.sessions.session
        with self.store.changed:
            clients = tuple(map(self.client, sorted(session.clients)))
            return Status(
                destination=self.destination,
                state=state,
                source=SourceStatus(
                    address=self.address,
                    version=server.version if server else None,
                    server_id=server.server_id if server else None,
                    connected=self.dump.connected,
                    detected=self.detected(),
                ),
                start=self.start_finder.report,
                binlog=self.expiry.report,
                stages=self.stages.last_minute(),
                position=ring.log.last_position or start,
                store=_store_figures(ring),
                lag_seconds=_lag_seconds(ring, self.clock()),
                backlog_rows=ring.put.rows - min((m.ack.rows for m in ring.clients.values()), default=0),
                clients=clients,
                error=self.health.current_error(self.dump)
                or _stuck(self.destination, ring)
                or _starved(self.destination, clients, self.clock()),
            )

    def client(self, client_id: int) -> ClientStatus:
        """Raises SessionError for a client that is not subscribed."""
        with self.store.changed:
            state = self.sessions.session.client(client_id)
            marks, put = self.store.ring.marks(client_id), self.store.ring.put
            stopped = self.sessions.stops.of.get(client_id, {})
            snapshots = self.sessions.snapshots.of.get(client_id, {})
            subscriptions = self.sessions.subscriptions
            since = subscriptions.held_back.get(client_id) if self.store.ring.full else None
            return ClientStatus(
                client_id=client_id,
                cursor=state.cursor,
                reached=state.reached,
                epoch=state.epoch.number,
                backlog_rows=put.rows - marks.ack.rows,
                backlog_bytes=put.nbytes - marks.ack.nbytes,
                put=put.sequence,
                get=marks.get.sequence,
                ack=marks.ack.sequence,
                claims=tuple(ClaimStatus.of(batch.claim) for batch in state.batches),
                stopped=tuple(stopped[name] for name in sorted(stopped)),
                rollbacks=state.rollbacks,
                generation=state.generation,
                backlog_ddl=put.statements - marks.ack.statements,
                identity=self.sessions.identity,
                snapshots=tuple(snapshots[name] for name in sorted(snapshots)),
                rules=self.sessions.rules.fingerprint(client_id),
                quarantined=self.sessions.quarantined.of(client_id),
                blocked=self._blocked(client_id),
                configured=client_id in subscriptions.configured,
                holds_back_seconds=None if since is None else self.clock() - since,
            )

    def _blocked(self, client_id: int) -> tuple[StoppedTable, ...]:
        """Returns the tables whose logs wait, without those that are stopped since."""
        stopped = self.sessions.stops.of.get(client_id, {})
        return tuple(one for one in self.sessions.blocked.of(client_id) if one.table not in stopped)

    def waiting(self) -> Waiting | None:
        """How far has been read, and what each client has not acked; None before the first event."""
        with self.store.changed:
            ring = self.store.ring
            read = ring.log.last_position
            return Waiting(read, {client: ring.oldest_commit(client) for client in ring.clients}) if read else None

    def metrics(self) -> Metrics:
        with self.store.changed:
            ring, session, now = self.store.ring, self.sessions.session, self.clock()
            get, ack = _slowest(ring)
            clients = session.clients.values()
            cursors = [client.cursor for client in clients]
            put_delay = _delay([ring.log.last_commit], now)
            blocked = self.store.blocked_seconds * 1000
            stops = [stop for tables in self.sessions.stops.of.values() for stop in tables.values()]
            stops += [stop for client_id in session.clients for stop in self._blocked(client_id)]
            claimed = [batch.since for client in clients for batch in client.batches]
            times, store = self.sessions.claim_times, _store_figures(ring)
            binlog, detected, heard = self.expiry.report, self.detected(), self.dump.last_received
            return Metrics(
                leader=1,
                subscriptions=len(clients),
                transactions=ring.log.transactions,
                received_binlog_bytes=self.dump.received_bytes,
                publish_blocking_time=blocked,
                sink_blocking_time=blocked,
                store_produce_seq=ring.put.sequence,
                store_consume_seq=ack.sequence,
                store_produce_mem=ring.put.nbytes,
                store_consume_mem=ack.nbytes,
                put_rows=ring.put.rows,
                get_rows=get.rows,
                ack_rows=ack.rows,
                traffic_delay=put_delay,
                put_delay=put_delay,
                get_delay=_delay((client.next_start for client in clients), now),
                ack_delay=_delay(cursors, now),
                cursor_age_seconds=_age(cursors, now),
                unacked_batches=len(claimed),
                oldest_claim_seconds=max((max(0.0, now - since) for since in claimed), default=0.0),
                acked_claims=times.acked,
                claim_seconds=times.seconds,
                rollbacks=self.sessions.session.rollbacks,
                store_bytes=store.bytes,
                store_capacity_bytes=store.capacity_bytes,
                lag_seconds=_lag_seconds(ring, now),
                parse_errors=self.health.parse_errors,
                reconnects=self.dump.reconnects,
                schema_versions=self.registry.held,
                heartbeat_age_seconds=time.monotonic() - heard if heard else None,
                stopped_tables=len(stops),
                blocked_tables=sum(stop.is_blocked for stop in stops),
                source_standby=int(detected.role == "standby"),
                source_switches=detected.switches,
                source_failed_heartbeats=detected.failures,
                binlog_files_left=binlog.files_left if binlog else None,
                binlog_bytes_left=binlog.bytes_left if binlog else None,
                binlog_seconds_left=binlog.seconds_left if binlog else None,
                stage_seconds=self.stages.totals(),
            )


def _stuck(destination: str, ring: Ring) -> ErrorReport | None:
    """The disk takes nothing, and the source waits or soon will."""
    if not ring.stuck:
        return None
    hint = "The service's log has the reason. Make room on the disk, or give sluice.store.dir another one."
    error = StoreError("the store on disk cannot be written", place=f"destination {destination}", hint=hint)
    return ErrorReport.of(error)


def _starved(destination: str, clients: Iterable[ClientStatus], now: float) -> ErrorReport | None:
    """A client gets nothing because another one does not ack, and the ring is full of what that one has not acked."""
    known = list(clients)
    holders = [one for one in known if one.holds_back_seconds is not None]
    waiting = [one for one in known if one.holds_back_seconds is None and one.get == one.put]
    if not holders or not waiting or (seconds := min(one.holds_back_seconds or 0.0 for one in holders)) < _PATIENCE:
        return None
    names, others = (", ".join(str(one.client_id) for one in some) for some in (holders, waiting))
    error = StoreError(
        f"client {names} holds the full store back: client {others} gets nothing",
        place=f"destination {destination}",
        hint="Have it ack what it has, or end its subscription: "
        f"DELETE /v1/destinations/{destination}/clients/{holders[0].client_id}.",
    )
    return ErrorReport.of(error, now - seconds)


def _slowest(ring: Ring) -> tuple[Mark, Mark]:
    """The get and ack marks of the clients that are furthest behind."""
    marks = ring.clients.values()
    return min((m.get for m in marks), default=Mark()), min((m.ack for m in marks), default=Mark())


def _store_figures(ring: Ring) -> StoreFigures:
    get, ack = _slowest(ring)
    return StoreFigures(
        put=ring.put.sequence,
        get=get.sequence,
        ack=ack.sequence,
        items=ring.log.events,
        bytes=ring.log.nbytes,
        capacity_items=None if ring.disk_bytes else ring.capacity_items,
        capacity_bytes=ring.disk_bytes or ring.capacity_bytes,
    )


def _lag_seconds(ring: Ring, now: float) -> float:
    """Age of the oldest transaction that some client has not acked; 0 when all is acked."""
    oldest = [commit for client in ring.clients if (commit := ring.oldest_commit(client)) is not None]
    return max((max(0.0, now - _seconds(commit)) for commit in oldest), default=0.0)


def _age(positions: Iterable[EntryPosition | None], now: float) -> float | None:
    """Seconds since the oldest of these was committed."""
    times = [_seconds(p) for p in positions if p is not None and p.timestamp]
    return max(0.0, now - min(times)) if times else None


def _delay(positions: Iterable[EntryPosition | None], now: float) -> float | None:
    """The same in milliseconds."""
    age = _age(positions, now)
    return None if age is None else age * 1000


def _seconds(position: EntryPosition) -> float:
    return (position.timestamp or 0) / 1000
