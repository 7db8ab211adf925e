"""Whether the server still has what was read from it before. Asked at each connect, of the same server.

A server that was set back to an older copy of its disk, or whose binlogs were reset, writes other events at places and
under GTIDs that were read already. Its journals and its executed set soon look as before: the event itself differs.
What the server was seen to lack is noted for each client: it is refused until it has that event again, or a person sets
the client's cursor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from enum import Enum, auto

from cdc_core.binlog.block import Block
from cdc_core.errors import (
    BEGIN_ANEW,
    UNNAMED,
    DecodeError,
    PositionError,
    SluiceError,
    SourceChanged,
    SourceError,
    SourceSetBack,
    SourceUnavailable,
)
from cdc_core.gtid import GtidSet
from cdc_core.meta.set_backs import SetBack
from cdc_core.position import Anchor, EntryPosition
from cdc_core.session.durable_session import DurableSession
from cdc_core.session.subscriptions import DEFAULT_CLIENT
from cdc_core.source.connection import Connection
from cdc_core.source.journal_range import read_range
from cdc_core.source.journals import binary_logs, is_older, purged_gtids
from cdc_core.source.settings import SourceSettings
from cdc_core.source.start.continuity import missing
from cdc_core.source.start.time_search import begun
from cdc_core.stream.expand import expand


class Match(Enum):
    """How a server's binlogs compare with a position that was read from it."""

    SAME_EVENT = auto()  # the server has the very event that ends there
    UNKNOWN = auto()  # nothing contradicts it: the journal was purged, or the position has no anchor
    RENUMBERED = auto()  # other journals, which lack exactly the executed set of the position: by GTID there is no gap


def compare(
    conn: Connection,
    settings: SourceSettings,
    sessions: DurableSession,
    places: Mapping[int, EntryPosition],
    stopped: Callable[[], bool],
) -> Match:
    """RENUMBERED if it is so at the place of one client; otherwise UNKNOWN. Raises SourceSetBack when the server does
    not have what was read from it up to these places, or lacked once what was read, and still does."""
    known = sessions.set_backs(places)
    for client, before in known.items():
        if match(conn, settings, before.position, stopped) is not Match.SAME_EVENT:
            error = SourceSetBack(before.message, place=str(before.position), hint=BEGIN_ANEW)
            raise of_clients(error, [client])
    if known:
        sessions.note_set_backs(dict.fromkeys(known))
    clients: dict[tuple[EntryPosition, Anchor | None], list[int]] = {}
    for client, place in places.items():
        clients.setdefault((place, place.anchor), []).append(client)
    found = Match.UNKNOWN
    for (place, _), there in clients.items():
        with noted(sessions, there, place):
            one = match(conn, settings, place, stopped)
        found = one if one is Match.RENUMBERED else found
    return found


@contextmanager
def noted(sessions: DurableSession, clients: Collection[int], place: EntryPosition | None) -> Iterator[None]:
    """Notes a SourceSetBack for these clients: the server lacks what was read up to `place`."""
    try:
        yield
    except SourceSetBack as error:
        if place is not None:
            sessions.note_set_backs(dict.fromkeys(clients, SetBack(place, error.message)))
        raise of_clients(error, clients) from None


def of_clients(error: SluiceError, clients: Collection[int]) -> SluiceError:
    """With the clients in the command that resets their cursors."""
    which = "".join(f" --client-id {one}" for one in clients if one != DEFAULT_CLIENT) if len(clients) < 2 else " --all"
    error.hint = error.hint.replace(f"reset {UNNAMED}", f"reset {UNNAMED}{which}")
    return error


def match(
    conn: Connection, settings: SourceSettings, position: EntryPosition, stopped: Callable[[], bool] = lambda: False
) -> Match:
    """Raises SourceSetBack when the server does not have what was read from it up to `position`."""
    logs = {log.name: log.size for log in binary_logs(conn)}
    size, anchor = logs.get(position.journal_name), position.anchor
    reachable = size is not None and position.position <= size
    held = reachable and holds(settings, position, stopped)
    if held and anchor is not None and anchor.start:
        return Match.SAME_EVENT
    if lacking := missing(conn, position.gtid):
        raise set_back(position, f"the server does not have the transactions {lacking}, which were read from it")
    if held:
        return Match.UNKNOWN
    older = is_older(position.journal_name, next(iter(logs)))
    if settings.by_gtid and isinstance(position.gtid, GtidSet):
        purged = purged_gtids(conn)
        if purged == position.gtid and not older:
            return Match.RENUMBERED
        if size is None and not position.gtid - purged:
            return Match.UNKNOWN  # all of it was purged, and perhaps more
        if size is None:
            raise set_back(position, "the server has purged the journal, and not all transactions that it had")
    if reachable:
        raise set_back(position, "the server has a different event at the position that was read from it")
    if older or size == 0 or anchor is None:
        return Match.UNKNOWN  # it was purged, or removed by hand, or the position was set by hand
    what = f"beyond the end of its journal, at {size}" if size else "in a journal that it does not have"
    raise set_back(position, f"events were read from the server {what}")


def set_back(position: EntryPosition, what: str) -> SourceSetBack:
    why = "It was set back to an older copy, lost its last events in a crash, or its binlogs were reset"
    return SourceSetBack(f"{what}. {why}", place=str(position), hint=BEGIN_ANEW)


def renumbered(address: str, end: EntryPosition, cursors: Iterable[EntryPosition | None]) -> SourceError:
    """The error for a capture that has read up to `end` of journals that start again. Positions of both have no order:
    clients ack first what was read, then SourceChanged begins a new epoch."""
    if all(cursor is None or cursor >= end for cursor in cursors):
        return SourceChanged("the server has started new journals", place=address, hint="Reading continues by GTID.")
    return SourceUnavailable(
        "the server has started new journals, and clients have not acked all that was read before",
        place=str(end),
        hint="Let the clients run, and the service: the source does not have these changes any more. Then reading goes "
        "on by GTID.",
    )


def holds(settings: SourceSettings, position: EntryPosition, stopped: Callable[[], bool]) -> bool:
    """Whether the server has the event that ends at the position, as its anchor says; True without an anchor. The event
    may be inside a compressed transaction."""
    anchor = position.anchor
    if anchor is None:
        return True
    if not anchor.start:
        return _begun(settings, position) == anchor.digest
    start = replace(position, position=anchor.start, gtid=None)
    try:
        with closing(read_range(settings, start, position.position, stopped)) as blocks:
            last = deque(_expanded(blocks), maxlen=1).pop()
    except SourceUnavailable:
        raise
    except (DecodeError, PositionError, IndexError):  # other bytes are there, or none
        return False
    except SourceError as error:
        if "starts no event" in error.hint:
            return False
        raise
    row = len(last.index) - 1
    return last.position(row) == position and last.digest(row) == anchor.digest


def anchored(conn: Connection, settings: SourceSettings, position: EntryPosition) -> EntryPosition:
    """The position with an anchor: where no event was read before it, the start of its journal."""
    if position.anchor is not None:
        return position
    there = any(log.name == position.journal_name and position.position <= log.size for log in binary_logs(conn))
    if not there:
        return position
    return replace(position, anchor=Anchor(0, _begun(settings, position)))


def _begun(settings: SourceSettings, position: EntryPosition) -> int:
    return begun(replace(settings, slave_id=0, by_gtid=False).identified(), position.journal_name)


def _expanded(blocks: Iterator[Block]) -> Iterator[Block]:
    for block in blocks:
        yield from (piece for piece in expand(block) if len(piece.index))
