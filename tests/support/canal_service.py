"""A service with Canal's TCP door in this process, in front of one database of a real server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cdc_core.canal.tcp import TcpDoor
from cdc_core.config import load_service
from cdc_core.server.server import CanalServer
from orchestration.stack.mysql.server import MySqlServer


@contextmanager
def canal_service(
    mysql: MySqlServer, database: str, folder: Path, more: str = "", tables: str = ".*"
) -> Iterator[TcpDoor]:
    """The destination `shop` captures the database from its newest transaction on; its clients are 1001 and 1002, whose
    leases last two seconds. Anyone may connect. `more`: lines of instance.properties."""
    conf = folder / "conf"
    (conf / "shop").mkdir(parents=True)
    (conf / "canal.properties").write_text("sluice.tcp.anyone = true\nsluice.lease.seconds = 2\n")
    (conf / "shop" / "instance.properties").write_text(
        f"canal.instance.master.address = {mysql.host}:{mysql.port}\n"
        f"canal.instance.dbUsername = {mysql.user}\ncanal.instance.dbPassword = {mysql.password}\n"
        f"canal.instance.filter.regex = {database}\\\\.{tables}\nsluice.clients = 1001, 1002\n"
        f"sluice.heartbeat.seconds = 1\n{more}\n"
    )
    with served(conf) as door:
        yield door


@contextmanager
def served(conf: Path) -> Iterator[TcpDoor]:
    """A directory that is configured already."""
    config, _ = load_service(conf)
    server = CanalServer(config, conf)
    server.load()
    door = TcpDoor(server, "127.0.0.1", 0)
    door.start()
    server.start()
    try:
        deadline = time.monotonic() + 60
        while (status := server.destination("shop").status()).state != "running" or status.position is None:
            assert time.monotonic() < deadline, status
            time.sleep(0.05)
        yield door
    finally:
        door.stop()
        server.stop()
