"""Columns that MariaDB logs and no SELECT shows, whatever the binlog says of names and leaves out of images."""

from __future__ import annotations

import pytest

from cdc_core.errors import TableStopped
from cdc_core.meta.nodes import MemoryNodes
from cdc_core.rows import net
from orchestration.stack.mysql.server import MySqlServer
from tests.support.captures import CLIENT, claim, config, running
from tests.support.matrix_runs import row_metadata

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("metadata", ["FULL", "MINIMAL", "NO_LOG"])
def test_the_hash_of_a_long_unique_key_is_left_out(mariadb: MySqlServer, metadata: str) -> None:
    """Also of images that leave columns out. Without names nobody knows which column it is: the table stops alone."""
    with mariadb.database() as database, running(config(mariadb, database), MemoryNodes()) as capture:
        with row_metadata(mariadb, metadata):
            mariadb.execute(
                "SET SESSION binlog_row_image = MINIMAL",
                "CREATE TABLE h (id INT PRIMARY KEY, t TEXT, n INT, u TEXT, UNIQUE (t), UNIQUE (u))",
                "CREATE TABLE plain (id INT PRIMARY KEY, n INT)",
                "INSERT INTO h (id, t) VALUES (1, 'a'), (2, 'b')",
                "UPDATE h SET n = 9 WHERE id = 1",
                "DELETE FROM h WHERE id = 2",
                "INSERT INTO plain VALUES (1, 1)",
                database=database,
            )
        rows: dict[str, list[dict[str, object]]] = {}
        stopped: dict[str, str] = {}
        while {f"{database}.h", f"{database}.plain"} - {*rows, *stopped}:
            part = claim(capture)
            slices = capture.service.slices(CLIENT, part.batch_id)
            for table in part.tables:
                try:
                    plan = net.plan_net(slices, capture.service.registry, table.name)
                    rows.setdefault(table.name, []).extend(row for one in net.read(plan) for row in one.to_pylist())
                except TableStopped as error:
                    stopped[table.name] = error.message
            capture.service.ack(CLIENT, part.batch_id, part.owner)
        assert rows[f"{database}.plain"]
        if metadata == "FULL":
            assert stopped == {}
            found = rows[f"{database}.h"]
            assert {"DB_ROW_HASH_1", "DB_ROW_HASH_2"}.isdisjoint(found[0])
            assert {"value": "a"} in [row["t"] for row in found]
        else:
            assert "are known neither from the schema history nor from the catalogue" in stopped[f"{database}.h"]
