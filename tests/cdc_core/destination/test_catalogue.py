"""The catalogue's share of a definition, while the server refuses connections."""

from __future__ import annotations

import pytest

from cdc_core.meta.nodes import MemoryNodes
from orchestration.stack.mysql.server import MySqlServer
from tests.support.captures import claim, config, execute, running, until

pytestmark = pytest.mark.integration


def test_a_definition_waits_for_the_catalogue(mysql8: MySqlServer) -> None:
    """A server that takes no further connection delays the rows; their definition then has default and comment."""
    account = "'few'@'%'"
    with mysql8.database() as shop:
        mysql8.execute(
            f"CREATE USER {account} IDENTIFIED WITH mysql_native_password BY 'few' "
            "WITH MAX_USER_CONNECTIONS 100",  # a server counts the connections of limited accounts alone
            f"GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {account}",
        )
        try:
            execute(mysql8, shop, "CREATE TABLE orders (id INT PRIMARY KEY, n INT DEFAULT 7 COMMENT 'pieces')")
            with running(config(mysql8, shop, user="few", password="few", tsdb=False), MemoryNodes()) as capture:
                assert capture.service.claim(1001, 10, 0.1, "run-1", 60) is None
                mysql8.execute(f"ALTER USER {account} WITH MAX_USER_CONNECTIONS 1")
                execute(mysql8, shop, "INSERT INTO orders (id) VALUES (1)")
                until(lambda: capture.status().error or capture.status().backlog_rows, capture)
                assert capture.status().backlog_rows == 0
                mysql8.execute(f"ALTER USER {account} WITH MAX_USER_CONNECTIONS 0")

                (orders,) = claim(capture).tables

            assert (orders.schema.columns[1].default, orders.schema.columns[1].comment) == ("7", "pieces")
        finally:
            mysql8.execute(f"DROP USER {account}")
