"""The target server: batches of statements in one transaction with the place up to which they are.

The table `sluice_mirror` of the target's database has a line for each destination and client. A batch that was applied
and not acked comes again, and its events at or below that place are left out. Where a DDL statement cannot be in a
transaction, it is noted before it is run, so that after a crash "already done" differs from a real error.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Protocol

from cdc_core.canal.mirror.repetition import undoes_itself
from cdc_core.canal.mirror.scope import effects_of
from cdc_core.canal.mirror.sql import Kinds, Unfit, Untranslatable
from cdc_core.canal.mirror.work import RowGroup
from cdc_core.errors import PositionError, SourceUnavailable, TableStopped
from cdc_core.position import journal_number
from cdc_core.schema.sql_text import shown

_READ = """SELECT server_id, journal_name, position, execute_time, ddl_position FROM {}
    WHERE destination = %s AND client_id = %s"""
_AHEAD = 4  # groups that wait to be run


@dataclass(frozen=True, slots=True)
class MirrorPlace:
    """An event of a binlog, which `server_id` names: by a number of the service that read it, or, where that does not
    say it, by the server that wrote the event. `execute_time` is in milliseconds since the epoch; of the place that a
    target has reached it is the latest of all events up to it, since events are not in the order of their times."""

    server_id: int
    journal_name: str
    position: int
    execute_time: int = 0

    def covers(self, other: MirrorPlace) -> bool:
        """Whether the other event is this one or comes before it. An event of another server counts as new.

        Raises PositionError for one that comes before it and was written later: the binlog was reset (RESET MASTER)."""
        if self.server_id != other.server_id:
            return False
        mine, its = journal_number(self.journal_name), journal_number(other.journal_name)
        covered = (its, other.position) <= (mine, self.position)
        if covered and other.execute_time > self.execute_time:
            raise PositionError(
                f"the target is at {self.journal_name}:{self.position}, and a later event is before it",
                place=f"{other.journal_name}:{other.position}",
                hint="The source's binlog was reset. Check that the target has all earlier rows; then delete the "
                "line of this destination in sluice_mirror, and start again.",
            )
        return covered


class Server(Protocol):
    """A kind of target. Its SQL has `%s` for values; `labels`: it does not know MySQL's types, so values of ENUM and
    SET are texts there. `ddl_commits`: a DDL statement cannot be in a transaction. `places` is the
    table of the places, and `keep` writes a line of it. `definition` gives a statement of the source in the target's
    language, and raises Untranslatable; `table` is the source's spelling of a table's name, `seconds` (since the epoch)
    when it was run. `columns` gives the types of a table's columns, and `write` runs a group; it raises Unfit."""

    @property
    def error(self) -> type[Exception]: ...
    @property
    def ddl_commits(self) -> bool: ...
    @property
    def labels(self) -> bool: ...
    @property
    def places(self) -> str: ...
    @property
    def keep(self) -> str: ...
    def connect(self) -> Any: ...
    def prepare(self, cursor: Any, time_zone: str) -> None: ...
    def begin(self, connection: Any) -> None: ...
    def definition(self, cursor: Any, sql: str, database: str, table: str, seconds: float) -> Sequence[str]: ...
    def refuses(self, error: Exception) -> bool: ...
    def is_gone(self, error: Exception) -> bool: ...
    def is_done_already(self, error: Exception) -> bool: ...
    def columns(self, cursor: Any, table: tuple[str, str]) -> Kinds: ...
    def write(self, cursor: Any, group: RowGroup, kinds: Kinds) -> None: ...


class Target:
    """`time_zone` is that of the timestamps' texts."""

    def __init__(self, server: Server, destination: str, client_id: int, time_zone: str = "+00:00") -> None:
        self.server, self._who, self._zone = server, (destination, client_id), time_zone
        self._connection: Any = None
        self.reached: MirrorPlace | None = None
        self._ddl = 0  # where a statement began that may be done
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="target")  # uses the connection while groups run
        self._running: deque[Future[None]] = deque()
        self._within = False  # a transaction is open
        self._kinds: dict[tuple[str, str], Kinds] = {}  # of the tables that this connection has written

    def __repr__(self) -> str:
        return f"<Target {self._who[0]}/{self._who[1]} {self.reached}>"

    def open(self) -> None:
        """Connects, and reads how far the target is. Raises SourceUnavailable."""
        self.close()
        try:
            self._connection = connection = self.server.connect()
            with connection.cursor() as cursor:
                self.server.prepare(cursor, self._zone)
                cursor.execute(_READ.format(self.server.places), self._who)
                found = cursor.fetchone()
            connection.commit()
        except self.server.error as error:
            raise _away(error) from error
        self.reached = _place(found) if found else None
        self._ddl = int(found[4]) if found else 0

    def close(self) -> None:
        """An open transaction is rolled back."""
        for one in self._running:
            one.cancel()
        wait(self._running)
        self._running.clear()
        self._kinds.clear()
        self._within = False
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def current(self) -> MirrorPlace | None:
        """How far the target is. A connection that was lost is opened again: its last commit may have been done."""
        self._open()
        return self.reached

    def take(self, groups: Iterable[RowGroup]) -> None:
        """Begins to run groups in the open transaction, in another thread. Raises what `apply` raises."""
        for group in groups:
            if not self._running:
                self._guarded(self._begun)  # the worker finds it open
            while len(self._running) >= _AHEAD:
                self._guarded(self._running.popleft().result)
            self._running.append(self._worker.submit(self._run, group))

    def apply(self, groups: Iterable[RowGroup], until: MirrorPlace) -> None:
        """These groups, those taken before them, and the place, or nothing. Raises TableStopped for a row that the
        target refuses, SourceUnavailable when it is down."""
        self.take(groups)
        while self._running:
            self._guarded(self._running.popleft().result)
        self._guarded(lambda: self._commit(until))
        self._within = False
        self.reached, self._ddl = until, 0

    def _commit(self, until: MirrorPlace) -> None:
        connection = self._begun()
        with connection.cursor() as cursor:
            cursor.execute(_READ.format(self.server.places) + " FOR UPDATE", self._who)
            if (found := cursor.fetchone()) is not None and _place(found) != self.reached:
                raise _another(self._who, found)
            cursor.execute(self.server.keep, (*self._who, *_values(until), 0))
        connection.commit()

    def _guarded(self, call: Callable[[], object]) -> None:
        """After any error the connection is thrown away: what was begun is rolled back."""
        try:
            call()
        except self.server.error as error:
            self.close()
            raise _away(error) from error
        except BaseException:
            self.close()
            raise

    def _begun(self) -> Any:
        connection = self._open()
        if not self._within:
            self.server.begin(connection)
            self._within = True
        return connection

    def _run(self, group: RowGroup) -> None:
        try:
            with self._connection.cursor() as cursor:
                kinds = self._kinds.get(group.table)
                if kinds is None:
                    kinds = self._kinds[group.table] = self.server.columns(cursor, group.table)
                self.server.write(cursor, group, kinds)
        except (Unfit, self.server.error) as error:
            if not (isinstance(error, Unfit) or self.server.refuses(error)):
                raise
            raise TableStopped(
                f"the target refuses rows: {error.args[-1] if error.args else error}",
                place=".".join(group.table),
                hint="Make the target's table fit (columns, types, key), or correct the mapping; then start again.",
            ) from error

    def define(self, sql: str, database: str, table: str, at: MirrorPlace, seconds: float) -> None:
        """Runs a DDL statement of then, with the place up to which the target is after it. Raises TableStopped when the
        target refuses it, has no equal for it, or nobody knows whether it was done."""
        noted = self.server.ddl_commits
        again = self._ddl == at.position
        if again and undoes_itself(sql, effects_of(sql, database, table)[0]):
            self._note_ddl(at, 0)
            raise _interrupted(sql, at)
        if noted:
            self._note_ddl(at, at.position)
        else:
            self._guarded(self._begun)
        try:
            with self._open().cursor() as cursor:
                for statement in self.server.definition(cursor, sql, database, table, seconds):
                    cursor.execute(statement)
        except Untranslatable as error:
            self.close()
            raise refused("a statement has no equivalent at the target", error, sql, at) from error
        except self.server.error as error:
            if self.server.is_gone(error):
                self.close()
                raise _away(error) from error
            if not (again and self.server.is_done_already(error)):
                self.close()
                if noted:
                    self._note_ddl(at, 0)  # it was not done, whatever it says the next time
                raise refused("the target refuses a statement", error, sql, at) from error
        if noted:
            self.open()  # in the target's own database again
        self.apply((), at)

    def _note_ddl(self, at: MirrorPlace, position: int) -> None:
        """That a statement begins, or that none is under way."""
        self.open()
        before = self.reached or MirrorPlace(at.server_id, at.journal_name, 0)
        connection = self._open()
        try:
            with connection.cursor() as cursor:
                cursor.execute(self.server.keep, (*self._who, *_values(before), position))
            connection.commit()
        except self.server.error as error:
            self.close()
            raise _away(error) from error
        self._ddl = position

    def _open(self) -> Any:
        if self._connection is None:
            self.open()
        return self._connection


def _place(line: Any) -> MirrorPlace:
    return MirrorPlace(int(line[0]), str(line[1]), int(line[2]), int(line[3]))


def _another(who: tuple[str, int], line: Any) -> PositionError:
    return PositionError(
        f"another mirror moves the position of {who[0]}, client {who[1]}",
        place=f"{line[1]}:{line[2]} in sluice_mirror",
        hint="Run only one mirror for a destination and client id, or give each a --client-id of its own.",
    )


def _values(place: MirrorPlace) -> tuple[int, str, int, int]:
    return place.server_id, place.journal_name, place.position, place.execute_time


def _away(error: Exception) -> SourceUnavailable:
    hint = "Check the target's address, account and log; the batch comes again."
    return SourceUnavailable(f"the target cannot be written: {error}", place="target", hint=hint)


def _interrupted(sql: str, at: MirrorPlace) -> TableStopped:
    """The error for a statement that would undo itself, if it was done."""
    place = f"{at.journal_name}:{at.position}"
    return TableStopped(
        "a statement was interrupted, and its second run would undo it",
        place=f"{place}: {shown(sql, 100)}",
        hint=f"Check whether the target has run it: if so, start with --done {place}; if not, start again.",
    )


def refused(what: str, error: Exception, sql: str, at: MirrorPlace) -> TableStopped:
    """The error for a DDL statement that is not run, with its remedies."""
    place = f"{at.journal_name}:{at.position}"
    return TableStopped(
        f"{what}: {error.args[-1]}",
        place=f"{place}: {shown(sql, 100)}",
        hint=f"Make it fit, and start again; or run it by hand as it fits the target, and start with --done {place}; "
        "or leave the table out of the rules.",
    )
