"""The journal and offset that a choice of `start.tree` means on the connected server."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from cdc_core.errors import PositionError, PositionPurged, SourceSetBack
from cdc_core.gtid import GtidSet, parse_gtids
from cdc_core.position import EntryPosition
from cdc_core.source.connection import Connection, version_of
from cdc_core.source.journals import check_exists, check_not_purged, current_end, purged_gtids
from cdc_core.source.settings import SourceSettings
from cdc_core.source.start.continuity import check_continuity
from cdc_core.source.start.gtid_lookup import first_journal
from cdc_core.source.start.time_search import find_by_time, transaction_start
from cdc_core.source.start.tree import AtEnd, ByGtid, ByPosition, ByTime, Choice, StartFacts, choose


@dataclass(frozen=True, slots=True)
class Start:
    """`goes_on` and `moved` as in `Choice`. `lost` is the error of the known position that the current end replaces."""

    position: EntryPosition
    rule: str
    looked_at: str
    seconds: float
    goes_on: bool = False
    moved: bool = False
    lost: PositionError | None = None


def find(
    conn: Connection,
    settings: SourceSettings,
    facts: StartFacts,
    *,
    reset_to_end: bool = False,
    stopped: Callable[[], bool] = lambda: False,
) -> Start:
    """Raises PositionError when the position is not on the server, SourceBehind when the server lacks transactions that
    were read from another one. With `reset_to_end` the current end replaces a known position that is gone: the rows
    between them are lost."""
    began = time.monotonic()
    choice, lost = choose(facts), None
    if choice.moved and facts.history is not None and not facts.renumbered:
        check_continuity(conn, facts.history)
    try:
        position = _place(conn, settings, choice, stopped)
    except PositionError as error:
        if isinstance(error, SourceSetBack) or not (reset_to_end and choice.goes_on):
            raise
        lost = error
        choice = Choice("the current end, as canal.auto.reset.latest.pos.mode asks for: rows are lost", AtEnd())
        position = _place(conn, settings, choice, stopped)
    if position.server_id is None:
        position = replace(position, server_id=facts.server_id)
    if choice.moved and facts.history is not None and position.timestamp is None:
        position = replace(position, timestamp=facts.history.postion.timestamp)  # for a later move to another server
    seconds = time.monotonic() - began
    return Start(position, choice.rule, facts.describe(), seconds, choice.goes_on, choice.moved, lost)


def _place(conn: Connection, settings: SourceSettings, choice: Choice, stopped: Callable[[], bool]) -> EntryPosition:
    place = choice.place
    if isinstance(place, ByGtid):
        gtids = parse_gtids(place.gtid, version_of(conn).flavor)
        if place.position is None:
            return first_journal(conn, settings, gtids)
        try:
            check_exists(conn, place.position)
        except PositionPurged:
            if not isinstance(gtids, GtidSet) or purged_gtids(conn) != gtids:
                raise
        if isinstance(gtids, GtidSet):
            check_not_purged(conn, gtids)
        return place.position
    if isinstance(place, ByTime):
        return find_by_time(settings, place.timestamp, place.journal_name, stopped)
    if isinstance(place, ByPosition):
        check_exists(conn, place.position)
        return transaction_start(settings, place.position, stopped) if place.whole else place.position
    with conn.cursor() as cursor:  # for a later move to another server
        cursor.execute("SELECT UNIX_TIMESTAMP()")
        now = int(cursor.fetchall()[0][0])
    return replace(current_end(conn), timestamp=now * 1000)
