"""Where a capture begins to read, and where it goes on after a reconnect.

`source.start.tree` chooses the start, Canal's findStartPosition; here its facts are gathered, its choice is logged and
kept for the status, and every client is subscribed at its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import structlog

from cdc_core.config.models import InstanceConfig
from cdc_core.contract.status import StartReport
from cdc_core.destination.anchor import Match, anchored, compare, noted, of_clients, renumbered
from cdc_core.destination.kept import Kept
from cdc_core.destination.servers import master, standby
from cdc_core.errors import PositionError, RowsWithoutTable, SluiceError, SourceChanged, SourceError, SourceSetBack
from cdc_core.gtid import Gtid, Gtids, parse_gtids
from cdc_core.position import EntryPosition, LogPosition
from cdc_core.session.durable_session import DurableSession
from cdc_core.source.checks import ServerInfo
from cdc_core.source.connection import Connection
from cdc_core.source.journals import check_there
from cdc_core.source.same_host import same_host
from cdc_core.source.settings import SourceSettings
from cdc_core.source.start.gtid_lookup import executed_before
from cdc_core.source.start.place import Start, find
from cdc_core.source.start.tree import StartFacts

log = structlog.get_logger(__name__)


def resume_position(put: EntryPosition | None, cursors: Iterable[EntryPosition | None]) -> EntryPosition | None:
    """Where reading goes on, as Canal's FailbackLogPositionManager has it: after the last transaction in the store,
    `put`, else at the smallest cursor, so that no client misses anything. None where there is neither."""
    return put or min((cursor for cursor in cursors if cursor is not None), default=None)


class StartFinder:
    """`report` describes the last start, None before the first. Between attempts it keeps the errors in a row, and
    whether the last start was inside a transaction: the tree asks for both."""

    def __init__(
        self,
        config: InstanceConfig,
        settings: SourceSettings,
        stopped: Callable[[], bool],
        on_disk: Kept | None = None,
    ) -> None:
        self.report: StartReport | None = None
        self._config, self._settings, self._stopped, self._on_disk = config, settings, stopped, on_disk
        self._errors = 0
        self._inside = False
        self._flavor = self._identity = ""

    def __repr__(self) -> str:
        return f"<StartFinder {self._config.destination} errors={self._errors}>"

    def note_failure(self, error: Exception) -> None:
        """The dump ended for another reason than that the server was away."""
        self._errors += 1
        self._inside = isinstance(error, RowsWithoutTable)

    def note_progress(self) -> None:
        self._errors, self._inside = 0, False

    def executed_set(self, gtid: Gtid | Gtids | None) -> Gtids | None:
        """The set after which reading starts; None without GTID mode."""
        return parse_gtids(str(gtid or ""), self._flavor) if self._config.gtid_mode else None

    def check_again(
        self,
        conn: Connection,
        server: ServerInfo,
        start: EntryPosition,
        executed: Gtids | None,
        sessions: DurableSession,
        cursors: Mapping[int, EntryPosition | None],
    ) -> None:
        """Raises SourceChanged: positions of another server, or of journals that start again, have no order among those
        that were read; PositionPurged where the server has not kept what follows `start`, or by GTID after the set
        `executed`; SourceSetBack; SourceUnavailable until `cursors` have reached `start`, if the journals start again.
        """
        if self._identity != _identity(server):
            raise SourceChanged(
                f"another server answers at this address: {_identity(server)} instead of {self._identity}",
                place=self._settings.address,
                hint="Changes that were not acked are read again from the new server.",
            )
        check_there(conn, start, executed)
        start = start if executed is None else replace(start, gtid=executed)
        places = dict.fromkeys(cursors, start)
        if compare(conn, self._settings, sessions, places, self._stopped) is Match.RENUMBERED:
            raise renumbered(self._settings.address, start, cursors.values())

    def begin(self, conn: Connection, server: ServerInfo, sessions: DurableSession) -> EntryPosition:
        """Finds the start and subscribes every client at its place. Raises PositionError, CursorError, SourceSetBack,
        and SourceError where GTID mode is configured and the server does not have it."""
        self._flavor, self._identity = server.flavor, _identity(server)
        if self._config.gtid_mode:
            _check_gtid_mode(server)
        sessions.server_uuid = self._identity
        sessions.identify()
        kept = self._kept(sessions)
        client, history = _furthest_behind(kept)
        known = sessions.kept_source(client, history) if history else ""
        same = known == self._identity if known else None
        here = history is not None and f"{history.address}:{history.port}" == self._settings.address
        here = here if same is None else same  # a cursor that was set by hand does not know its server
        try:
            places = {one: cursor.postion for one, cursor in kept.items() if cursor is not None}
            found = compare(conn, self._settings, sessions, places, self._stopped) if here else Match.UNKNOWN
            if self._on_disk is not None:
                self._on_disk.open(self._identity)
                with noted(sessions, places, self._on_disk.end):
                    behind = self._behind_disk(self._on_disk, conn, history, here=here, by_hand=same is None)
                found = Match.SAME_EVENT if behind is not history else found
                history = behind
            start = self._find(conn, server, history, same, anew=found is Match.RENUMBERED)
        except SourceSetBack:
            raise
        except SluiceError as error:
            raise of_clients(error, [client] if client else []) from None
        place = start.position
        if not self._config.gtid_mode:
            place = replace(place, gtid=None)  # the server's executed set is not a transaction's GTID
        if start.moved:
            cursors = {client: cursor for client, cursor in kept.items() if cursor is not None}
            sessions.move(cursors, place, [c for c, cursor in cursors.items() if self._seamless(place, cursor)])
        for client, cursor in kept.items():
            own = cursor.postion if cursor and start.goes_on else place
            sessions.restore(client, anchored(conn, self._settings, self._with_gtid_set(conn, own)))
        self._report(start)
        return place

    def _kept(self, sessions: DurableSession) -> dict[int, LogPosition | None]:
        cursors = sessions.subscriptions.kept_cursors()
        return {client: self._with_configured_host(cursor) for client, cursor in cursors.items()}

    def _with_configured_host(self, cursor: LogPosition | None) -> LogPosition | None:
        """A cursor of this server may name its host in another way."""
        here = self._settings
        if cursor is None or cursor.port != here.port or not same_host(cursor.address, here.host):
            return cursor
        return replace(cursor, address=here.host)

    def _behind_disk(
        self, on_disk: Kept, conn: Connection, history: LogPosition | None, *, here: bool, by_hand: bool
    ) -> LogPosition | None:
        """The history with the end of what is on disk, where reading goes on after it; else as it was. `here`: it is
        of this server."""
        end = on_disk.behind(conn, history.postion if history and here else None, by_hand=by_hand)
        return replace(history, postion=end) if history and end else history

    def _seamless(self, start: EntryPosition, cursor: LogPosition) -> bool:
        """Whether everything from `start` on is new to the client."""
        own = cursor.postion.gtid
        return self._config.gtid_mode and isinstance(own, Gtids) and start.gtid == own

    def _find(
        self, conn: Connection, server: ServerInfo, history: LogPosition | None, same: bool | None, *, anew: bool
    ) -> Start:
        config = self._config
        facts = StartFacts(
            address=self._settings.address,
            server_id=server.server_id,
            history=history,
            same=same,
            master=master(config),
            standby=standby(config),
            gtid_mode=config.gtid_mode,
            errors=self._errors,
            fallback_seconds=config.fallback_seconds,
            inside=self._inside,
            renumbered=anew,
        )
        start = find(conn, self._settings, facts, reset_to_end=config.reset_to_end, stopped=self._stopped)
        return replace(start, position=self._with_gtid_set(conn, start.position))

    def _report(self, start: Start) -> None:
        """Shown once all clients are subscribed: a caller that sees it may claim."""
        before = self.report.lost if self.report else None
        lost = str(start.lost) if start.lost else before  # still shown when a start is found again
        self.report = StartReport(start.rule, start.looked_at, start.position, round(start.seconds, 3), lost)
        parts = self.report.to_dict() | {"chosen": str(start.position)}
        (log.error if start.lost else log.info)("start position", destination=self._config.destination, **parts)

    def _with_gtid_set(self, conn: Connection, position: EntryPosition) -> EntryPosition:
        """In GTID mode the position with the whole set that was executed before it."""
        if not self._config.gtid_mode or isinstance(position.gtid, Gtids):
            return position
        return replace(position, gtid=executed_before(conn, self._settings, position, self._stopped))


def _identity(server: ServerInfo) -> str:
    return server.server_uuid or str(server.server_id)


def _furthest_behind(kept: Mapping[int, LogPosition | None]) -> tuple[int, LogPosition | None]:
    """The client with the smallest cursor, and that cursor. Raises PositionError for cursors of several servers, which
    have no order."""
    cursors = {client: cursor for client, cursor in kept.items() if cursor is not None}
    if not cursors:
        return 0, None
    addresses = sorted({f"{cursor.address}:{cursor.port}" for cursor in cursors.values()})
    if len(addresses) > 1:
        raise PositionError(
            f"the clients' cursors belong to several servers: {', '.join(addresses)}",
            place=", ".join(f"client {client}: {cursor.postion}" for client, cursor in cursors.items()),
            hint="Set all of them to one place: sluice reset ... --moved --all.",
        )
    return min(cursors.items(), key=lambda one: one[1].postion)


def _check_gtid_mode(server: ServerInfo) -> None:
    if server.flavor == "mysql" and server.gtid_mode.upper() != "ON":
        raise SourceError(
            f"canal.instance.gtidon needs GTIDs, and the server's gtid_mode is {server.gtid_mode or 'unknown'}",
            place=server.address,
            hint="Set gtid_mode = ON and enforce_gtid_consistency = ON in [mysqld] of my.cnf and restart the server, "
            "or set canal.instance.gtidon = false.",
        )
