"""Two servers that replicate. Either may be the master; they are killed, promoted and joined again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cdc_core.config import InstanceConfig
from cdc_core.destination.capture import Capture
from cdc_core.destination.events import Configuration
from cdc_core.destination.runner import Destination
from cdc_core.meta.nodes import Nodes
from orchestration.stack.mysql.server import MySqlServer
from tests.support.captures import CLIENT, config
from tests.support.servers import discard

FALLBACK = 2  # seconds


@dataclass
class Pair:
    """`master` and `replica` in their present roles. Both have one password."""

    master: MySqlServer
    replica: MySqlServer
    gtid: bool

    @classmethod
    def start(cls, folder: Path, *, gtid: bool, version: str = "8.0.31") -> Pair:
        """Starts both with different journal numbers, so that no position of one exists on the other."""
        servers = []
        for number in (1, 2):
            directory = folder / str(number)
            directory.mkdir(parents=True)
            if servers:
                (directory / "passwords.json").write_text((folder / "1" / "passwords.json").read_text())
            options: dict[str, Any] = {"server_id": number, "log_slave_updates": "ON"}
            if version != "mariadb":
                options |= {"gtid_mode": "ON" if gtid else "OFF", "enforce_gtid_consistency": "ON" if gtid else "OFF"}
            servers.append(MySqlServer(version, directory, **options).start())
        servers[0].execute(*["FLUSH BINARY LOGS"] * 3)
        pair = cls(servers[0], servers[1], gtid)
        pair.follow()
        if not gtid:
            pair.replica.execute(f"DO SLEEP({FALLBACK + 2})")  # any time before a cursor's is within its journals
        return pair

    def stop(self) -> None:
        for server in (self.master, self.replica):
            discard(server)

    def follow(self, place: tuple[str, int] | None = None) -> None:
        """The replica replicates from the master; without GTIDs from `place`, by default its present end."""
        self.replica.execute(*_following(self.master, None if self.gtid else place or self.master.position()))

    def caught_up(self) -> None:
        """Waits until the replica has applied everything that the master wrote."""
        name, offset = self.master.position()
        wait = "MASTER_POS_WAIT" if self.master.version == "mariadb" else "SOURCE_POS_WAIT"
        with self.replica.root() as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT {wait}('{name}', {offset}, 120)")
            row = cursor.fetchone()
        assert row is not None
        assert row[0] is not None
        assert row[0] >= 0

    def promote(self) -> tuple[str, int]:
        """Makes the replica the master. Returns its end, after which nothing of the old master comes."""
        word = "SLAVE" if self.replica.version == "mariadb" else "REPLICA"
        self.replica.execute(f"STOP {word}", f"RESET {word} ALL")
        self.master, self.replica = self.replica, self.master
        return self.master.position()

    def fail_over(self) -> tuple[str, int]:
        self.master.kill()
        return self.promote()

    def join(self, place: tuple[str, int]) -> None:
        """The killed server comes back as the replica."""
        self.replica.start()
        self.follow(place)
        self.caught_up()

    def config(self, database: str, master: MySqlServer, **changes: Any) -> InstanceConfig:
        """`master` is the one that the configuration calls so. Heartbeats come every second."""
        other = self.replica if master is self.master else self.master
        known = {
            "standby_address": f"{other.host}:{other.port}",
            "detecting": True,
            "detecting_seconds": 1,
            "heartbeat_ha": True,
            "heartbeat_seconds": 5,
            "gtid_mode": self.gtid,
            "fallback_seconds": FALLBACK,
        }
        return config(master, database, **known | changes)


def _following(master: MySqlServer, place: tuple[str, int] | None) -> list[str]:
    if master.version == "mariadb":
        where = "MASTER_USE_GTID = slave_pos" if place is None else _place("MASTER", place)
        given = f"MASTER_HOST='{master.host}', MASTER_PORT={master.port}, MASTER_USER='{master.user}', "
        given += f"MASTER_PASSWORD='{master.password}', MASTER_CONNECT_RETRY=1, {where}"
        had = "SET GLOBAL gtid_slave_pos = @@gtid_binlog_pos"  # its own transactions are none to ask for
        return [had, f"CHANGE MASTER TO {given}", "START SLAVE"]
    where = "SOURCE_AUTO_POSITION=1" if place is None else f"SOURCE_AUTO_POSITION=0, {_place('SOURCE', place)}"
    given = f"SOURCE_HOST='{master.host}', SOURCE_PORT={master.port}, SOURCE_USER='{master.user}', "
    given += f"SOURCE_PASSWORD='{master.password}', SOURCE_CONNECT_RETRY=1, GET_SOURCE_PUBLIC_KEY=1, {where}"
    return [f"CHANGE REPLICATION SOURCE TO {given}", "START REPLICA"]


def _place(word: str, place: tuple[str, int]) -> str:
    return f"{word}_LOG_FILE='{place[0]}', {word}_LOG_POS={place[1]}"


@contextmanager
def destination(config: InstanceConfig, nodes: Nodes, *, wait: bool = True) -> Iterator[Destination]:
    one = Destination(config.destination, Configuration(config), nodes, pauses=(0.2, 1.0))
    one.start()
    try:
        if wait:
            until(lambda: reads(one), one)
        yield one
    finally:
        one.end("the test is over")


def reads(one: Destination, server: MySqlServer | None = None) -> bool:
    """Whether it is connected, to `server` if that is given."""
    told = one.status()
    here = server is None or told.source.address == f"{server.host}:{server.port}"
    return bool(here and told.state == "running")


def until(condition: Callable[[], Any], one: Destination, seconds: float = 120) -> float:
    """Waits for the condition; returns the seconds that it took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() < began + seconds, one.status()
        time.sleep(0.05)
    return time.monotonic() - began


def capture_of(one: Destination) -> Capture:
    assert one.capture is not None, one.status()
    return one.capture


def drain(one: Destination, rows: int, exact: bool = True) -> None:
    """Claims and acks until so many rows came. With `exact` no more may come."""
    service, seen = one.service(), 0
    while (found := service.claim(CLIENT, 1000, 60 if seen < rows else 1, "test", 60)) is not None:
        service.ack(CLIENT, found.batch_id, "test")
        seen += found.rows
    assert seen == rows or (seen > rows and not exact), seen
