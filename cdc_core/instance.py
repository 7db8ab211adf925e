"""One destination: source -> expand -> settle -> annotate -> trim -> store -> session, put together.

    dump thread    Dump -> expand -> Settler -> Annotator -> trim -> Store.put    errors: failed, again after a pause
    tidy thread    leases that ran out, cursors over ranges without rows
    callers        claim, ack, rollback, ... (`session.serving`)

The cursor moves by acks alone: whatever fails here leaves it where it was. Other destinations are not touched.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import structlog

from cdc_core.addresses import source_settings
from cdc_core.binlog.annotate import Annotator
from cdc_core.binlog.expand import expand
from cdc_core.binlog.gtid_columns import Executed, advanced
from cdc_core.binlog.gtids import last_gtid
from cdc_core.binlog.history import History
from cdc_core.binlog.settle import Settler
from cdc_core.config.models import InstanceConfig
from cdc_core.errors import CursorError, DecodeError, SchemaError, SluiceError, SourceChanged, SourceUnavailable
from cdc_core.gtid import parse_gtids
from cdc_core.health import Health
from cdc_core.meta.cursors import Cursors
from cdc_core.meta.nodes import Nodes
from cdc_core.meta.stopped import StoppedTable
from cdc_core.position import EntryPosition, LogPosition, journal_number
from cdc_core.schema.information_schema import complete, list_tables
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.schema.table import TableSchema
from cdc_core.session.claim import Claim
from cdc_core.session.latest import latest
from cdc_core.session.serving import Serving
from cdc_core.session.session import Session
from cdc_core.sink.filter import make_filter
from cdc_core.sink.resume import trim
from cdc_core.source.block import Block, BlockSlice
from cdc_core.source.checks import ServerInfo
from cdc_core.source.connection import Connection, connect
from cdc_core.source.detecting import Detected
from cdc_core.source.dump import Dump
from cdc_core.source.expiry import PERIOD, Expiry
from cdc_core.source.settings import SourceSettings
from cdc_core.starting import Starting
from cdc_core.store.ring import Ring
from cdc_core.store.store import Store
from cdc_core.telling import Telling

PAUSES = 5.0, 60.0  # seconds between attempts to read the source: the shortest and the longest
_STANDS_STILL = "the cursor stands still"
_FULL_PAUSE = 1.0  # between two looks at a ring that stays full
_JOIN_SECONDS = 10.0
_NOBODY = -1  # no client: what the tidy thread runs into

log = structlog.get_logger(__name__)


class Instance:
    """`start` returns at once; `status()` tells how it goes. `clock` is in epoch seconds, `pauses` are the shortest
    and the longest between two attempts. `address` is that of the server, the master's without it. `on_lost` comes with
    each lost connection; `on_changed` when another server answers, after which nothing is tried any more."""

    def __init__(
        self,
        config: InstanceConfig,
        nodes: Nodes,
        clock: Callable[[], float] = time.time,
        pauses: tuple[float, float] = PAUSES,
        *,
        address: str = "",
        on_lost: Callable[[], None] | None = None,
        on_changed: Callable[[Instance], None] | None = None,
        detected: Callable[[], Detected] = lambda: Detected("master"),
    ) -> None:
        self.config = config
        self.registry = SchemaRegistry()
        self.store = Store(Ring(self.registry.get, config.capacity_bytes, config.capacity_items))
        self.health = Health(clock, pauses)
        self._accept = make_filter(config.filter_regex, config.filter_black_regex)
        session = Session(
            config.destination, self.store.ring, self.registry.get, int(clock() * 1000) * 1000, self._gtid_after
        )
        self._settings = source_settings(config, address)
        here = LogPosition(self._settings.host, self._settings.port, EntryPosition("start.0", 0))
        cursors = Cursors(nodes, config.destination)
        self.serving = Serving(self.store, session, cursors, here, config.filter_regex, clock)
        self._session = session
        self._stop = threading.Event()
        self._starting = Starting(config, self._settings, self._stop.is_set)
        self._expiry = Expiry(self._settings, clock)
        self._annotator = Annotator(self.registry, self._resolve, self._accept)
        history = History.of(self._settings, self._stop.is_set)
        self._settler = Settler(history.again, history.find)
        self._dump = Dump(
            self._settings,
            on_block=self._on_block,
            on_connect=self._on_connect,
            on_reset=self._on_reset,
            on_lost=self._on_lost,
        )
        self._source_lost, self._source_changed = on_lost, on_changed
        self._telling = Telling(
            destination=config.destination,
            address=self._settings.address,
            store=self.store,
            serving=self.serving,
            registry=self.registry,
            dump=self._dump.status,
            health=self.health,
            starting=self._starting,
            expiry=self._expiry,
            detected=detected,
            clock=clock,
        )
        self._server: ServerInfo | None = None
        self._start: EntryPosition | None = None
        self._executed: Executed | None = None
        self._threads: list[threading.Thread] = []

    def __repr__(self) -> str:
        return f"<Instance {self.config.destination} {self.state} {self.store!r}>"

    # -- life

    def start(self) -> None:
        for name, work in (("dump", self._run), ("tidy", self._tidy)):
            thread = threading.Thread(target=work, name=f"{name} {self.config.destination}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self, seconds: float = _JOIN_SECONDS) -> None:
        """Outstanding claims are lost with it: their rows are read again from the cursor. Waits so long for each of its
        threads; one that is left writes nothing any more."""
        self._stop.set()
        self._dump.wake()
        self.store.close()
        self.serving.close()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(seconds)

    def _run(self) -> None:
        """The dump thread: until stopped, again and again after what it cannot go on from."""
        while not self._stop.is_set():
            try:
                self._dump.run(self._resume, self._stop)
            except Exception as error:
                if isinstance(error, SourceChanged) and self._source_changed is not None:
                    self._source_changed(self)
                    return
                self._starting.failed(error)
                pause = self.health.failed(error)
                self._tell(error, pause)
                self._stop.wait(pause)

    def _tell(self, error: Exception, pause: float) -> None:
        told = self.health.error or {}
        expected = isinstance(error, SluiceError)
        log.error("destination failed", destination=self.config.destination, **told, again=pause, exc_info=not expected)

    def _tidy(self) -> None:
        well = True
        while not self._stop.is_set():
            if well and self._expiry.told:  # else what failed, or was not asked yet, is tried soon
                self.store.wait_unacked(PERIOD)
            full = self.store.wait_full(self.config.flush_ms / 1000)
            try:
                for client_id, batches in self.serving.tidy().items():
                    log.warning("lease ran out", destination=self.config.destination, client=client_id, batches=batches)
                self._note(_NOBODY, _STANDS_STILL, None)
                well = True
            except Exception as error:
                self._note(_NOBODY, _STANDS_STILL, error)
                well = False
            if self._dump.status.connected:
                self._expiry.look(self._session.cursors())
            if full:
                self._stop.wait(_FULL_PAUSE)

    # -- the way of the data

    def _resume(self, conn: Connection) -> EntryPosition:
        """Where a connection starts: behind the last transaction put, at first at the smallest cursor."""
        with self.store.changed:
            ring, cursors = self.store.ring, [client.cursor for client in self._session.clients.values()]
            known = latest(ring.last_commit, cursors) if ring.last_position else None  # all clients are there by then
        start = self._again(known) if known else self._first_start(conn)
        self.health.connected()
        log.info("reading", destination=self.config.destination, source=self._settings.address, position=str(start))
        return start

    def _again(self, start: EntryPosition) -> EntryPosition:
        assert self._server is not None
        self._starting.check_same(self._server)
        return replace(start, gtid=str(self._executed.committed)) if self._executed else start

    def _first_start(self, conn: Connection) -> EntryPosition:
        """Looked for until the first events are put."""
        assert self._server is not None
        start = self._starting.begin(conn, self._server, self.serving)
        self._start, self._executed = start, self._starting.executed(start.gtid)
        return start

    def _on_connect(self, server: ServerInfo) -> None:
        self._server = server
        for warning in server.warnings:
            log.warning("source", destination=self.config.destination, warning=warning)

    def _on_lost(self, error: SourceUnavailable, seconds: float) -> None:
        if self.health.lost(error):
            log.error("source away", destination=self.config.destination, **error.as_dict(), again=round(seconds, 1))
        if self._source_lost is not None:
            self._source_lost()

    def _on_reset(self) -> None:
        self._settler.reset()
        self._annotator.reset()
        if self._executed:
            self._executed.reset()

    def _on_block(self, block: Block) -> None:
        if self._stop.is_set():  # a block refused by a stop must not be followed by the next one
            return
        for opened in expand(block):
            for piece in self._settler.settle(opened):
                self._annotator.annotate(piece.journal_name, piece.data, piece.index)
                fresh = self._unseen(piece)
                if fresh is not None and not self.store.put(fresh, self._stop):
                    return
                if self._executed:
                    self._executed.advance(piece)
                if fresh is None:
                    continue
                self.health.progressed()
                self._starting.progressed()

    def _unseen(self, block: Block) -> Block | None:
        """What of a block was not put before."""
        last = self.store.ring.last_position
        if last is None:
            return block
        ahead = journal_number(block.journal_name) - journal_number(last.journal_name)
        if ahead:
            return block if ahead > 0 else None
        return trim(block, last.position)

    def _gtid_after(self, slices: list[BlockSlice], before: str) -> str:
        """In GTID mode the set behind a range; else the GTID of its last transaction, or of the one before it."""
        parts = [(part.block.data, part.block.index[part.low : part.high]) for part in slices]
        if self.config.gtid_mode:
            gtids = parse_gtids(before, self._server.flavor if self._server else "")
            for data, index in parts:
                gtids = advanced(gtids, data, index)
            return str(gtids)
        return next(filter(None, (last_gtid(data, index) for data, index in reversed(parts))), before)

    def _resolve(self, schema: TableSchema) -> TableSchema:
        return self._told(complete(schema, lambda: connect(self._settings)))

    def _told(self, schema: TableSchema) -> TableSchema:
        return schema.with_dates_as_text() if self.config.zero_dates == "string" else schema

    # -- what clients ask

    def claim(
        self, client_id: int, batch_size: int, timeout_seconds: float, owner: str, lease_seconds: float
    ) -> Claim | None:
        """getWithoutAck: None when nothing came within the time."""
        self._check_ready()
        return self.serving.claim(client_id, batch_size, timeout_seconds, owner, lease_seconds)

    def ack(self, client_id: int, batch_id: int, owner: str) -> EntryPosition | None:
        self._check_ready()
        try:
            cursor = self.serving.ack(client_id, batch_id, owner)
        except CursorError as error:
            self._note(client_id, "an ack cannot be written", error, batch_id)
            raise
        self.health.acked(client_id, batch_id)
        self._note(_NOBODY, _STANDS_STILL, None)  # cursors can be written
        return cursor

    def renew(self, client_id: int, batch_id: int, owner: str, lease_seconds: float) -> float:
        self._check_ready()
        return self.serving.renew(client_id, batch_id, owner, lease_seconds)

    def rollback(self, client_id: int, batch_id: int | None, owner: str | None, reason: str) -> list[int]:
        self._check_ready()
        given = self.serving.rollback(client_id, batch_id, owner)
        if given:
            log.warning("rolled back", destination=self.config.destination, batches=given, owner=owner, reason=reason)
        return given

    def slices(self, client_id: int, batch_id: int) -> list[BlockSlice]:
        self._check_ready()
        return self.serving.slices(client_id, batch_id)

    def note_read(self, client_id: int, batch_id: int, part: str, error: Exception | None) -> None:
        """What came of reading rows of a claim: those that cannot be read are shown until they can be, or are acked.
        That a range is gone concerns its reader alone."""
        if isinstance(error, DecodeError | SchemaError) or not isinstance(error, SluiceError):
            self._note(client_id, f"{part} cannot be read", error, batch_id)

    def _note(self, client_id: int, what: str, error: Exception | None, batch_id: int = 0) -> None:
        if self.health.noted(client_id, what, error, batch_id) and error is not None:
            expected = isinstance(error, SluiceError)
            told = error.as_dict() if isinstance(error, SluiceError) else {}
            log.error(what, destination=self.config.destination, client=client_id, **told, exc_info=not expected)

    def stop_table(self, client_id: int, table: str, reason: str, hint: str, position: EntryPosition) -> None:
        self._check_ready()
        self.serving.stop_table(client_id, StoppedTable(table, reason, hint, position.to_dict()))

    def resume_table(self, client_id: int, table: str) -> None:
        self._check_ready()
        self.serving.resume_table(client_id, table)

    def client(self, client_id: int) -> dict[str, Any]:
        self._check_ready()
        return self.serving.client(client_id)

    def _check_ready(self) -> None:
        """Before the first connection no client is known: that is the source's state, not the caller's mistake."""
        if not self._session.clients:
            told = self.error or {}
            why = told.get("message", "it has not connected yet")
            raise SourceUnavailable(
                f"destination {self.config.destination} is {self.state}: {why}",
                place=str(told.get("place", "")),
                hint=str(told.get("hint", "Call again.")),
            )

    # -- what it tells

    @property
    def settings(self) -> SourceSettings:
        """Of the server that is read."""
        return self._settings

    @property
    def state(self) -> str:
        return "stopped" if self._stop.is_set() else self.health.state(self._dump.status)

    @property
    def error(self) -> dict[str, Any] | None:
        return self.health.error_of(self._dump.status)

    def tables(self) -> list[TableSchema]:
        """The captured tables as the server has them now."""
        with connect(self._settings) as conn:
            return [self._told(schema) for schema in list_tables(conn, self._accept)]

    def status(self) -> dict[str, Any]:
        return self._telling.status(self.state, self._server, self._start)

    def metrics(self) -> dict[str, float | None]:
        return self._telling.metrics()
