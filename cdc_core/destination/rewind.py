"""Resetting cursors by hand to another position of the source: the plan, and carrying it out.

A plan asks the source and changes nothing. Carrying it out writes each client's cursor and raises its epoch. Nobody
else may write these cursors meanwhile: the caller stops the destination before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Literal

import pymysql

from cdc_core.contract.stopped_table import CHANGES_PURGED, StoppedTable
from cdc_core.destination.kept_places import KeptPlaces
from cdc_core.errors import PositionError, SessionError, safe_name
from cdc_core.meta.cursors import Cursors
from cdc_core.position import JOURNAL_START, EntryPosition, LogPosition
from cdc_core.schema.table import TableSchema
from cdc_core.source.connection import Connection, connected
from cdc_core.source.journals import Journals, check_exists, read_journals
from cdc_core.source.same_host import same_host
from cdc_core.source.settings import SourceSettings
from cdc_core.source.start.gtid_search import find_by_gtid
from cdc_core.source.start.time_search import find_by_time
from cdc_core.source.start.tree import ByGtid

_SEARCHED = 4 << 30  # bytes of binlog before a time, in which the clock may have been set back
_SETTLE_SECONDS = 1.0  # a statement is in the binlog before the catalogue shows what it did
_INSIDE_TRANSACTION = (
    *("Table_map", "Write_rows", "Update_rows", "Delete_rows", "Partial_up"),
    *("Xid", "Rows_query", "Annotate_rows"),
)


Place = Literal["earliest", "latest", "anew"] | EntryPosition | ByGtid | int


@dataclass(frozen=True, slots=True)
class RewindTarget:
    """Where to set which cursors.

    `to` as a number is a time in milliseconds since the epoch and means the first transaction of its second, or the
    last one before it; as a GTID set it means the first transaction that the set lacks. "anew" is the source's end,
    where all captured tables stop until they are reloaded, so that what was skipped is not missed. `client_id`
    None means all clients. `moved` says that the source is not the server that the cursors belong to. `epoch` is
    the least number of the new epoch: a lake names it when the service has lost its own, and with it the `identity`
    that it knows the destination by. `of_epoch`: `to` was a position in that epoch, perhaps at another server.
    """

    to: Place
    client_id: int | None = None
    moved: bool = False
    epoch: int = 0
    identity: str = ""
    of_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class Move:
    """One client's part of a plan. `nbytes` lie between the old and the new position, below 0 when it goes backwards;
    None where the two cannot be compared."""

    client_id: int
    old: LogPosition | None
    nbytes: int | None
    moved: bool

    def to_dict(self) -> dict[str, Any]:
        nbytes = self.nbytes
        return {
            "client_id": self.client_id,
            "from": self.old.postion.to_dict() if self.old else None,
            "moved": self.moved,
            "again_bytes": None if nbytes is None else max(0, -nbytes),
            "skipped_bytes": None if nbytes is None else max(0, nbytes),
        }


@dataclass(frozen=True, slots=True)
class RewindPlan:
    """The new position, and what it means for each client. `anew`: the tables that stop until they are reloaded."""

    position: LogPosition
    moves: tuple[Move, ...]
    epoch: int = 0
    identity: str = ""
    anew: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reset:
    """A plan for a destination, and whether it was carried out."""

    destination: str
    plan: RewindPlan
    done: bool

    def to_dict(self) -> dict[str, Any]:
        return {
            "destination": self.destination,
            "to": self.plan.position.postion.to_dict(),
            "done": self.done,
            "clients": [move.to_dict() for move in self.plan.moves],
            "anew": list(self.plan.anew),
        }


def plan(
    settings: SourceSettings,
    cursors: Cursors,
    target: RewindTarget,
    captured: Callable[[], Collection[TableSchema]] = tuple,
    sleep: Callable[[float], None] = time.sleep,
    kept: KeptPlaces | None = None,
) -> RewindPlan:
    """`captured` reads the captured tables from the source's catalogue. `kept` are the places in the store on disk: the
    source need not have them.

    Raises PositionError for a position that does not exist, is another server's or lies inside a transaction,
    SessionError for an unknown client, SourceError.
    """
    subscribed = cursors.clients()
    if target.client_id is not None and target.client_id not in cursors.known():
        raise SessionError(
            f"client {target.client_id} is not subscribed",
            place=cursors.destination,
            hint=f"Subscribed: {', '.join(map(str, subscribed)) or 'none'}.",
        )
    clients = subscribed if target.client_id is None else [target.client_id]
    with connected(settings) as conn:
        journals = read_journals(conn)
        place = _find(conn, settings, journals, target.to, kept)
    position = LogPosition(settings.host, settings.port, place)
    moves = tuple(_move(journals, cursors, client, position, target) for client in clients)
    if target.of_epoch is not None:
        for move in moves:
            _check_server(cursors, move, target.of_epoch)
    anew = _names_at(captured, sleep) if target.to == "anew" else ()
    return RewindPlan(position, moves, target.epoch, target.identity, anew)


def _names_at(captured: Callable[[], Collection[TableSchema]], sleep: Callable[[float], None]) -> tuple[str, ...]:
    """Read after the position: a table that is made later is in the stream."""
    sleep(_SETTLE_SECONDS)
    return tuple(sorted(table.name for table in captured() if not table.is_sequence))


def carry_out(cursors: Cursors, planned: RewindPlan) -> dict[int, int]:
    """Returns the new epoch of each client."""
    if planned.identity:
        cursors.identify(planned.identity)
    place, epoch = planned.position, planned.epoch
    stops = [_stop(cursors.destination, table, place.postion) for table in planned.anew]
    return {m.client_id: cursors.rewind(m.client_id, place, stops, moved=m.moved, epoch=epoch) for m in planned.moves}


def _stop(destination: str, table: str, place: EntryPosition) -> StoppedTable:
    hint = f"Reload it: sluice snapshot {destination} {table}, or the job snapshot_{safe_name(destination)} in Dagster."
    return StoppedTable(table, CHANGES_PURGED, hint, place, passed=place, copy_needed=True)


def _find(
    conn: Connection, settings: SourceSettings, journals: Journals, to: Place, kept: KeptPlaces | None
) -> EntryPosition:
    """A position is looked for in what is kept before the source is asked; what the source must search, after that."""
    if isinstance(to, EntryPosition):
        return (kept.find(conn, to) if kept else None) or _place(conn, journals, to)
    try:
        if isinstance(to, int):
            return find_by_time(settings, to, before=_SEARCHED)
        if isinstance(to, ByGtid):
            return find_by_gtid(conn, settings, to.gtid)
    except PositionError:
        if place := kept.find(conn, to) if kept else None:
            return place
        raise
    place = _place(conn, journals, to)
    earlier = kept.find(conn, to) if kept and to == "earliest" else None
    return earlier if earlier is not None and earlier < place else place


def _place(
    conn: Connection, journals: Journals, to: Literal["earliest", "latest", "anew"] | EntryPosition
) -> EntryPosition:
    if to == "earliest":
        return EntryPosition(journals.logs[0].name, JOURNAL_START)
    if not isinstance(to, EntryPosition):
        return EntryPosition(journals.end.journal_name, journals.end.position)
    check_exists(conn, to)
    _check_between_transactions(conn, to)
    return to


def _check_between_transactions(conn: Connection, position: EntryPosition) -> None:
    what = _event_at(conn, position)
    if what is None or what.startswith(_INSIDE_TRANSACTION):
        raise PositionError(
            f"no transaction begins there: {'it is not the place of an event' if what is None else what}",
            place=str(position),
            hint="Give the position of a Gtid, Anonymous_Gtid or Query BEGIN event, as SHOW BINLOG EVENTS lists them.",
        )


def _event_at(conn: Connection, position: EntryPosition) -> str | None:
    """The type of the event that begins there; empty at the journal's end, None inside an event."""
    with conn.cursor() as cursor:
        try:
            cursor.execute("SHOW BINLOG EVENTS IN %s FROM %s LIMIT 1", (position.journal_name, position.position))
        except pymysql.err.MySQLError as error:
            if error.args[0] == pymysql.constants.ER.ERROR_WHEN_EXECUTING_COMMAND:
                return None
            raise
        event = cursor.fetchone()
    return str(event[2]) if event else ""


def _check_server(cursors: Cursors, move: Move, epoch: int) -> None:
    """Raises PositionError when a position of that epoch is another server's."""
    if move.moved or epoch < cursors.epoch(move.client_id).moved:
        raise PositionError(
            f"the position is of epoch {epoch}, in which another server was read",
            place=f"{cursors.destination}, client {move.client_id}",
            hint="Give a time before it, or the set of GTIDs that were executed there.",
        )


def _move(journals: Journals, cursors: Cursors, client_id: int, position: LogPosition, target: RewindTarget) -> Move:
    old = cursors.read(client_id)
    here = old is None or (old.port == position.port and same_host(old.address, position.address))
    moved = target.moved or not here
    nbytes = None if old is None or moved else journals.distance(old.postion, position.postion)
    return Move(client_id, old, nbytes, moved)
