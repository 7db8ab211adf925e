"""Setting cursors by hand, to a place of the source: what it would mean, and doing it.

A plan asks the source and changes nothing. Carrying it out writes each client's cursor and raises its epoch; nobody
else may write these cursors meanwhile, so the destination is stopped before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pymysql

from cdc_core.errors import PositionError, SessionError
from cdc_core.meta.cursors import Cursors
from cdc_core.position import EntryPosition, LogPosition
from cdc_core.source.connection import Connection
from cdc_core.source.distance import Journals, ask, asking
from cdc_core.source.framing import JOURNAL_START
from cdc_core.source.gtid_search import find_by_gtid
from cdc_core.source.journals import check_exists
from cdc_core.source.same_host import same_host
from cdc_core.source.settings import SourceSettings
from cdc_core.source.start_tree import ByGtid
from cdc_core.source.time_search import find_by_time

_WITHIN = ("Table_map", "Write_rows", "Update_rows", "Delete_rows", "Xid", "Rows_query", "Annotate_rows", "Partial_up")


@dataclass(frozen=True, slots=True)
class Target:
    """Where to, and whose cursors: of all clients when `client_id` is None. A number is a time, in milliseconds since
    the epoch: the last transaction at or before it; a set means the first transaction that it lacks. `moved`: the
    source is another server."""

    to: Literal["earliest", "latest"] | EntryPosition | ByGtid | int
    client_id: int | None = None
    moved: bool = False


@dataclass(frozen=True, slots=True)
class Move:
    """One client's. `nbytes` from its cursor to the new place, below 0 backwards; None where that cannot be told."""

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
class Plan:
    position: LogPosition
    moves: tuple[Move, ...]


def plan(settings: SourceSettings, cursors: Cursors, target: Target) -> Plan:
    """Raises PositionError for a place that is not there or lies within a transaction, SessionError, SourceError."""
    known = cursors.clients()
    if target.client_id is not None and target.client_id not in known:
        told = ", ".join(map(str, known)) or "none"
        raise SessionError(f"client {target.client_id} is not known", place=cursors.destination, hint=f"Known: {told}.")
    clients = known if target.client_id is None else [target.client_id]
    to = find_by_time(settings, target.to) if isinstance(target.to, int) else target.to
    with asking(settings) as conn:
        journals = ask(conn)
        place = find_by_gtid(conn, settings, to.gtid) if isinstance(to, ByGtid) else _place(conn, journals, to)
    position = LogPosition(settings.host, settings.port, place)
    return Plan(position, tuple(_move(journals, cursors, client, position, target) for client in clients))


def carry_out(cursors: Cursors, planned: Plan) -> dict[int, int]:
    """The clients' new epochs."""
    return {m.client_id: cursors.rewind(m.client_id, planned.position, moved=m.moved) for m in planned.moves}


def _place(conn: Connection, journals: Journals, to: Literal["earliest", "latest"] | EntryPosition) -> EntryPosition:
    if to == "earliest":
        return EntryPosition(journals.logs[0].name, JOURNAL_START)
    if to == "latest":
        return EntryPosition(journals.end.journal_name, journals.end.position)
    check_exists(conn, to)
    _check_between_transactions(conn, to)
    return to


def _check_between_transactions(conn: Connection, position: EntryPosition) -> None:
    what = _event_at(conn, position)
    if what is None or what.startswith(_WITHIN):
        raise PositionError(
            f"no transaction begins there: {'it is not the place of an event' if what is None else what}",
            place=str(position),
            hint="Give the place of a Gtid, Anonymous_Gtid or Query BEGIN event, as SHOW BINLOG EVENTS lists them.",
        )


def _event_at(conn: Connection, position: EntryPosition) -> str | None:
    """The type of the event that begins there, empty at a journal's end, None within an event."""
    with conn.cursor() as cursor:
        try:
            cursor.execute("SHOW BINLOG EVENTS IN %s FROM %s LIMIT 1", (position.journal_name, position.position))
        except pymysql.err.MySQLError as error:
            if error.args[0] == pymysql.constants.ER.ERROR_WHEN_EXECUTING_COMMAND:
                return None
            raise
        event = cursor.fetchone()
    return str(event[2]) if event else ""


def _move(journals: Journals, cursors: Cursors, client_id: int, position: LogPosition, target: Target) -> Move:
    old = cursors.read(client_id)
    here = old is None or (old.port == position.port and same_host(old.address, position.address))
    moved = target.moved or not here
    nbytes = None if old is None or moved else journals.between(old.postion, position.postion)
    return Move(client_id, old, nbytes, moved)
