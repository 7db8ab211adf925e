"""Two servers that replicate, of which either may be the master: killed, promoted, joined again."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cdc_core.config import InstanceConfig
from cdc_core.instance import Instance
from cdc_core.meta.nodes import Nodes
from cdc_core.switched import Switched
from orchestration.stack.mysql import MySqlServer
from tests.test_instance import CLIENT, config

FALLBACK = 2  # seconds


@dataclass
class Pair:
    """`master` and `replica` as they are now; one password for both."""

    master: MySqlServer
    replica: MySqlServer
    gtid: bool

    @classmethod
    def start(cls, folder: Path, *, gtid: bool, version: str = "8.0.31") -> Pair:
        """With journals of other numbers, so that a place of the one is none of the other."""
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
            server.stop()

    def follow(self, place: tuple[str, int] | None = None) -> None:
        """The replica replicates from the master, without GTIDs from `place`, its present end."""
        self.replica.execute(*_following(self.master, None if self.gtid else place or self.master.position()))

    def caught_up(self) -> None:
        """Until the replica has applied all that the master wrote."""
        name, offset = self.master.position()
        wait = "MASTER_POS_WAIT" if self.master.version == "mariadb" else "SOURCE_POS_WAIT"
        with self.replica.root() as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT {wait}('{name}', {offset}, 60)")
            row = cursor.fetchone()
        assert row is not None
        assert row[0] is not None
        assert row[0] >= 0

    def promote(self) -> tuple[str, int]:
        """The replica is the master now. Its end, behind which nothing of the old one comes."""
        word = "SLAVE" if self.replica.version == "mariadb" else "REPLICA"
        self.replica.execute(f"STOP {word}", f"RESET {word} ALL")
        self.master, self.replica = self.replica, self.master
        return self.master.position()

    def fail_over(self) -> tuple[str, int]:
        self.master.kill()
        return self.promote()

    def join(self, place: tuple[str, int]) -> None:
        """The one that was killed comes back as the replica."""
        self.replica.start()
        self.follow(place)
        self.caught_up()

    def config(self, database: str, master: MySqlServer, **changes: Any) -> InstanceConfig:
        """`master` is the one that the configuration calls so; a heartbeat a second."""
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
def switched(config: InstanceConfig, nodes: Nodes, *, wait: bool = True) -> Iterator[Switched]:
    one = Switched(config, nodes, pauses=(0.2, 1.0))
    one.start()
    try:
        if wait:
            until(lambda: reads(one), one)
        yield one
    finally:
        one.stop()


def reads(one: Switched, server: MySqlServer | None = None) -> bool:
    """It is connected, to `server` where that is given."""
    told = one.current.status()
    here = server is None or told["source"]["address"] == f"{server.host}:{server.port}"
    return bool(here and told["state"] == "running")


def until(condition: Callable[[], Any], one: Switched, seconds: float = 60) -> float:
    """How long it took, in seconds."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() < began + seconds, one.current.status()
        time.sleep(0.05)
    return time.monotonic() - began


def instance_of(one: Switched) -> Instance:
    assert isinstance(one.current, Instance)
    return one.current


def drain(one: Switched, rows: int, exact: bool = True) -> None:
    """Claims and acks until so many rows came; with `exact` no more may come, else as many as there are."""
    instance, seen = instance_of(one), 0
    while (found := instance.claim(CLIENT, 1000, 30 if seen < rows else 1, "test", 60)) is not None:
        instance.ack(CLIENT, found.batch_id, "test")
        seen += found.rows
    assert seen == rows or (seen > rows and not exact), seen


class Forward:
    """An address of its own for whichever server it stands before: a VIP. `to` moves it, and ends its connections."""

    def __init__(self, server: MySqlServer) -> None:
        self._server = server
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def to(self, server: MySqlServer) -> None:
        self._server = server
        ended, self._open = self._open, []
        _end(*ended)

    def close(self) -> None:
        _end(self._listener, *self._open)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection((self._server.host, self._server.port))
                except OSError:
                    client.close()
                    continue
                self._open += [client, server]
                for one, other in ((client, server), (server, client)):
                    threading.Thread(target=_carry, args=(one, other), daemon=True).start()


def _carry(one: socket.socket, other: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := one.recv(65536):
            other.sendall(data)
    _end(one, other)


def _end(*sockets: socket.socket) -> None:
    for one in sockets:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()
