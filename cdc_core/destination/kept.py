"""What a destination has on disk from before a restart, and whether reading may go on after it.

It may where the server is the same, still has the events that were read last, and no client needs what lies before.
Otherwise what is on disk is removed, and the cursors decide, as without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import structlog

from cdc_core.config.models import InstanceConfig
from cdc_core.destination.anchor import Match, holds, match, set_back
from cdc_core.destination.kept_places import KeptPlaces
from cdc_core.destination.kept_room import room_now
from cdc_core.errors import PositionError, PositionPurged, StoreError
from cdc_core.packages import version
from cdc_core.position import EntryPosition
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.source.connection import Connection
from cdc_core.source.journals import check_exists
from cdc_core.source.settings import SourceSettings
from cdc_core.store.disk.room import volume_bytes
from cdc_core.store.disk.volumes import Volumes
from cdc_core.store.keeper import Keeper
from cdc_core.store.store import Store

_LOST_BYTES = 256 << 20  # that a process which was killed may have served without having them on disk

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Kept:
    """`open` comes first, once the server is known; then `end` is where what is on disk ends. `stopped` ends the
    reading of the source."""

    config: InstanceConfig
    settings: SourceSettings
    keeper: Keeper
    store: Store
    stopped: Callable[[], bool]
    end: EntryPosition | None = None
    _opened: bool = field(default=False)

    def open(self, identity: str) -> None:
        """Takes what is on disk into the log, or removes what belongs to something else. `identity` is the server's.

        Raises StoreError; with `auto` a directory that cannot be used is done without."""
        if self._opened:
            return
        try:
            self.end = self._taken(_belongs_to(self.config, identity))
        except StoreError as error:
            if self.config.store_bytes != "auto":
                raise
            log.warning("nothing is kept on disk", destination=self.config.destination, **error.as_dict())
            self.keeper.give_up()
        self._opened = True

    def _taken(self, label: dict[str, str]) -> EntryPosition | None:
        try:
            return self.keeper.open(label)
        except OSError as error:
            auto = self.config.store_bytes == "auto"
            then = "Then start the destination again, or leave it at the ring." if auto else "It is tried again."
            raise StoreError(
                f"the store on disk cannot be opened: {error.strerror}",
                place=str(error.filename or self.config.store_dir),
                hint=f"Make room on the disk, or correct sluice.store.dir. {then}",
            ) from error

    @property
    def start(self) -> EntryPosition | None:
        """From where on it can serve; None where it has nothing."""
        with self.store.changed:
            ring = self.store.ring
            return ring.log.parts.start if ring.disk_bytes else None

    def needed(self, cursors: Mapping[int, EntryPosition]) -> dict[int, EntryPosition]:
        """From where on each client needs the source's binlogs: its cursor, or what is read last where the rest is
        kept."""
        start = self.start
        with self.store.changed:
            end = self.store.ring.log.last_commit
        return {c: max(at, end) if start and end and start <= at else at for c, at in cursors.items()}

    def behind(self, conn: Connection, cursor: EntryPosition | None, *, by_hand: bool) -> EntryPosition | None:
        """Where reading goes on for clients of this server whose smallest cursor this is. None: nothing is on disk, or
        it was of no use and is removed. `by_hand`: the cursor was set on purpose, and may lie among other events.

        Raises SourceSetBack where the server does not have what is on disk: clients may have it already."""
        if self.end is None:
            return None
        why = self._why_not(conn, cursor, self.end, by_hand)
        if not why:
            return self.end
        log.info("the store on disk is not used", destination=self.config.destination, end=str(self.end), why=why)
        self.keeper.discard()
        self.end = None
        return None

    def places(self) -> KeptPlaces | None:
        """Where a rewind may go that the source cannot serve; None where nothing is kept."""
        with self.store.changed:
            if self.start is None:
                return None
            log = self.store.ring.log.as_it_is()
        return KeptPlaces(log, self.settings, self.config.gtid_mode, self.stopped)

    def _why_not(self, conn: Connection, cursor: EntryPosition | None, end: EntryPosition, by_hand: bool) -> str:
        if cursor is None:
            return "no cursor of this server is known"
        if why := out_of_reach(self.store.ring.log.parts.start, end, cursor):
            return why
        try:
            check_exists(conn, end)
        except PositionPurged as error:
            return error.message
        except PositionError as error:
            why = error.message
        else:
            why = "" if holds(self.settings, end, self.stopped) else "the source has other events there"
        if why and not by_hand and match(conn, self.settings, cursor, self.stopped) is not Match.RENUMBERED:
            raise set_back(end, f"events that were read from the server are on disk, and {why}")
        return why


def out_of_reach(start: EntryPosition | None, end: EntryPosition, cursor: EntryPosition) -> str:
    """Why clients with this smallest cursor cannot be served from events between `start` and `end`, and what the source
    sends after them; empty when they can."""
    if start is None or cursor < start:
        return "a cursor lies before it"
    same_journal = cursor.order[0] == end.order[0]
    if cursor > end and not (same_journal and cursor.position - end.position <= _LOST_BYTES):
        return "the cursors are far behind its end"
    return ""


def _belongs_to(config: InstanceConfig, identity: str) -> dict[str, str]:
    """All that decides what the events of a journal become on their way to the store."""
    return {
        "server": identity,
        "destination": config.destination,
        "sluice": version(),
        "filter": config.filter_regex,
        "black filter": config.filter_black_regex,
        "zero dates": config.zero_dates,
        "tsdb": str(config.tsdb),
    }


def make_kept(
    config: InstanceConfig,
    settings: SourceSettings,
    store: Store,
    registry: SchemaRegistry,
    clock: Callable[[], float],
    on_damage: Callable[[], None],
    stopped: Callable[[], bool],
) -> Kept | None:
    """None without a store on disk."""
    if not store.ring.disk_bytes or config.store_dir is None:
        return None
    volumes = Volumes(config.store_dir / config.destination, registry, volume_bytes(store.ring.disk_bytes))
    hours, most = config.store_retention_hours, config.store_retention_bytes
    measure = partial(room_now, config) if config.store_bytes == "auto" else None
    keeper = Keeper(store, volumes, hours * 3600, clock, on_damage, retention_bytes=most, room=measure)
    return Kept(config, settings, keeper, store, stopped)
