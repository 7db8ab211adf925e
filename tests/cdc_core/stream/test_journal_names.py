"""A server whose journals have numbers of seven digits. Servers do not write a dot in the base name."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_core.meta.nodes import MemoryNodes
from tests.support.captures import config, drain, running
from tests.support.changes import changes, commit_xa, left, run, xa
from tests.support.servers import MySqlFactory

pytestmark = pytest.mark.integration


def test_from_999999_to_1000000(new_mysql: MySqlFactory) -> None:
    """Rows, a prepared transaction and the cursor cross over; a restart goes on from there."""
    server = new_mysql("8.0.31")
    with server.root() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@log_bin_basename, @@log_bin_index")
        found = cursor.fetchone()
        assert found is not None
        base, index = map(Path, found)
    server.process.stop()
    last = Path(index.read_text().splitlines()[-1]).name
    (base.parent / last).rename(base.parent / f"{base.name}.999998")
    index.write_text(f"./{base.name}.999998\n")
    server.start()
    assert server.position()[0] == "mysql-bin.999999"

    with server.database() as database:
        server.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "CREATE TABLE done (id INT)", database=database)
        journal, position = server.position()
        with server.root(database) as one:
            xa(one, "'x'", "INSERT INTO t VALUES (1, 10)")
        with server.root(database) as other:
            run(other, "INSERT INTO t VALUES (2, 20)", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (3, 30)")
            commit_xa(other, "'x'")
            run(other, "INSERT INTO done VALUES (1)")
        assert server.position()[0] == "mysql-bin.1000000"
        nodes, wanted = MemoryNodes(), config(server, database, journal_name=journal, position=position)
        with running(wanted, nodes) as capture:
            assert left(changes(capture)["t"]) == {1: 10, 2: 20, 3: 30}
        server.execute("INSERT INTO t VALUES (4, 40)", database=database)
        with running(wanted, nodes) as capture:
            assert drain(capture, 1) == 1
            assert str(capture.service.client(1001).cursor.journal_name) == "mysql-bin.1000000"
