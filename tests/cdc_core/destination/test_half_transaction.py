"""A real MySQL dies while half of a large transaction is in the ring: it restarts with the other half, or without both.

That the server lost the end of its binlog is brought about as a power cut does it: the file is cut off.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc_core.destination.capture import Capture
from cdc_core.errors import SessionError
from cdc_core.meta.nodes import MemoryNodes
from orchestration.stack.mysql.server import MySqlServer
from tests.support.captures import CLIENT, all_read, claim, config, execute, running, until
from tests.support.proxy import Proxy, received
from tests.support.servers import MySqlFactory

pytestmark = pytest.mark.integration

ROWS, HALF = 2000, 200_000  # a transaction of so many rows of 200 bytes; so many of its bytes get through


class Narrow(Proxy):
    """Once `narrow`, lets only so many more bytes of the server's through, and holds its connections open."""

    left = 1 << 62

    def to_client(self, server: socket.socket, client: socket.socket) -> None:
        for data in received(server):
            client.sendall(data[: self.left])
            self.left = max(0, self.left - len(data))


@pytest.fixture(scope="module")
def mysql(new_mysql: MySqlFactory) -> MySqlServer:
    return new_mysql("8.0.31", innodb_flush_log_at_trx_commit=1)


@pytest.fixture
def table(mysql: MySqlServer) -> Iterator[str]:
    with mysql.database() as name:
        execute(mysql, name, "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(200))")
        yield name


def half_read(mysql: MySqlServer, database: str, capture: Capture, proxy: Narrow) -> None:
    """Of two transactions the first is acked, of the second the first half is in the ring; the server is dead."""
    execute(mysql, database, "INSERT INTO orders VALUES (-1, 'before')")
    capture.service.ack(CLIENT, claim(capture).batch_id, "run-1")
    committed = capture.store.ring.log.committed
    proxy.left = HALF
    rows = [f"({n}, '{'x' * 180}')" for n in range(ROWS)]
    execute(mysql, database, *[f"INSERT INTO orders VALUES {','.join(rows[n : n + 100])}" for n in range(0, ROWS, 100)])
    until(lambda: capture.store.ring.put.rows > committed.rows + ROWS // 4, capture)
    until(lambda: not proxy.left, capture)
    assert capture.store.ring.log.committed == committed
    mysql.kill()


def restart(mysql: MySqlServer, proxy: Narrow, lost_from: tuple[str, int] | None) -> None:
    """With `lost_from` the binlog ends there."""
    if lost_from:
        os.truncate(Path(mysql.log).parent / "data" / lost_from[0], lost_from[1])
    mysql.start()
    proxy.left = Narrow.left
    proxy.disconnect()


def parts(capture: Capture, count: int) -> list[int]:
    """So many claims of a part of the transaction: their ids. All but the last are acked."""
    ids: list[int] = []
    for _ in range(count):
        for batch_id in ids[-1:]:
            capture.service.ack(CLIENT, batch_id, "run-1")
        found = claim(capture, rows=150)
        assert found.partial
        ids.append(found.batch_id)
    return ids


@pytest.mark.parametrize("claims", [0, 1, 3])
def test_a_server_that_lost_the_transaction(mysql: MySqlServer, table: str, claims: int) -> None:
    """The next transaction, in the next journal, comes alone; a claim of the lost one is rolled back."""
    with (
        Narrow(mysql.port) as proxy,
        running(config(mysql, table, address=proxy.address, block_bytes=16384), MemoryNodes()) as capture,
    ):
        half_read(mysql, table, capture, proxy)
        claimed = parts(capture, claims)
        last = capture.store.ring.log.last_position
        assert last is not None
        restart(mysql, proxy, (last.journal_name, last.position))
        execute(mysql, table, f"INSERT INTO orders VALUES ({ROWS}, 'after')")
        until(lambda: (capture.store.ring.log.last_commit or last).journal_name > last.journal_name, capture)

        for batch_id in claimed[-1:]:
            with pytest.raises(SessionError, match="none is outstanding"):
                capture.service.ack(CLIENT, batch_id, "run-1")
        found = claim(capture)
        assert (found.rows, found.transactions, found.partial) == (1, 1, False)
        cursor = capture.service.ack(CLIENT, found.batch_id, "run-1")
        assert cursor is not None
        assert cursor.journal_name > last.journal_name


@pytest.mark.parametrize("claims", [0, 1, 3])
def test_a_server_that_kept_the_transaction(mysql: MySqlServer, table: str, claims: int) -> None:
    """It is read again: each row is served once, and a claim from before the crash may be acked."""
    with (
        Narrow(mysql.port) as proxy,
        running(config(mysql, table, address=proxy.address, block_bytes=16384), MemoryNodes()) as capture,
    ):
        half_read(mysql, table, capture, proxy)
        claimed = parts(capture, claims)
        before = capture.store.ring.marks(CLIENT).get.rows
        restart(mysql, proxy, None)
        all_read(capture, mysql)

        for batch_id in claimed[-1:]:
            capture.service.ack(CLIENT, batch_id, "run-1")
        found = claim(capture, rows=2 * ROWS)
        assert (before + found.rows, found.transactions, found.partial) == (ROWS + 1, 1, False)
        capture.service.ack(CLIENT, found.batch_id, "run-1")
        assert not capture.status().backlog_rows
