"""How far clients are behind, asked of a real MySQL."""

from __future__ import annotations

import time

import pytest

from cdc_core.destination.positions import positions
from cdc_core.destination.servers import source_settings
from cdc_core.errors import SourceUnavailable
from cdc_core.meta.cursors import Cursors
from cdc_core.meta.nodes import MemoryNodes
from cdc_core.position import EntryPosition, LogPosition
from orchestration.stack.mysql.server import MySqlServer
from tests.support.captures import claim, config, execute, running

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


def test_a_source_that_is_away_is_named() -> None:
    """The error says which."""
    from cdc_core.source.settings import SourceSettings

    with pytest.raises(SourceUnavailable):
        positions(SourceSettings("127.0.0.1", 9, "u", "p"), Cursors(MemoryNodes(), "shop"), time.time)
