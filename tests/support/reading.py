"""How far a service has read its source."""

from __future__ import annotations

import time
from collections.abc import Callable

import pymysql
from pymysql.constants import ER

from cdc_core.contract.status import Status
from cdc_core.position import EntryPosition
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.snapshot.binlog import reaches
from tests.support.waiting import pause_after


def until_read(status: Callable[[], Status], mysql: MySqlServer, seconds: float = 60.0) -> EntryPosition:
    """Waits until the service has read all that the server has written by now. Returns where that ends."""
    end, start = EntryPosition(*mysql.position()), time.monotonic()
    while not nothing_between(mysql, (told := status()).position, end):
        waited = time.monotonic() - start
        assert waited < seconds, (end, told)
        time.sleep(pause_after(waited))
    return end


def nothing_between(mysql: MySqlServer, place: EntryPosition | None, end: EntryPosition) -> bool:
    """Whether a place is known, and the server shows no rows between it and `end`."""
    if place is None or place >= end:
        return place is not None
    with mysql.root() as connection:
        try:
            return reaches(connection, place, end)
        except pymysql.err.OperationalError as error:
            if error.args[0] != ER.ERROR_WHEN_EXECUTING_COMMAND:
                raise
            return False  # it found half an event: the caller asks again
