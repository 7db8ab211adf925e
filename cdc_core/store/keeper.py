"""Writes the log to disk, segment by segment, in its own thread, and brings it back after a restart.

While the disk takes nothing, the log stays in memory up to the ring's capacity: then the source waits.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import reduce

import structlog

from cdc_core.position import EntryPosition
from cdc_core.store.disk.volumes import Volumes
from cdc_core.store.segment import Segment, merge
from cdc_core.store.store import Store

FLUSH_SECONDS = 30.0  # for which a small segment may wait in memory for more
_LOOK_SECONDS = 1.0
_REST_SECONDS = 5.0  # between two looks while there is nothing to write
_ROOM_SECONDS = 60.0  # between looks at the disk's room

log = structlog.get_logger(__name__)


class Keeper:
    """`open` comes before `run`. What all clients acked is kept for `retention` seconds, up to `retention_bytes`, where
    there is room. `clock` is in seconds since the epoch, and may be set back. `on_damage` is called when a segment is
    not what was written, or the directory was removed: the log cannot be used any more, and a new one opened in the
    same place ends before the damage. `room` says how many bytes the log may have; without it that stays as it is."""

    def __init__(
        self,
        store: Store,
        volumes: Volumes,
        retention: float,
        clock: Callable[[], float] = time.time,
        on_damage: Callable[[], None] = lambda: None,
        flush_seconds: float = FLUSH_SECONDS,
        retention_bytes: int | None = None,
        room: Callable[[], int] | None = None,
    ) -> None:
        self._store, self._volumes = store, volumes
        self._retention, self._clock, self._on_damage = retention, clock, on_damage
        self._flush_seconds, self._retention_bytes = flush_seconds, retention_bytes
        self._disk = threading.Lock()  # around each call of the volumes; never waited for under the store's lock
        self._room = room
        self._flushed, self._tidied, self._measured = clock(), 0.0, clock()
        self._told = False
        self._off = threading.Event()

    def __repr__(self) -> str:
        return f"<Keeper {self._volumes!r}>"

    def open(self, belongs_to: Mapping[str, str]) -> EntryPosition | None:
        """Takes into the log what is on disk. Where that ends; None without any. Raises StoreError when another process
        uses the directory, OSError."""
        with self._disk:
            parts = self._volumes.open(belongs_to)
            with self._store.changed:
                self._store.ring.log.restore(parts)
                return self._store.ring.log.last_commit

    def schemas(self) -> set[int]:
        """The numbers of the definitions of what is on disk, also where the log does not have it any more."""
        with self._disk:
            return self._volumes.schemas()

    def give_up(self) -> None:
        """From now on the log is in memory alone. Nothing was taken from disk, and nothing is written."""
        self._off.set()
        with self._store.changed:
            self._store.ring.disk_bytes = 0
            self._store.changed.notify_all()
            self._store.upkeep.notify_all()

    def discard(self) -> None:
        """Empties the log, which no client uses yet, and removes what is on disk."""
        with self._disk:
            with self._store.changed:
                self._store.ring.log.restore(())
            self._volumes.discard()

    def run(self, stop: threading.Event) -> None:
        """Until `stop` is set; then what is left is written, and the directory is given back."""
        try:
            while not stop.is_set() and not self._off.is_set():
                try:
                    self._work(stop)
                    self._tidy()
                except Exception as error:  # the thread must go on: without it the source waits for ever
                    self._note(error)
                    stop.wait(_LOOK_SECONDS)
            while not self._off.is_set() and self._write_next(at_once=True):
                pass
        finally:
            with self._disk:
                self._volumes.close()

    def _work(self, stop: threading.Event) -> None:
        """Writes the next segment, or waits for one."""
        due = not 0 <= self._clock() - self._flushed < self._flush_seconds
        if self._write_next(at_once=due or self._store.ring.crowded):
            return
        if due and not self._store.ring.stuck:
            self._flushed = self._clock()
        if self._store.ring.stuck:
            stop.wait(_LOOK_SECONDS)
        else:
            with self._store.changed:
                if not self._next(at_once=self._store.ring.crowded):
                    self._store.upkeep.wait(_REST_SECONDS)

    def _next(self, *, at_once: bool) -> list[Segment]:
        return self._store.ring.log.parts.unwritten(at_once=at_once)

    def _write_next(self, *, at_once: bool) -> bool:
        """Whether there were segments and the disk took them."""
        with self._store.changed:
            run = self._next(at_once=at_once)
        if not run:
            return False
        try:
            with self._disk:
                stored = self._volumes.append(reduce(merge, run))
        except Exception as error:  # a disk that is full, or whatever else: it is tried again
            self._note(error)
            return False
        self._note(None)
        with self._store.changed:
            if self._store.ring.log.parts.keep(run, stored):
                self._store.ring.crowded = False
            self._store.changed.notify_all()
        return True

    def _note(self, error: Exception | None) -> None:
        """Tells once that the disk takes nothing, and once that it does again."""
        with self._store.changed:
            was, self._store.ring.stuck = self._store.ring.stuck, error is not None
        if error is not None and not was:
            log.error(
                "the store on disk cannot be written: the source waits when memory is full",
                place=str(self._volumes.path),
                error=str(error) or repr(error),
                hint="Make room on the disk, or give sluice.store.dir another one. It is retried every second.",
            )
        if error is None and was:
            log.info("the store on disk is written again", place=str(self._volumes.path))

    def _tidy(self) -> None:
        """Removes what expired, and the volumes that the log does not need any more; at most once a second. While the
        disk takes nothing, all that is acked has expired."""
        if abs(self._clock() - self._tidied) < _LOOK_SECONDS:
            return
        self._tidied = self._clock()
        if self._volumes.gone:
            self._tell("was removed", str(self._volumes.path), "Leave sluice.store.dir alone while the service runs.")
            return
        self._measure()
        with self._store.changed:
            keep_bytes = 0 if self._store.ring.stuck else self._retention_bytes
            self._store.ring.expire(self._clock() - self._retention, keep_bytes)
            begin = self._store.ring.log.begin.sequence
        with self._disk:
            self._volumes.forget(begin)
            self._volumes.tidy()
            self._volumes.rest()
        damaged = self._volumes.shelf.damaged
        if damaged is not None:
            self._tell("is damaged", str(damaged), "Check the disk.")

    def _measure(self) -> None:
        """Gives the log the room that there is now."""
        if self._room is None or abs(self._clock() - self._measured) < _ROOM_SECONDS:
            return
        self._measured = self._clock()
        with suppress(OSError):  # the next look may go well
            found = self._room()
            with self._store.changed:
                if not self._off.is_set():
                    self._store.ring.disk_bytes = found
                    self._store.changed.notify_all()

    def _tell(self, what: str, place: str, hint: str) -> None:
        """Once."""
        if not self._told:
            self._told = True
            log.error(f"the store on disk {what}: its rows are read again from the source", place=place, hint=hint)
            self._on_damage()
