"""The target server: batches of statements in one transaction with the place up to which they are.

The table `sluice_mirror` of the target's database has a line for each destination and client. A batch that was applied
and not acked comes again, and its events at or below that place are left out. A DDL statement cannot be in a
transaction: it is noted before it is run, so that after a crash "it is done already" is told from a real error.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from pymysql import Connection
from pymysql.err import Error, IntegrityError, OperationalError, ProgrammingError

from cdc_core.errors import PositionError, SourceUnavailable, TableStopped
from cdc_core.mirror.work import Group, quoted, statement
from cdc_core.position import journal_number

_TABLE = """CREATE TABLE IF NOT EXISTS sluice_mirror (
    destination VARCHAR(100) NOT NULL, client_id INT NOT NULL, server_id BIGINT NOT NULL,
    journal_name VARCHAR(255) NOT NULL, position BIGINT NOT NULL, execute_time BIGINT NOT NULL,
    ddl_position BIGINT NOT NULL DEFAULT 0,
    changed TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    PRIMARY KEY (destination, client_id))"""
_SETTINGS = "SET foreign_key_checks = 0, sql_mode = '', time_zone = %s"
_KEEP = """INSERT INTO sluice_mirror
    (destination, client_id, server_id, journal_name, position, execute_time, ddl_position)
    VALUES (%s, %s, %s, %s, %s, %s, %s)
    ON DUPLICATE KEY UPDATE server_id = VALUES(server_id), journal_name = VALUES(journal_name),
    position = VALUES(position), execute_time = VALUES(execute_time), ddl_position = VALUES(ddl_position)"""
_READ = """SELECT server_id, journal_name, position, execute_time, ddl_position FROM sluice_mirror
    WHERE destination = %s AND client_id = %s"""
_AHEAD = 4  # groups that wait to be run
_LOST, _BUSY = (2006, 2013), (1205, 1213)  # the connection; a lock
_DONE_ALREADY = (1007, 1008, 1050, 1051, 1060, 1061, 1091, 1146, 1054)  # exists already, or exists no more


@dataclass(frozen=True, slots=True)
class Place:
    """An event of a server's binlog. `execute_time` is in milliseconds since the epoch; of the place that a target has
    reached it is the latest of all events up to it, since events are not in the order of their times."""

    server_id: int
    journal_name: str
    position: int
    execute_time: int = 0

    def covers(self, other: Place) -> bool:
        """Whether the other event is this one or lies before it. Of another server nobody can tell: it is new.

        Raises PositionError for one that lies before it and was written later: the binlog began anew (RESET MASTER)."""
        if self.server_id != other.server_id:
            return False
        mine, its = journal_number(self.journal_name), journal_number(other.journal_name)
        covered = (its, other.position) <= (mine, self.position)
        if covered and other.execute_time > self.execute_time:
            raise PositionError(
                f"the target is at {self.journal_name}:{self.position}, and a later event is before it",
                place=f"{other.journal_name}:{other.position}",
                hint="The source's binlog began anew. See that the target has all rows of before; then delete the "
                "line of this destination in sluice_mirror, and start again.",
            )
        return covered


class Target:
    """`connect` gives a new connection of the target's database. `time_zone` is that of the timestamps' texts."""

    def __init__(
        self, connect: Callable[[], Connection[Any]], destination: str, client_id: int, time_zone: str = "+00:00"
    ) -> None:
        self._connect, self._who, self._zone = connect, (destination, client_id), time_zone
        self._connection: Connection[Any] | None = None
        self.reached: Place | None = None
        self._ddl = 0  # where a statement began that may be done
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="target")  # uses the connection while groups run
        self._running: deque[Future[None]] = deque()
        self._within = False  # a transaction is open

    def __repr__(self) -> str:
        return f"<Target {self._who[0]}/{self._who[1]} {self.reached}>"

    def open(self) -> None:
        """Connects, and reads how far the target is. Raises SourceUnavailable."""
        self.close()
        try:
            self._connection = connection = self._connect()
            with connection.cursor() as cursor:
                cursor.execute(_SETTINGS, (self._zone,))
                cursor.execute(_TABLE)
                cursor.execute(_READ, self._who)
                found = cursor.fetchone()
        except Error as error:
            raise _away(error) from error
        self.reached = Place(int(found[0]), str(found[1]), int(found[2]), int(found[3])) if found else None
        self._ddl = int(found[4]) if found else 0

    def close(self) -> None:
        """An open transaction is rolled back."""
        for one in self._running:
            one.cancel()
        wait(self._running)
        self._running.clear()
        self._within = False
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def current(self) -> Place | None:
        """How far the target is. A connection that was lost is made anew for it: its last commit may have been done."""
        self._open()
        return self.reached

    def take(self, groups: Iterable[Group]) -> None:
        """Begins to run groups in the open transaction, beside the caller. Raises what `apply` raises."""
        for group in groups:
            if not self._running:
                self._begun()  # the worker finds it open
            while len(self._running) >= _AHEAD:
                self._wait()
            self._running.append(self._worker.submit(self._run, group))

    def apply(self, groups: Iterable[Group], until: Place) -> None:
        """These groups, those taken before them, and the place, or nothing. Raises TableStopped for a row that the
        target refuses, SourceUnavailable when it is away."""
        self.take(groups)
        while self._running:
            self._wait()
        try:
            connection = self._begun()
            with connection.cursor() as cursor:
                cursor.execute(_KEEP, (*self._who, *_values(until), 0))
            connection.commit()
        except Error as error:
            self.close()
            raise _away(error) from error
        except BaseException:
            self.close()  # what was begun is rolled back
            raise
        self._within = False
        self.reached, self._ddl = until, 0

    def _wait(self) -> None:
        """For the oldest group that runs."""
        try:
            self._running.popleft().result()
        except Error as error:
            self.close()
            raise _away(error) from error
        except BaseException:
            self.close()
            raise

    def _begun(self) -> Connection[Any]:
        connection = self._open()
        if not self._within:
            connection.begin()
            self._within = True
        return connection

    def _run(self, group: Group) -> None:
        assert self._connection is not None
        sql = statement(group)
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(sql)
        except (IntegrityError, ProgrammingError, OperationalError) as error:
            if error.args and error.args[0] in (*_LOST, *_BUSY):
                raise
            raise TableStopped(
                f"the target refuses rows: {error.args[-1]}",
                place=".".join(group.table),
                hint="Make the target's table fit (columns, types, key), or correct the mapping; then start again.",
            ) from error

    def define(self, sql: str, database: str, at: Place) -> None:
        """Runs a DDL statement. Raises TableStopped when the target refuses it."""
        again = self._ddl == at.position
        self._note_ddl(at, at.position)
        try:
            with self._open().cursor() as cursor:
                if database:
                    cursor.execute(f"USE {quoted(database)}")
                cursor.execute(sql)
        except Error as error:
            code = error.args[0] if error.args else 0
            if code in _LOST:
                self.close()
                raise _away(error) from error
            if not (again and code in _DONE_ALREADY):
                self._note_ddl(at, 0)  # it was not done, whatever it says the next time
                raise TableStopped(
                    f"the target refuses a statement: {error.args[-1]}",
                    place=sql[:100],
                    hint="Run it by hand as it fits the target, or leave the table out of the rules; then start again.",
                ) from error
        self.open()  # in the target's own database again
        self.apply((), at)

    def _note_ddl(self, at: Place, position: int) -> None:
        """That a statement begins, or that none is under way."""
        self.open()
        before = self.reached or Place(at.server_id, at.journal_name, 0)
        connection = self._open()
        try:
            with connection.cursor() as cursor:
                cursor.execute(_KEEP, (*self._who, *_values(before), position))
            connection.commit()
        except Error as error:
            self.close()
            raise _away(error) from error
        self._ddl = position

    def _open(self) -> Connection[Any]:
        if self._connection is None:
            self.open()
        assert self._connection is not None
        return self._connection


def _values(place: Place) -> tuple[int, str, int, int]:
    return place.server_id, place.journal_name, place.position, place.execute_time


def _away(error: Error) -> SourceUnavailable:
    hint = "Check the target's address, account and log; the batch comes again."
    return SourceUnavailable(f"the target cannot be written: {error}", place="target", hint=hint)
