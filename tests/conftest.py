"""Fixtures: real servers, started when the first test asks for them and ended with the session."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cdc_core.errors import ConfigError
from orchestration.stack.home import free_port as _free_port
from orchestration.stack.mysql import MySqlServer, Option
from orchestration.stack.zookeeper import ZooKeeper

MySqlFactory = Callable[..., MySqlServer]


def free_port() -> int:
    """A port for a server of the test's own."""
    return _free_port()


def purge(server: MySqlServer, journal: str) -> None:
    """The files before; a server keeps, in silence, those that it takes a reader to be in yet."""
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


@pytest.fixture(scope="session")
def new_mysql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MySqlFactory]:
    """A factory of servers: `new_mysql("8.0.31", gtid_mode="OFF")`. An option of None leaves out a default."""
    servers: list[MySqlServer] = []

    def make(version: str = "8.0.31", **options: Option) -> MySqlServer:
        directory = tmp_path_factory.mktemp(f"mysql-{version}")
        server = MySqlServer(version, directory, **options)
        servers.append(server)
        return server.start()

    yield make
    for server in servers:
        server.stop()


@pytest.fixture(scope="session")
def mysql8(new_mysql: MySqlFactory) -> MySqlServer:
    """MySQL 8.0.31."""
    return new_mysql("8.0.31")


@pytest.fixture(scope="session")
def mysql57(new_mysql: MySqlFactory) -> MySqlServer:
    """MySQL 5.7.22."""
    return new_mysql("5.7.22")


@pytest.fixture(scope="session")
def mysql9(new_mysql: MySqlFactory) -> MySqlServer:
    """MySQL 9 as Debian's unstable suite has it today; skips where it cannot be had."""
    try:
        return new_mysql("9")
    except ConfigError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def mariadb(new_mysql: MySqlFactory) -> MySqlServer:
    """MariaDB as the system packages it."""
    return new_mysql("mariadb")


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    """A ZooKeeper for all tests: keep apart by a chroot of your own (`zk_root`)."""
    server = ZooKeeper(tmp_path_factory.mktemp("zookeeper"), _free_port()).start()
    yield server
    server.stop()


@pytest.fixture
def zk_root() -> str:
    """A chroot that no other test uses: append it to `zookeeper.hosts`."""
    return f"/t-{secrets.token_hex(4)}"


@pytest.fixture(scope="session")
def spark_remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Spark Connect server with Delta."""
    from orchestration.stack.spark import SparkConnect

    server = SparkConnect(tmp_path_factory.mktemp("spark"), _free_port()).start()
    yield server.remote
    server.stop()


@pytest.fixture(scope="session")
def lake_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for lakes."""
    return tmp_path_factory.mktemp("lake")
