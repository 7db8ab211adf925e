"""The server that was read is provisioned, numbers its binlogs anew, or is set back to an older copy of its disk."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cdc_core.meta.nodes import MemoryNodes
from orchestration.stack.mysql.server import MySqlServer
from tests.support.captures import config, drain, running
from tests.support.servers import MySqlFactory, discard

pytestmark = pytest.mark.integration

OTHER = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"


@pytest.fixture
def mysql(new_mysql: MySqlFactory) -> Iterator[MySqlServer]:
    """A server of its own, with one table."""
    server = new_mysql("8.0.31")
    server.execute("CREATE DATABASE shop", "CREATE TABLE shop.orders (id INT PRIMARY KEY, note VARCHAR(20))")
    yield server
    discard(server)


def provision(mysql: MySqlServer, purged: str) -> None:
    mysql.execute("RESET MASTER", f"SET GLOBAL gtid_purged = '{purged}'")


def insert(mysql: MySqlServer, *ids: int) -> None:
    """A transaction for each."""
    with mysql.root("shop") as connection, connection.cursor() as cursor:
        for number in ids:
            cursor.execute(f"INSERT INTO orders VALUES ({number}, 'x')")


@pytest.mark.parametrize("purged", [f"{OTHER}:1-500", f"{OTHER}:7-500", f"{OTHER}:1-500,bbbbbbbb{OTHER[8:]}:3"])
def test_a_provisioned_server(mysql: MySqlServer, purged: str) -> None:
    """Its journals do not name what it was provisioned with. Restarts go on, and so does a start at a position."""
    provision(mysql, purged)
    nodes, own = MemoryNodes(), config(mysql, "shop", gtid_mode=True)
    journal, offset = mysql.position()
    insert(mysql, 1)
    for number in (2, 3):
        with running(own, nodes) as capture:
            insert(mysql, number)
            drain(capture, 1)
    placed, nodes = config(mysql, "shop", gtid_mode=True, journal_name=journal, position=offset), MemoryNodes()
    for number, rows in ((4, 4), (5, 1)):
        with running(placed, nodes) as capture:
            insert(mysql, number)
            assert drain(capture, rows) == rows
