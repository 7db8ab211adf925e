"""Rows that the source's foreign keys delete or change are followed in the lake, though no binlog has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestration.stack.mysql.server import MySqlServer
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
    "INSERT INTO b VALUES (31, 3)",
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
_ALL = ("a", "b", "c", "d", "tree", "loose")
_THEN = ("a", "b", "c", "d", "wood", "loose")


@pytest.mark.parametrize(
    "version", ["8.0.31", *(pytest.param(name, marks=pytest.mark.full) for name in ("5.7.22", "9", "mariadb"))]
)
def test_cascades_reach_the_lake(
    version: str, request: pytest.FixtureRequest, spark_remote: str, tmp_path: Path
) -> None:
    """ON DELETE and ON UPDATE, CASCADE and SET NULL, over several tables, a table of itself, a key that is not the
    primary one; a parent that comes back does not bring its rows back. A table without a key is copied. A run that
    comes late follows keys that are gone by then, or whose tables and columns have other names."""
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
        shop.execute(*_LATE)
        assert shop.drain() == []
        assert shop.differences(*_THEN) == dict.fromkeys(_THEN, (0, 0, 0))
