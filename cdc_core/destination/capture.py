"""One destination at one server for one term: source -> stream -> store -> session, put together.

    dump thread    Dump -> Pipeline -> Store.put; after an error it tries again, with a pause
    keep thread    writes the store to disk, where that is configured
    tidy thread    leases that ran out, cursors over ranges without rows, the age of binlog files
    heartbeat      asks whether the server answers, where that is configured
    callers        claim, ack, rollback, ... (`service`)

A capture is bound to one server, whose journals order all that it holds: another server is read by another capture,
which begins at the cursors. The cursor moves by acks alone, so that whatever fails here leaves it where it was.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import structlog

from cdc_core.binlog.block import Block, BlockSlice
from cdc_core.config.models import InstanceConfig
from cdc_core.contract.failover import Detected
from cdc_core.contract.stages import DECODE, STORE
from cdc_core.contract.status import Status
from cdc_core.destination.catalogue import Catalogue
from cdc_core.destination.claim_gtid import gtid_after, last_gtid_after
from cdc_core.destination.dropped import tell
from cdc_core.destination.events import Source
from cdc_core.destination.health import Health
from cdc_core.destination.kept import make_kept
from cdc_core.destination.kept_room import disk_room
from cdc_core.destination.metrics import Metrics
from cdc_core.destination.positions import Waiting
from cdc_core.destination.refilter import make_refilter
from cdc_core.destination.reporter import Reporter
from cdc_core.destination.servers import make_heartbeat
from cdc_core.destination.service import CanalService
from cdc_core.destination.shared.pool import POOL, Pool, make_member
from cdc_core.destination.start import StartFinder, resume_position
from cdc_core.destination.sweep import Sweep
from cdc_core.destination.tidier import Tidier
from cdc_core.destination.tsdb import make_tsdb
from cdc_core.errors import SluiceError, SourceChanged, SourceUnavailable
from cdc_core.gtid import Gtid, Gtids
from cdc_core.meta.cursors import Cursors
from cdc_core.meta.nodes import Nodes
from cdc_core.position import EntryPosition
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.session.durable_session import DurableSession
from cdc_core.session.session import Session
from cdc_core.session.stage_seconds import StageSeconds
from cdc_core.source.checks import ServerInfo
from cdc_core.source.connection import Connection
from cdc_core.source.dump import Dump
from cdc_core.source.expiry import Expiry
from cdc_core.source.settings import source_settings
from cdc_core.store.ring import Ring
from cdc_core.store.store import Store
from cdc_core.stream.annotate import Annotator
from cdc_core.stream.ddl_events import DdlReader, Traits
from cdc_core.stream.executed import Executed
from cdc_core.stream.filter import make_filter
from cdc_core.stream.history import History
from cdc_core.stream.pipeline import pipeline

PAUSES = 5.0, 60.0  # seconds between attempts to read the source: the shortest and the longest
_JOIN_SECONDS = 10.0
_READER = "reader"  # whose stages are those of the dump thread

log = structlog.get_logger(__name__)


class Capture:
    """`start` returns at once; `status()` says how it goes. `clock` is in epoch seconds, `pauses` are the shortest and
    the longest between two attempts. Without a `source` it reads the master. `on_failed` is called, with the reason,
    when the heartbeat says that the other server is to be read; `on_replaced` when another server answers at the
    address: nothing is tried after it. Without them reading goes on here, or is tried again. `on_damaged` is called
    when what is on disk cannot be read any more: another capture reads it again from the source. `pool` has the
    connections that destinations of one server share."""

    def __init__(
        self,
        config: InstanceConfig,
        nodes: Nodes,
        clock: Callable[[], float] = time.time,
        pauses: tuple[float, float] = PAUSES,
        *,
        source: Source | None = None,
        on_failed: Callable[[str], None] = lambda _: None,
        on_replaced: Callable[[], None] | None = None,
        on_damaged: Callable[[], None] = lambda: None,
        pool: Pool = POOL,
    ) -> None:
        self.config, self._clock, self._on_replaced = config, clock, on_replaced
        self._source = source or Source(config.sources[0], "master")
        self.settings = source_settings(config, self._source.address)
        self.registry = SchemaRegistry()
        disk_bytes = disk_room(config)
        alone = config.ddl_isolation
        sizes = config.capacity_bytes, config.capacity_items
        ring = Ring(self.registry.get, *sizes, disk_bytes=disk_bytes, isolates_ddl=alone)
        self.store = Store(ring)
        self.stages = StageSeconds()
        self._enter = partial(self.stages.enter, _READER)
        self.health = Health(config.destination, clock, pauses)
        captured = make_filter(config.filter_regex, config.filter_black_regex)
        catalogue = Catalogue(config, self.settings, captured)
        self._tsdb = make_tsdb(config, nodes, catalogue, clock) if config.tsdb else None
        ddl = DdlReader(captured, self._traits, self._tsdb)
        cursors = Cursors(nodes, config.destination)
        refilter = make_refilter(config, cursors, catalogue, self._tsdb, lambda: self.sessions.server_uuid)
        first_batch = int(clock() * 1000) * 1000
        filters = config.filter_regex, config.filter_black_regex
        session = Session(config.destination, ring, self.registry.get, first_batch, self._gtid_after, filters)
        self.sessions = DurableSession.configured(
            config, self.settings, self.store, session, cursors, clock, ddl.statements, refilter, self.stages
        )
        self._stop = threading.Event()
        stopped = self._stop.is_set
        self.kept = make_kept(config, self.settings, self.store, self.registry, clock, on_damaged, stopped)
        self._start_finder = StartFinder(config, self.settings, stopped, self.kept)
        self._expiry = Expiry(self.settings, clock)
        self._heartbeat = make_heartbeat(config, self._source.address, self.settings, on_failed)
        self._executed = Executed()
        resolve = self._tsdb.resolve if self._tsdb else lambda schema, _: catalogue.complete(schema)
        annotator = Annotator(self.registry, resolve, captured, ddl)
        self._sweep = Sweep(self.registry, self._schemas_in_use, annotator.forget)
        history = History.of_server(self.settings, stopped)
        self._pipeline = pipeline(history, annotator, self._executed, lambda: self.store.ring.log.last_position)
        self._dump = Dump(
            self.settings,
            on_block=self._on_block,
            captured=captured,
            on_connect=self._on_connect,
            on_reset=self._on_reset,
            on_lost=self._on_lost,
            sharing=make_member(pool, config, self.settings, captured),
            enter=self._enter,
        )
        self._reporter = self._make_reporter()
        self.service = CanalService(
            config, self.registry, self.sessions, catalogue, self._reporter, self.health, self._unconnected, ddl,
            self._hurry,
        )  # fmt: skip
        self._server: ServerInfo | None = None
        self._start: EntryPosition | None = None
        self._begun = False
        self._threads: list[threading.Thread] = []

    def __repr__(self) -> str:
        return f"<Capture {self.config.destination} {self.settings.address} {self.state} {self.store!r}>"

    def _make_reporter(self) -> Reporter:
        return Reporter(
            destination=self.config.destination,
            address=self.settings.address,
            store=self.store,
            sessions=self.sessions,
            registry=self.registry,
            dump=self._dump.status,
            health=self.health,
            start_finder=self._start_finder,
            expiry=self._expiry,
            stages=self.stages,
            detected=self._detected,
            clock=self._clock,
        )

    # -- life

    def start(self) -> None:
        tidier = Tidier(
            self.config.destination,
            self.store,
            self.sessions,
            self.health,
            self._expiry,
            self._tsdb,
            lambda: self._dump.status.connected,
            self.config.flush_ms / 1000,
            self.kept.needed if self.kept else dict,
        )
        works: list[tuple[str, Callable[[], None]]] = [("dump", self._read), ("tidy", partial(tidier.run, self._stop))]
        if self.kept is not None:
            works.append(("keep", partial(self.kept.keeper.run, self._stop)))
        for name, work in works:
            thread = threading.Thread(target=work, name=f"{name} {self.config.destination}", daemon=True)
            thread.start()
            self._threads.append(thread)
        if self._heartbeat is not None:
            self._heartbeat.start()

    def stop(self, seconds: float = _JOIN_SECONDS) -> None:
        """Outstanding claims are lost with it: their rows are read again from the cursor. Waits so long for each of its
        threads; one that is left writes nothing any more."""
        self.health.end()
        self._stop.set()
        if self._heartbeat is not None:
            self._heartbeat.stop()
        self._dump.wake()
        self.store.close()
        self.sessions.close()
        for thread in self._threads:
            thread.join(seconds)

    def _read(self) -> None:
        """The dump thread: until stopped, again and again after what it cannot go on from."""
        while not self._stop.is_set():
            try:
                self._dump.run(self._resume, self._stop)
            except Exception as error:
                if isinstance(error, SourceChanged) and self._on_replaced is not None:
                    log.error("another server answers", destination=self.config.destination, **error.as_dict())
                    self._on_replaced()
                    return
                self._start_finder.note_failure(error)
                self._stop.wait(self.health.failed(error))

    # -- the way of the data

    def _resume(self, conn: Connection) -> EntryPosition:
        """Where a connection starts: after the last transaction put, at first at the smallest cursor."""
        assert self._server is not None
        with self.store.changed:
            ring, clients = self.store.ring, self.sessions.session.clients
            cursors = {client_id: client.cursor for client_id, client in clients.items()}
            read = self._begun and ring.log.last_position is not None  # all clients are there by then
            start = resume_position(ring.log.last_commit, cursors.values()) if read else None
        if start is None:
            start = self._first_start(conn, self._server)
        else:
            executed = self._executed.committed
            self._start_finder.check_again(conn, self._server, start, executed, self.sessions, cursors)
            start = start if executed is None else replace(start, gtid=executed)
        self.health.connected()
        log.info("reading", destination=self.config.destination, source=self.settings.address, position=str(start))
        return start

    def _first_start(self, conn: Connection, server: ServerInfo) -> EntryPosition:
        """Looked for until the first events are put."""
        self._start = self._start_finder.begin(conn, server, self.sessions)
        self._executed.start(self._start_finder.executed_set(self._start.gtid))
        if self._tsdb is not None:
            self._tsdb.begin(server.server_uuid or str(server.server_id), self._start)
        self._begun = True
        return self._start

    def _on_connect(self, server: ServerInfo) -> None:
        self._server = server
        for warning in server.warnings:
            log.warning("source", destination=self.config.destination, warning=warning)

    def _on_lost(self, error: SourceUnavailable, seconds: float) -> None:
        self.health.lost(error, seconds)
        if self._heartbeat is not None:
            self._heartbeat.hurry()

    def _on_reset(self, journal_name: str) -> None:
        """Before the first block of a connection, and of each journal."""
        self._pipeline.reset()
        self.store.hurry()  # the server may purge the files before it
        tell(self.config.destination, self.sessions.drop_uncommitted(journal_name))

    def _on_block(self, block: Block) -> None:
        if self._stop.is_set():  # a block refused by a stop must not be followed by the next one
            return
        received = time.monotonic()
        for piece in self._pipeline.push(block):
            decoded = time.monotonic()
            self._enter(STORE, decoded)
            if not self.store.put(piece, self._stop, (received, decoded)):
                return
            self._enter(DECODE, None)
            self.health.progressed()
            self._start_finder.note_progress()
        self._sweep.look()

    def _schemas_in_use(self) -> set[int]:
        """Of the log first: what is written meanwhile is on disk then."""
        found = self.store.schemas()
        return found | self.kept.keeper.schemas() if self.kept else found

    def _traits(self) -> Traits:
        server = self._server
        return Traits(server.flavor == "mariadb", server.lower_case) if server else Traits()

    def _gtid_after(self, slices: list[BlockSlice], before: Gtid | Gtids | None) -> Gtid | Gtids | None:
        flavor = self._server.flavor if self._server else ""
        return gtid_after(slices, before, flavor) if self.config.gtid_mode else last_gtid_after(slices, before)

    # -- looking

    @property
    def state(self) -> str:
        return "stopped" if self._stop.is_set() else self.health.state(self._dump.status)

    def status(self) -> Status:
        self._dump.look()  # who waits for a position need not wait for more
        return self._reporter.status(self.state, self._server, self._start)

    def _hurry(self) -> None:
        self._dump.look()
        self.store.hurry()

    def waiting(self) -> Waiting | None:
        return self._reporter.waiting()

    def metrics(self) -> Metrics:
        return self._reporter.metrics()

    def _detected(self) -> Detected:
        source, heartbeat = self._source, self._heartbeat
        return Detected(source.role, heartbeat.failures if heartbeat else None, source.switches, source.switched)

    def _unconnected(self) -> SluiceError:
        return self.health.unconnected(self.state, self._dump.status)
