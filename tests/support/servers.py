"""What tests ask of real servers beyond a start: ports, settings, purged files, killed dumps, expired sessions."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import replace

import pymysql
from kazoo.client import KazooClient

from cdc_core.source.settings import SourceSettings
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.ports import free_port as free_port
from orchestration.stack.zookeeper import ZooKeeper

MySqlFactory = Callable[..., MySqlServer]


def discard(server: MySqlServer) -> None:
    """Ends a server whose data nobody needs again, without the wait for a clean shutdown."""
    server.kill()
    server.stop()  # removes what it keeps outside its directory


def settings_of(server: MySqlServer, **changes: object) -> SourceSettings:
    """Source settings of the capturing account at `server`."""
    settings = SourceSettings(server.host, server.port, server.user, server.password)
    return replace(settings, **changes)  # type: ignore[arg-type]


def purge(server: MySqlServer, journal: str) -> None:
    """Purges the binlog files before `journal`; tries again, since a server silently keeps files with a reader."""
    deadline = time.monotonic() + 60
    while True:
        server.execute(f"PURGE BINARY LOGS TO '{journal}'")
        with server.root() as connection, connection.cursor() as cursor:
            cursor.execute("SHOW BINARY LOGS")
            oldest = cursor.fetchall()[0][0]
        if oldest == journal:
            return
        assert time.monotonic() < deadline, oldest
        time.sleep(0.2)


def executed_gtids(server: MySqlServer) -> str:
    """The GTID set that the server has executed, as it writes it."""
    variable = "gtid_binlog_pos" if server.version == "mariadb" else "GLOBAL.gtid_executed"
    with server.root() as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT @@{variable}")
        return str(cursor.fetchall()[0][0])


def kill_dumps(server: MySqlServer) -> None:
    """Kills every connection that reads the binlog."""
    with server.root() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'")
        for (number,) in cursor.fetchall():
            with contextlib.suppress(pymysql.err.MySQLError):
                cursor.execute(f"KILL {number}")


def expire_session(zookeeper: ZooKeeper, client: KazooClient) -> None:
    """Ends the client's session, as ZooKeeper does after the time-out."""
    thief = KazooClient(zookeeper.hosts, client_id=client.client_id)
    thief.start(timeout=60)
    thief.stop()
    thief.close()
