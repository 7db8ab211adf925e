"""Rows that the source's foreign keys delete or change are followed in the lake, though no binlog has them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cdc_core import config
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.load import groups
from spark_jobs.load.loader import Loader
from spark_jobs.load.reader import Manner, Read
from spark_jobs.load.result import Copied
from spark_jobs.snapshot.limits import Limits
from tests.support.certificates import Authority
from tests.support.marks import tiers
from tests.support.shop import opened_shop, reading_source

pytestmark = pytest.mark.integration

_TABLES = (
    "CREATE TABLE a (id INT PRIMARY KEY, code VARCHAR(9) UNIQUE, v INT)",
    "CREATE TABLE b (id INT PRIMARY KEY, a INT, FOREIGN KEY (a) REFERENCES a (id) ON DELETE CASCADE ON UPDATE CASCADE)",
    "CREATE TABLE c (id INT PRIMARY KEY, b INT, FOREIGN KEY (b) REFERENCES b (id) ON DELETE SET NULL)",
    "CREATE TABLE d (id INT PRIMARY KEY, code VARCHAR(9), "
    "FOREIGN KEY (code) REFERENCES a (code) ON DELETE SET NULL ON UPDATE CASCADE)",
    "CREATE TABLE tree (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES tree (id) ON DELETE CASCADE)",
    "CREATE TABLE loose (a INT, FOREIGN KEY (a) REFERENCES a (id) ON DELETE CASCADE)",
)
_ROWS = (
    "INSERT INTO a VALUES (1, 'one', 0), (2, 'two', 0), (3, 'three', 0), (4, 'four', 0), (5, 'five', 0)",
    "INSERT INTO b VALUES (10, 1), (11, 1), (20, 2), (30, 3), (40, NULL), (50, 5)",
    "INSERT INTO c VALUES (100, 10), (110, 11), (200, 20), (300, 30)",
    "INSERT INTO d VALUES (1, 'ONE'), (2, 'two'), (4, 'Four')",
    "INSERT INTO tree VALUES (1, NULL), (2, 1), (3, 2), (4, 3), (5, NULL)",
    "INSERT INTO loose VALUES (5)",
)
_CHANGES = (
    "DELETE FROM a WHERE id = 1",
    "UPDATE a SET id = 22 WHERE id = 2",
    "DELETE FROM a WHERE id = 3",
    "INSERT INTO a VALUES (3, 'three', 1), (1, 'one', 1)",
    "INSERT INTO b VALUES (31, 3), (11, 1)",
    "UPDATE a SET code = 'vier' WHERE id = 4",
    "DELETE FROM tree WHERE id = 1",
)
_LATE = (
    "INSERT INTO tree VALUES (6, 5), (7, 6)",
    "DELETE FROM a WHERE id = 4",
    "ALTER TABLE d DROP FOREIGN KEY d_ibfk_1",
    "DELETE FROM tree WHERE id = 5",
    "RENAME TABLE tree TO wood",
    "UPDATE a SET id = 33 WHERE id = 3",
    "DELETE FROM b WHERE id = 20",
    "ALTER TABLE b CHANGE id number INT, CHANGE a of_a INT",
)
_BETWEEN = (
    "UPDATE c SET v = 'new' WHERE id % 7 = 0",
    "DELETE FROM p WHERE id < 5",
    "INSERT INTO p VALUES (3, 'code 3')",
    "INSERT INTO c VALUES (1003, 3, 'code 3', 'back')",
    "UPDATE p SET id = 1000 + id WHERE id BETWEEN 5 AND 9",
    "UPDATE p SET code = CONCAT('new ', code) WHERE id BETWEEN 10 AND 14",
    "UPDATE c SET v = 'last' WHERE id % 11 = 0",
)
_ALL_OF_IT = ("8.0.31", "mariadb")
_ALL = ("a", "b", "c", "d", "tree", "loose")
_THEN = ("a", "b", "c", "d", "wood", "loose")


@pytest.mark.in_turn
@pytest.mark.parametrize("version", tiers(["9"], full=["mariadb", "5.7.22", "8.0.31"]))
def test_cascades_reach_the_lake(
    version: str, request: pytest.FixtureRequest, spark_remote: str, tmp_path: Path
) -> None:
    """ON DELETE and ON UPDATE, CASCADE and SET NULL, over several tables, a table of itself, a key that is not the
    primary one; a parent that comes back does not bring its rows back, nor does a row that has a parent and rows of its
    own. A table without a key is copied. A run that
    comes late follows keys that are gone by then, or whose tables and columns have other names (MySQL 8.0, MariaDB)."""
    names = {"8.0.31": "mysql8", "5.7.22": "mysql57", "9": "mysql9", "mariadb": "mariadb"}
    mysql: MySqlServer = request.getfixturevalue(names[version])
    with opened_shop(mysql, spark_remote, tmp_path) as plain, reading_source(plain) as shop:
        shop.execute(*_TABLES, *_ROWS)
        assert shop.drain() == []
        shop.execute(*_CHANGES)
        assert shop.drain() == []
        assert shop.differences(*_ALL) == dict.fromkeys(_ALL, (0, 0, 0))
        shop.execute("DELETE FROM a WHERE id = 5")
        assert shop.drain() == []
        assert shop.differences(*_ALL) == dict.fromkeys(_ALL, (0, 0, 0))
        if version not in _ALL_OF_IT:
            return
        shop.execute(*_LATE)
        assert shop.drain() == []
        assert shop.differences(*_THEN) == dict.fromkeys(_THEN, (0, 0, 0))


@pytest.mark.in_turn
@pytest.mark.full
def test_rows_below_a_stopped_table_follow(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> None:
    """Nobody knows which keys the stopped table lost, so all rows below it are looked up; also over TLS."""
    (authority := Authority(tmp_path)).issue()
    with opened_shop(mysql8, spark_remote, tmp_path, authority) as plain, reading_source(plain) as shop:
        shop.execute(
            "CREATE TABLE p (id INT PRIMARY KEY)",
            "CREATE TABLE c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE)",
            "CREATE TABLE g (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES c (id) ON DELETE CASCADE)",
            "INSERT INTO p VALUES (1), (2)",
            "INSERT INTO c VALUES (3, 1), (4, 2)",
            "INSERT INTO g VALUES (5, 3), (6, 4)",
        )
        assert shop.drain() == []
        cursor = shop.connector.client_status().cursor
        assert cursor is not None
        shop.connector.stop_table(f"{shop.database}.c", reason="by hand", hint="none", position=cursor)
        shop.execute("UPDATE c SET p = 1 WHERE id = 4", "DELETE FROM p WHERE id = 1")
        assert shop.drain() == []
        assert shop.differences("p", "g") == {"p": (0, 0, 0), "g": (0, 0, 0)}


@pytest.mark.in_turn
@pytest.mark.parametrize("version", ["8.0.31", pytest.param("mariadb", marks=pytest.mark.full)])
def test_a_snapshot_has_what_cascades_changed_meanwhile(
    version: str,
    request: pytest.FixtureRequest,
    spark_remote: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows that were read before a foreign key deleted or changed them at the source, of a table that the lake does not
    have; by the key and by a text, with a parent that comes back, and rows that others change as well."""
    names = {"8.0.31": "mysql8", "mariadb": "mariadb"}
    mysql: MySqlServer = request.getfixturevalue(names[version])
    monkeypatch.setattr(groups, "ROWS_PER_GROUP", 1)
    with mysql.database("cascades") as database:
        rows = ", ".join(f"({number}, 'code {number}')" for number in range(40))
        children = ", ".join(f"({number}, {number % 40}, 'Code {number % 40}', 'old')" for number in range(400))
        mysql.execute(
            "CREATE TABLE p (id INT PRIMARY KEY, code VARCHAR(20) UNIQUE)",
            "CREATE TABLE c (id INT PRIMARY KEY, p INT, code VARCHAR(20), v VARCHAR(9), "
            "FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE ON UPDATE CASCADE, "
            "FOREIGN KEY (code) REFERENCES p (code) ON DELETE SET NULL ON UPDATE CASCADE)",
            f"INSERT INTO p VALUES {rows}",
            f"INSERT INTO c VALUES {children}",
            database=database,
        )
        regex = rf"{database}\\..*"
        with (
            opened_shop(mysql, spark_remote, tmp_path, canal_instance_filter_regex=regex) as plain,
            reading_source(replace(plain, database=database)) as shop,
        ):
            instance, _ = config.load_instance(tmp_path / "conf", "shop")
            manner = Manner(40, Limits(connections=2), read_on="driver")
            taken = Loader(shop.connector, instance, shop.lake.lake, shop.lake.sessions, manner)
            assert isinstance(taken.table(database, "p"), Copied)
            begun: list[int] = []

            def between(read: Read) -> None:
                begun.append(read.chunks)
                if len(begun) == 4:
                    shop.execute(*_BETWEEN)
                    assert shop.drain() == []

            found = taken.table(database, "c", report=between)
            assert isinstance(found, Copied)
            assert begun == sorted(begun)  # it did not begin anew
            assert shop.drain() == []
            assert shop.differences("p", "c") == {"p": (0, 0, 0), "c": (0, 0, 0)}


@pytest.mark.in_turn
def test_a_table_below_itself_whose_images_leave_columns_out(
    mysql8: MySqlServer, spark_remote: str, tmp_path: Path
) -> None:
    """The images do not show which rows are below the one that goes: the run copies the table, each time."""
    with opened_shop(mysql8, spark_remote, tmp_path) as plain, reading_source(plain) as shop:
        minimal = "SET SESSION binlog_row_image = MINIMAL"
        shop.execute(
            minimal,
            "CREATE TABLE tree (id INT PRIMARY KEY, up INT, n INT, "
            "FOREIGN KEY (up) REFERENCES tree (id) ON DELETE CASCADE)",
            "INSERT INTO tree VALUES (1, NULL, 0), (2, 1, 0), (3, NULL, 0), (4, 3, 0)",
        )
        assert shop.drain() == []
        for gone in (3, 1):
            shop.execute(minimal, f"DELETE FROM tree WHERE id = {gone}")
            assert shop.drain() == []
            assert shop.differences("tree") == {"tree": (0, 0, 0)}
