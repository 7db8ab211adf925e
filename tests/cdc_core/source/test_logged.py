"""Servers whose binlog does not hold all changes are refused at the start; those where it does not matter are not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cdc_core.errors import ConfigError, SourceError
from cdc_core.source.checks import check_server
from cdc_core.source.connection import connect
from cdc_core.stream.filter import make_filter
from orchestration.stack.mysql.server import MySqlServer
from tests.support.servers import MySqlFactory, discard, settings_of

pytestmark = pytest.mark.integration

VERSIONS = ["8.0.31", "5.7.22", "9", "mariadb"]


def warnings(server: MySqlServer, regex: str = r".*\..*", black: str = "") -> list[str]:
    settings = settings_of(server)
    with connect(settings) as conn:
        return [w for w in check_server(conn, settings, make_filter(regex, black)).warnings if "binlog (" in w]


@pytest.fixture(scope="module")
def filtered(new_mysql: MySqlFactory) -> Callable[..., MySqlServer]:
    """A server with a filter, and without a log of what it replicates."""

    def make(version: str, **options: str) -> MySqlServer:
        newer = version in ("8.0.31", "9")
        try:
            server = new_mysql(version, **{"log_replica_updates" if newer else "log_slave_updates": "OFF"}, **options)
        except ConfigError as error:
            pytest.skip(str(error))
        server.execute("CREATE DATABASE shop", "CREATE DATABASE junk", "CREATE TABLE shop.t (id INT PRIMARY KEY)")
        return server

    return make


@pytest.mark.parametrize("version", VERSIONS)
def test_a_replica_that_does_not_log_what_it_replicates(version: str, filtered: Callable[..., MySqlServer]) -> None:
    """It is refused while it has a channel, running or not. Without one, the setting does no harm."""
    server = filtered(version, binlog_ignore_db="junk")
    modern = version in ("8.0.31", "9")
    assert warnings(server, r"shop\..*")
    to = "REPLICATION SOURCE TO SOURCE_HOST" if modern else "MASTER TO MASTER_HOST"
    server.execute(f"CHANGE {to} = 'elsewhere'")
    if version == "mariadb":
        server.execute("GRANT REPLICA MONITOR ON *.* TO 'sluice'@'%'")

    with pytest.raises(SourceError, match="OFF: the server does not log what it replicates from elsewhere") as caught:
        warnings(server, r"shop\..*")

    assert "= ON into [mysqld]" in caught.value.hint
    server.execute(caught.value.hint.rpartition(": ")[2])
    assert "DDL" in warnings(server, r"shop\..*")[0]
    _ignored(server)
    discard(server)


def _ignored(server: MySqlServer) -> None:
    """A filter is refused where it hides tables that are captured, or would be."""
    with pytest.raises(SourceError, match="binlog_ignore_db = junk hides junk") as caught:
        warnings(server)
    black = caught.value.hint.rpartition("= ")[2].replace("\\\\", "\\")
    assert warnings(server, black=black)
    server.execute("CREATE TABLE junk.orders (id INT)")
    with pytest.raises(SourceError, match="hides junk"):
        warnings(server, r".*\.orders")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_binlog_of_some_databases(version: str, filtered: Callable[..., MySqlServer]) -> None:
    """It is refused where another database has captured tables."""
    server = filtered(version, binlog_do_db="shop")
    assert "do_db = shop" in warnings(server)[0]
    server.execute("CREATE TABLE junk.orders (id INT)")
    with pytest.raises(SourceError, match="binlog_do_db = shop hides junk"):
        warnings(server)
    assert warnings(server, r"shop\..*")
    discard(server)
