"""How far clients are behind, asked of a real MySQL."""

from __future__ import annotations

import time

import pytest

from cdc_core.destination.positions import positions
from cdc_core.errors import SourceUnavailable
from cdc_core.meta.cursors import Cursors
from cdc_core.meta.nodes import MemoryNodes
from cdc_core.position import EntryPosition, LogPosition
from cdc_core.source.settings import source_settings
from orchestration.stack.mysql.server import MySqlServer
from tests.support.captures import all_read, claim, config, execute, running

pytestmark = pytest.mark.integration


def test_every_client_is_listed(mysql8: MySqlServer) -> None:
    """Bytes over files, transactions by GTID, seconds; one at the end, one whose journal is gone, one without."""
    nodes = MemoryNodes()
    with mysql8.database() as shop:
        execute(mysql8, shop, "CREATE TABLE orders (id INT PRIMARY KEY)")
        settings, cursors = source_settings(config(mysql8, shop)), Cursors(nodes, "shop")
        with running(config(mysql8, shop), nodes) as capture:
            execute(mysql8, shop, "INSERT INTO orders VALUES (1)")
            found = claim(capture)
            capture.service.ack(1001, found.batch_id, "run-1")
        execute(mysql8, shop, "INSERT INTO orders VALUES (2)")
        with mysql8.root() as connection, connection.cursor() as cursor:
            cursor.execute("FLUSH BINARY LOGS")
        execute(mysql8, shop, "INSERT INTO orders VALUES (3)")
        execute(mysql8, shop, "INSERT INTO orders VALUES (4)")
        end = EntryPosition(*mysql8.position())
        address = LogPosition(mysql8.host, mysql8.port, end)
        cursors.write(1002, address)
        cursors.write(1003, address.at(EntryPosition("mysql-bin.000000", 4)))
        cursors.subscribe(1004)

        told = positions(settings, cursors, lambda: time.time() + 100)
        behind, even, gone, new = told.clients
        assert (told.end.journal_name, told.end.position) == (end.journal_name, end.position)
        assert behind.cursor.position == found.end.position
        assert behind.bytes > end.position
        assert behind.transactions == 3
        assert 100 <= behind.seconds < 160
        assert even.files_left == behind.files_left + 1 == told.files - 1
        assert (even.bytes, even.seconds, even.purged) == (0, 0, False)
        assert (gone.purged, gone.bytes, gone.files_left) == (True, None, None)
        assert (new.cursor, new.bytes, new.purged) == (None, None, False)


def test_seconds_are_the_age_of_what_is_not_acked(mysql8: MySqlServer) -> None:
    """A cursor an hour old is no hour behind: a new row is as late as it is old, and what is not captured is not."""
    nodes = MemoryNodes()
    with mysql8.database() as shop, mysql8.database() as other:
        for database in (shop, other):
            execute(mysql8, database, "CREATE TABLE orders (id INT PRIMARY KEY)")
        settings, cursors = source_settings(config(mysql8, shop)), Cursors(nodes, "shop")
        with running(config(mysql8, shop), nodes) as capture:

            def seconds() -> float | None:
                all_read(capture, mysql8)
                return positions(settings, cursors, time.time, None, capture.waiting()).clients[0].seconds

            old = "SET timestamp = UNIX_TIMESTAMP() - 3600"
            execute(mysql8, shop, old, "INSERT INTO orders VALUES (1)")
            assert 3600 <= seconds() < 3660
            capture.service.ack(1001, claim(capture).batch_id, "run-1")
            assert seconds() == 0
            execute(mysql8, other, old, "INSERT INTO orders VALUES (1)")
            assert seconds() == 0
            execute(mysql8, shop, "INSERT INTO orders VALUES (2)")
            assert 0 < seconds() < 60


def test_a_source_that_is_away_is_named() -> None:
    """The error says which."""
    from cdc_core.source.settings import SourceSettings

    with pytest.raises(SourceUnavailable):
        positions(SourceSettings("127.0.0.1", 9, "u", "p"), Cursors(MemoryNodes(), "shop"), time.time)
