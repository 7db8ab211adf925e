"""From MySQL's binlog into Delta by the real parts, in this process but for Spark, compared with the source."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from deltalake import DeltaTable

from cdc_core import config
from cdc_core.client.connector import Connector
from cdc_core.doors.flight import FlightDoor
from cdc_core.doors.http import HttpDoor
from cdc_core.position import EntryPosition
from cdc_core.server import CanalServer
from orchestration.applier import SparkLake
from orchestration.checks import judge
from orchestration.stack.mysql import MySqlServer
from spark_jobs.fence import Fence
from spark_jobs.lake import Lake
from spark_jobs.session import Sessions
from spark_jobs.verify import Reader, Source, verify
from tests.door_double import opened

pytestmark = pytest.mark.integration


class CheckFailed(Exception):
    """A gate said no."""


@dataclass
class Shop:
    """A source, its service and a lake."""

    mysql: MySqlServer
    database: str
    connector: Connector
    lake: SparkLake

    def execute(self, *statements: str) -> None:
        self.mysql.execute(*statements, database=self.database)

    def drain(self, batch_size: int = 1000) -> list[str]:
        """Claims, applies, judges, notes and acks until nothing is left; tables that stopped."""
        stopped: list[str] = []
        while True:
            with self.connector.claim(batch_size, owner="test", timeout_seconds=2) as claim:
                if claim is None:
                    return stopped
                results = self.lake.apply(claim, "test", 2, stopped)
                failed = [one.verdict.text for one in judge(claim, results) if not one.verdict.passed]
                if failed:
                    raise CheckFailed("; ".join(failed))
                stopped += [result.table for result in results if result.stop]
                self.lake.note(claim, results, "test")

    def differences(self, *tables: str) -> dict[str, tuple[int, int, int]]:
        """Missing, extra and different rows by table."""
        where = Source(self.mysql.host, self.mysql.port, self.mysql.user, self.mysql.password)
        reader = Reader("shop", self.connector.client_id, self.connector.client_state()["epoch"], self._cursor)
        named = [(self.database, table) for table in tables]
        found = verify(where, named, self.lake.lake, reader, timeout_seconds=30)
        return {str(row["table"]).partition(".")[2]: (row["missing"], row["extra"], row["different"]) for row in found}

    def _cursor(self) -> EntryPosition | None:
        cursor = self.connector.client_state()["cursor"]
        return EntryPosition.from_dict(cursor) if cursor else None


@pytest.fixture
def shop(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> Iterator[Shop]:
    with opened_shop(mysql8, spark_remote, tmp_path) as shop:
        yield shop


@contextmanager
def opened_shop(mysql: MySqlServer, spark_remote: str, tmp_path: Path, **keys: str) -> Iterator[Shop]:
    """`keys`: lines of instance.properties more, `_` for `.`."""
    with mysql.database("merge") as database:
        journal, offset = mysql.position()
        conf = tmp_path / "conf"
        lines = {
            "canal.instance.master.address": f"{mysql.host}:{mysql.port}",
            "canal.instance.master.journal.name": journal,
            "canal.instance.master.position": offset,
            "canal.instance.dbUsername": mysql.user,
            "canal.instance.dbPassword": mysql.password,
            "canal.instance.filter.regex": f"{database}\\\\..*",
            **{key.replace("_", "."): value for key, value in keys.items()},
        }
        (conf / "shop").mkdir(parents=True)
        (conf / "canal.properties").write_text("canal.destinations = shop\n")
        text = "".join(f"{key} = {value}\n" for key, value in lines.items())
        (conf / "shop" / "instance.properties").write_text(text)
        server = CanalServer(config.load_service(conf)[0], conf)
        server.start()
        try:
            with (
                opened(HttpDoor(server, "127.0.0.1", 0)) as http,
                opened(FlightDoor(server, "127.0.0.1", 0)) as rows,
                Connector(http.url, "shop", flight_url=rows.url) as connector,
                Sessions(spark_remote) as sessions,
            ):
                _until_running(connector)
                lake = Lake(tmp_path / "lake", complete=True)
                yield Shop(mysql, database, connector, SparkLake(connector, lake, sessions, "", Fence(lake, sessions)))
        finally:
            server.stop()


def _until_running(connector: Connector) -> None:
    deadline = time.monotonic() + 30
    while connector.status()["state"] != "running":
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_the_lake_follows_the_source(shop: Shop) -> None:
    """Keys, no keys, odd names, changes of every kind, transactions over tables, in several batches."""
    shop.execute(
        "CREATE TABLE a (id BIGINT PRIMARY KEY, name VARCHAR(20), `odd name` INT, at DATETIME(3))",
        "CREATE TABLE b (x INT, y VARCHAR(20))",
        "INSERT INTO a VALUES (1,'a',1,NULL), (2,'b',2,'2026-01-01 00:00:00.5'), (3,'c',NULL,NULL), (4,'d',4,NULL)",
        "INSERT INTO b VALUES (1,'x'), (1,'x'), (1,'x'), (2,NULL), (2,NULL)",
    )
    assert shop.drain() == []
    assert shop.differences("a", "b") == {"a": (0, 0, 0), "b": (0, 0, 0)}
    shop.execute(
        "UPDATE a SET id = 9 WHERE id = 3",
        "UPDATE a SET `odd name` = 7 WHERE id = 1",
        "DELETE FROM a WHERE id = 2",
        "INSERT INTO a VALUES (2,'again',0,NULL)",
        "DELETE FROM b WHERE x = 1 LIMIT 2",
        "UPDATE b SET y = 'z' WHERE x = 2 LIMIT 1",
        "DELETE FROM a WHERE id = 4",
    )
    assert shop.drain(batch_size=2) == []
    assert shop.differences("a", "b") == {"a": (0, 0, 0), "b": (0, 0, 0)}


def test_nothing_is_acked_by_trying_again(shop: Shop) -> None:
    """A lake that lost a row behind our back fails its check as often as it is tried; the cursor stays."""
    shop.execute("CREATE TABLE a (id INT PRIMARY KEY, v INT)", "INSERT INTO a VALUES (1, 1), (2, 2)")
    shop.drain()
    acked = shop.connector.client_state()["acked"]
    DeltaTable(shop.lake.lake.path(shop.database, "a")).delete("id = 2")
    shop.execute("UPDATE a SET v = 3 WHERE id = 2")
    for _ in range(2):
        with pytest.raises(CheckFailed, match="grew by 1 rows in the lake, by 0 at the source"):
            shop.drain()
    assert shop.connector.client_state()["acked"] == acked


def test_old_rows_get_the_default_of_a_column_that_came(shop: Shop) -> None:
    """As at the source: constants of every kind are filled in, once."""
    shop.execute("CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1), (2)")
    shop.drain()
    shop.execute(
        "ALTER TABLE a ADD COLUMN n INT NOT NULL DEFAULT 7, ADD COLUMN s VARCHAR(9) DEFAULT 'it''s', "
        "ADD COLUMN d DECIMAL(8,2) DEFAULT -1.5, ADD COLUMN e ENUM('x','y') NOT NULL DEFAULT 'y', ADD COLUMN o INT, "
        "ADD COLUMN t DATETIME(3) DEFAULT '2024-02-29 01:02:03.5', ADD COLUMN i INT NOT NULL",
        "INSERT INTO a (id, n, i) VALUES (3, 8, 9)",
        "UPDATE a SET n = 1 WHERE id = 1",
    )
    assert shop.drain() == []
    assert shop.differences("a") == {"a": (0, 0, 0)}


@pytest.mark.parametrize("image", ["MINIMAL", "NOBLOB"])
def test_columns_that_images_leave_out_keep_their_values(shop: Shop, image: str) -> None:
    """Inserts with defaults, updates of one column each, changed keys, rows that come, change and go in one batch."""
    shop.execute(
        "CREATE TABLE a (id INT, part VARCHAR(9), n INT DEFAULT 5, s VARCHAR(20) DEFAULT 'it''s', t TEXT, "
        "d DECIMAL(8,2) NOT NULL DEFAULT 1.5, at TIMESTAMP(3) DEFAULT NOW(3) ON UPDATE NOW(3), j JSON, "
        "z INT NOT NULL, twice INT AS (n * 2) STORED, PRIMARY KEY (id, part))",
        "CREATE TABLE b (x INT, y INT DEFAULT 3, t TEXT)",
        "INSERT INTO a (id, part, n, t, j, z) VALUES (1,'a',1,'x','[1]',0), (2,'a',2,'y','{}',0), (3,'a',3,'z',NULL,0)",
        "INSERT INTO b VALUES (1, 1, 'one'), (1, 1, 'one'), (2, NULL, NULL)",
    )
    assert shop.drain() == []
    changes = (
        f"SET SESSION binlog_row_image = {image}, sql_mode = ''",
        "INSERT INTO a (id, part) VALUES (10, 'new'), (11, 'new'), (12, 'new')",
        "UPDATE a SET n = 7 WHERE id = 1",
        "UPDATE a SET t = 'other' WHERE id = 1",
        "UPDATE a SET s = NULL, id = 20 WHERE id = 1",
        "UPDATE a SET j = '{\"k\": 2}' WHERE id = 20",
        "UPDATE a SET id = 1 WHERE id = 2",
        "DELETE FROM a WHERE id = 3",
        "INSERT INTO a (id, part, t) VALUES (3, 'a', 'back')",
        "UPDATE a SET t = 'changed' WHERE id = 10",
        "DELETE FROM a WHERE id = 11",
        "UPDATE a SET part = 'moved', n = NULL WHERE id = 12",
        "INSERT INTO b (x) VALUES (1), (5)",
        "UPDATE b SET y = 9 WHERE x = 2",
        "UPDATE b SET t = 'z' WHERE x = 1 LIMIT 1",
        "DELETE FROM b WHERE x = 5",
    )
    shop.execute(*changes)
    assert shop.drain() == []
    assert shop.differences("a", "b") == {"a": (0, 0, 0), "b": (0, 0, 0)}
    shop.execute(
        changes[0], "UPDATE a SET z = z + 1", "UPDATE a SET id = id + 100 ORDER BY id DESC", "UPDATE b SET x = 0"
    )
    assert shop.drain(batch_size=2) == []
    assert shop.differences("a", "b") == {"a": (0, 0, 0), "b": (0, 0, 0)}


def test_an_update_of_a_row_that_the_lake_never_had_stops_its_table(shop: Shop) -> None:
    """What a minimal image leaves out is nowhere to be had; other tables go on."""
    shop.execute(
        "CREATE TABLE a (id INT PRIMARY KEY, v INT, w INT)",
        "CREATE TABLE b (id INT PRIMARY KEY)",
        "SET SESSION sql_log_bin = 0",
        "INSERT INTO a VALUES (1, 2, 3)",
        "SET SESSION sql_log_bin = 1, SESSION binlog_row_image = MINIMAL",
        "UPDATE a SET v = 5",
        "INSERT INTO b VALUES (1)",
    )
    assert shop.drain() == [f"{shop.database}.a"]
    assert shop.differences("b") == {"b": (0, 0, 0)}
