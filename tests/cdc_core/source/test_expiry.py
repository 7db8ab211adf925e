"""The distance of cursors from being purged."""

from __future__ import annotations

import time
from typing import Any, Self, cast

import pymysql
import pytest

from cdc_core.position import EntryPosition
from cdc_core.source.connection import Connection
from cdc_core.source.expiry import Expiry, Left, left
from cdc_core.source.journals import BinaryLog, binary_logs
from cdc_core.source.retention import Retention, retention
from orchestration.stack.mysql.server import MySqlServer
from tests.support.servers import settings_of

LOGS = [BinaryLog("b.000001", 100), BinaryLog("b.000002", 200), BinaryLog("b.000010", 300)]


@pytest.mark.parametrize(
    ("journal", "keep", "expected"),
    [
        ("b.000001", 60, Left(0, 50, 35.0)),
        ("b.000002", 60, Left(1, 150, 40.0)),
        ("b.000002", 0, Left(1, 150, None)),
        ("b.000010", 60, Left(2, 350, None)),
        ("b.000000", 60, None),
    ],
)
def test_left(journal: str, keep: float, expected: Left | None) -> None:
    """Files, bytes and seconds are left; the newest file does not expire."""
    begun = {"b.000002": 975.0, "b.000010": 980.0}
    assert left(LOGS, EntryPosition(journal, 50), keep, begun.__getitem__, now=1000) == expected


@pytest.mark.integration
def test_a_warning_comes_in_time(mysql8: MySqlServer) -> None:
    """The check runs once a minute. It warns of a cursor in a file near its end, and in one that is gone."""
    mysql8.execute("FLUSH BINARY LOGS", "FLUSH BINARY LOGS", "SET GLOBAL binlog_expire_logs_seconds = 1000")
    try:
        with mysql8.root() as conn:
            logs = binary_logs(conn)
            assert retention(conn).seconds == 1000
        now = time.time()
        expiry = Expiry(settings_of(mysql8), lambda: now)
        cursors = {1001: EntryPosition(logs[-2].name, 4), 1002: EntryPosition(logs[-1].name, 4)}
        expiry.look(cursors)
        assert expiry.report is not None
        assert expiry.report.warning is None
        assert expiry.report.clients[1001].files == len(logs) - 2
        assert expiry.report.clients[1002].seconds is None
        assert 900 < (expiry.report.seconds_left or 0) <= 1001

        now += 30
        expiry.look({})
        expiry.look({1001: EntryPosition("mysql-bin.000000", 4)})
        assert set(expiry.report.clients) == {1001, 1002}
        now += 900
        expiry.look(cursors)
        assert "client 1001's cursor may be purged in 0.0 h" in expiry.report.warning
        now += 900
        expiry.look(cursors)
        assert "at the next rotation" in expiry.report.warning
        now += 900
        expiry.look({1001: EntryPosition("mysql-bin.000000", 4)})
        assert "no journal that is left" in expiry.report.warning
        assert expiry.report.files_left is None
    finally:
        mysql8.execute("SET GLOBAL binlog_expire_logs_seconds = DEFAULT")


@pytest.mark.integration
def test_each_server_says_how_long_it_keeps_files(mysql57: MySqlServer, mariadb: MySqlServer) -> None:
    """In days or seconds; for ever by default here."""
    for server in (mysql57, mariadb):
        with server.root() as conn, conn.cursor() as cursor:
            assert retention(conn).seconds == 0
            cursor.execute("SET GLOBAL expire_logs_days = 2")
            assert retention(conn).seconds == 2 * 86400
            cursor.execute("SET GLOBAL expire_logs_days = 0")


@pytest.mark.parametrize(
    ("answer", "seconds", "hours"),
    [
        ([("72",)], 259_200, 144),
        ([("100",)], 360_000, 168),
        ([("168",)], 604_800, None),
        ([(None,)], 0, 72),
        ([], 0, 72),
        (pymysql.err.OperationalError(1142, "denied"), 0, 72),
    ],
    ids=["set", "near the most", "the most", "null", "no row", "denied"],
)
@pytest.mark.parametrize("aurora", [False, True])
def test_rds_keeps_files_by_its_own_setting(answer: object, seconds: float, hours: int | None, aurora: bool) -> None:
    """The server's variable says nothing there. The double answers as RDS is documented; none can be had."""
    variables = [("basedir", "/rdsdbbin/mysql-8.0.40/"), ("binlog_expire_logs_seconds", "2592000")]
    if aurora:
        variables.append(("aurora_version", "3.08.0"))
        hours = {168: 200, None: 336}.get(hours, hours)

    kept = retention(cast(Connection, Answers([variables, answer])))

    call = f"CALL mysql.rds_set_configuration('binlog retention hours', {hours});" if hours else ""
    assert kept == Retention(seconds, call)


class Answers:
    """A connection and its cursor: each statement has the next answer."""

    def __init__(self, answers: list[Any]) -> None:
        self._answers = iter(answers)

    def cursor(self) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def execute(self, _statement: str) -> None:
        self._answer = next(self._answers)
        if isinstance(self._answer, Exception):
            raise self._answer

    def fetchall(self) -> Any:
        return self._answer
