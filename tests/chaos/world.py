"""Two servers, each behind its own gate to ZooKeeper, one MySQL and one consumer, with the faults of each."""

from __future__ import annotations

import random
import struct
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from cdc_core.client.connector import Connector
from cdc_core.errors import SluiceError
from cdc_core.ha.running import CLUSTER
from cdc_core.position import EntryPosition
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.zookeeper import ZooKeeper
from tests.chaos.consumer import Consumer
from tests.chaos.lake import MemoryLake, Row, values
from tests.chaos.schedule import Fault
from tests.support.bank import DATABASE, TABLES, Bank
from tests.support.failover import Node, node
from tests.support.proxy import Gate
from tests.support.servers import discard, free_port

Undo = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Server:
    """`name` is a or b."""

    name: str
    node: Node
    gate: Gate


class World:
    """The mutable state is `_undo`: for each part that is harmed, how to repair it."""

    def __init__(self, folder: Path, parts: ExitStack, rng: random.Random) -> None:
        self.folder = folder
        self.zookeeper = ZooKeeper(folder / "zookeeper", free_port())
        self.mysql = MySqlServer("8.0.31", folder / "mysql")
        parts.callback(discard, self.mysql)
        parts.callback(self.zookeeper.kill)
        self.bank = Bank(self.mysql.root, random.Random(rng.random()))
        self.lake = MemoryLake()
        self.consumer = Consumer(self.zookeeper.hosts, self.lake, random.Random(rng.random()))
        self.mysql.start()
        self.zookeeper.start()
        self.servers = tuple(self._server(name, parts) for name in "ab")
        self.bank.open()
        self._undo: dict[str, Undo] = {}
        self._mending: dict[str, Future[object]] = {}
        self._pool = parts.enter_context(ThreadPoolExecutor(4))
        list(self._pool.map(lambda server: server.node.service.start(), self.servers))

    def _server(self, name: str, parts: ExitStack) -> Server:
        gate = Gate(int(self.zookeeper.hosts.rpartition(":")[2]))
        parts.callback(gate.close)
        made = node(self.folder / name, gate.address, self.mysql, DATABASE, wait_ready=False)
        parts.callback(made.service.kill)
        return Server(name, made, gate)

    # -- faults

    def inject(self, fault: Fault) -> str:
        """Harms the part unless it is harmed already. Returns what was done."""
        verb, whom = fault.what.split()
        if whom in ("active", "standby"):
            return self._harm_server(verb, whom)
        part = self.mysql if whom == "mysql" else self.zookeeper
        return self._harm(whom, verb, part.kill, part.start)

    def _harm_server(self, verb: str, whom: str) -> str:
        """During a take-over nobody may be `whom`; then any whole server is harmed."""
        whole = [server for server in self.servers if self._whole(server.name)]
        if not whole:
            return "both are harmed already"
        state = "running" if whom == "active" else whom
        server = next((server for server in whole if server.node.state == state), whole[0])
        service, gate = server.node.service, server.gate
        harm: dict[str, tuple[Undo, Undo]] = {
            "kill": (service.kill, service.start),
            "pause": (server.node.pause, server.node.wake),
            "cut": (gate.shut, gate.open),
            "expire": (lambda: self._expire(server), lambda: None),
        }
        return self._harm(server.name, verb, *harm[verb])

    def _harm(self, part: str, verb: str, do: Undo, undo: Undo) -> str:
        if not self._whole(part):
            return f"{part} is harmed already"
        do()
        self._undo[part] = undo
        return f"{verb} {part}"

    def _whole(self, part: str) -> bool:
        mending = self._mending.get(part)
        return part not in self._undo and (mending is None or mending.done())

    def mend(self, part: str) -> None:
        """Begins to repair the part; a start takes its time."""
        if undo := self._undo.pop(part, None):
            self._mending[part] = self._pool.submit(undo)

    def mend_all(self) -> None:
        """Repairs all parts and waits for them."""
        for part in list(self._undo):
            self.mend(part)
        for mending in self._mending.values():
            mending.result()

    def _expire(self, server: Server) -> None:
        """Ends the session of a server as ZooKeeper does, by a client that takes its place in the session."""
        client = KazooClient(self.zookeeper.hosts)
        try:
            client.start(timeout=2)
            stat = client.exists(f"{CLUSTER}/127.0.0.1:{server.node.port}")
            if stat is not None:
                _end_session(self.zookeeper.hosts, stat.ephemeralOwner)
        except (KazooException, KazooTimeoutError):
            return  # ZooKeeper is away
        finally:
            client.stop()
            client.close()

    # -- the verdict

    def drained(self) -> bool:
        """Whether nothing is claimed, waiting, or still to be read."""
        self.consumer.check()
        end = EntryPosition(*self.mysql.position())
        try:
            with Connector(None, "shop", zk_servers=self.zookeeper.hosts) as connector:
                status, client = connector.status(), connector.client_status()
        except SluiceError:
            return False
        reached = status.position is not None and status.position >= end
        return reached and not client.waiting and not client.claims

    def wait_drained(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not self.drained():
            assert time.monotonic() < deadline, f"not drained; see {self.folder}"
            time.sleep(0.3)

    def differences(self) -> dict[str, tuple[Counter[Row], Counter[Row]]]:
        """For each table that differs: rows that only the source has, and rows that only the lake has."""
        found = {}
        for table in TABLES:
            there, here = self._source_rows(table), self.lake.tables.get(f"{DATABASE}.{table}", Counter())
            assert there, table
            if there != here:
                found[table] = (there - here, here - there)
        return found

    def _source_rows(self, table: str) -> Counter[Row]:
        with self.mysql.root(DATABASE) as connection, connection.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00'")
            cursor.execute(f"SELECT * FROM {table}")
            names = [column[0] for column in cursor.description]
            return Counter(values(dict(zip(names, row, strict=True))) for row in cursor.fetchall())


def _end_session(hosts: str, session: int) -> None:
    thief = KazooClient(hosts, client_id=(session, _session_password(session)))
    try:
        thief.start(timeout=5)
    finally:
        thief.stop()
        thief.close()


def _session_password(session: int) -> bytes:
    """The password as `ZooKeeperServer.generatePasswd` makes it: bytes of `java.util.Random`, seeded by the session."""
    mask = (1 << 48) - 1
    state = (session ^ 0xB3415C00 ^ 0x5DEECE66D) & mask
    words = []
    for _ in range(4):
        state = (state * 0x5DEECE66D + 0xB) & mask
        words.append(state >> 16)
    return struct.pack("<4I", *words)
