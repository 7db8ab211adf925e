"""`sluice mirror` in this process: a source, a target, and rules, to be run batch by batch."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cdc_core.canal.client import CanalConnector, Consumer, Message, Policy
from cdc_core.canal.mirror.mirror import Mirror
from cdc_core.canal.mirror.rules import read_rules
from cdc_core.canal.mirror.target import Target
from cdc_core.canal.tcp import TcpDoor
from orchestration.commands.mirror import server_of
from orchestration.stack.mysql.server import MySqlServer
from tests.support.canal_service import canal_service

PASSWORD = "written-by-the-mirror"


class World:
    """A mirror that is run batch by batch; `rows` gives a table of either side."""

    def __init__(self, source: MySqlServer, other: MySqlServer, database: str, door: TcpDoor, copy: str, folder: Path):
        self.source, self.other, self.database = source, other, database
        self.door, self.port, self.copy, self.rules = door, door.port, copy, folder / "rdb"
        self.rules.mkdir()
        self.target = Target(server_of(copy, PASSWORD), "shop", 1001)

    def rule(self, text: str = "mirrorDb: true\ndatabase: {db}", name: str = "one") -> None:
        lines = "".join(f"  {line}\n" for line in text.format(db=self.database).splitlines())
        (self.rules / f"{name}.yml").write_text(f"destination: shop\ndbMapping:\n{lines}")

    def write(self, *statements: str) -> None:
        self.source.execute(*statements, database=self.database)

    def run(self, *, ack: bool = True, done: tuple[str, ...] = ()) -> Mirror:
        """Until nothing comes any more; without `ack` all of it stays outstanding, and comes again."""
        self.target.open()
        mirror = Mirror(read_rules(self.rules, "shop"), self.target, done)
        with CanalConnector("127.0.0.1", self.port, "shop") as connector:
            if not ack:
                connector.ack = lambda _: None  # type: ignore[method-assign]
            stop = threading.Event()
            connector.get_without_ack = _until_empty(connector.get_without_ack, stop)  # type: ignore[method-assign]
            Consumer(connector, mirror, Policy(tries=1, wait_seconds=1.5), tell=lambda _: None).run(stop)
        self.target.close()
        return mirror

    def run_until(self, done: Callable[[], bool], seconds: float = 60) -> None:
        """Again and again."""
        deadline = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < deadline
            self.run()

    def rows(self, server: MySqlServer, table: str, columns: str = "*") -> list[tuple[Any, ...]]:
        with server.root(self.database) as connection, connection.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00'")
            cursor.execute(f"SELECT {columns} FROM {table}")
            return sorted((tuple(row) for row in cursor.fetchall()), key=repr)

    def same(self, table: str) -> None:
        assert self.rows(self.other, table) == self.rows(self.source, table)


def _until_empty(get: Callable[..., Message], stop: threading.Event) -> Callable[..., Message]:
    """The same, which sets `stop` when there is nothing."""

    def wrapped(*arguments: Any) -> Message:
        message = get(*arguments)
        if message.id == -1:
            stop.set()
        return message

    return wrapped


@contextmanager
def mirror_world(source: MySqlServer, other: MySqlServer, folder: Path, more: str = "") -> Iterator[World]:
    """A database of the source, and one of the same name at the other server, with an account that may write. `more`:
    lines of instance.properties."""
    with source.database() as database:
        other.execute(
            f"CREATE DATABASE {database}",
            f"CREATE USER IF NOT EXISTS 'mirror'@'%' IDENTIFIED BY '{PASSWORD}'",
            "GRANT ALL ON *.* TO 'mirror'@'%'",
        )
        copy = f"mysql://mirror@{other.host}:{other.port}/{database}"
        try:
            with canal_service(source, database, folder, more) as door:
                yield World(source, other, database, door, copy, folder)
        finally:
            other.execute(f"DROP DATABASE IF EXISTS {database}", f"DROP DATABASE IF EXISTS {database}_2")
