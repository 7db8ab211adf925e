"""From the binlog of MySQL into Delta by the real parts, compared with the source. Only Spark is another process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.lake import tables
from spark_jobs.write import ready, vectors
from tests.support.shop import Shop, opened_shop

pytestmark = pytest.mark.integration
_VECTORS = "numTargetDeletionVectorsAdded"


@pytest.fixture
def shop(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> Iterator[Shop]:
    with opened_shop(mysql8, spark_remote, tmp_path) as shop:
        yield shop


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("small", "share"),
    [(tables.SMALL_TABLE, 1.0), (-1, 0.0), (-1, 1.0)],
    ids=["a small table", "much of it changes", "deletion vectors"],
)
@pytest.mark.full
def test_the_lake_follows_the_source(shop: Shop, small: int, share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables with and without keys, odd names, changes of every kind and transactions over several tables arrive, in
    tables whose files a MERGE rewrites and in one that takes deletion vectors."""
    monkeypatch.setattr(tables, "SMALL_TABLE", small)
    if small < 0:
        monkeypatch.setattr(vectors, "MOST_BYTES", -1)
        monkeypatch.setattr(vectors, "LARGE_SHARE", share)
        monkeypatch.setattr(ready, "form_of", lambda *_: None)
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
    added = sum(commit.count(_VECTORS) for commit in shop.lake.lake.commits(shop.lake.lake.path(shop.database, "a")))
    assert (added > 0) == (small < 0 < share)


def test_by_key_the_lake_becomes_what_the_source_says(shop: Shop) -> None:
    """Rows that came or went without the source are mended where a change meets them; a warning counts and names
    them."""
    shop.execute("CREATE TABLE a (id INT PRIMARY KEY, v INT)", "INSERT INTO a VALUES (1, 1), (2, 2), (3, 3), (4, 4)")
    assert shop.drain() == []
    assert shop.warnings == []
    shop.execute("SET SESSION sql_log_bin = 0", "DELETE FROM a WHERE id = 4", "SET SESSION sql_log_bin = 1")
    DeltaTable(shop.lake.lake.path(shop.database, "a")).delete("id in (2, 3)")
    shop.execute("UPDATE a SET v = 7 WHERE id = 2", "DELETE FROM a WHERE id = 3", "UPDATE a SET v = 8 WHERE id = 1")
    assert shop.drain() == []
    shop.execute("INSERT INTO a VALUES (4, 9), (5, 5)")
    assert shop.drain() == []
    assert shop.differences("a") == {"a": (0, 0, 0)}
    assert [warning.text for warning in shop.warnings] == [
        "2 updates or deletes found no row",
        "1 inserts met a row in the lake",
    ]


@pytest.mark.in_turn
def test_zeros_of_both_signs_stay_apart(shop: Shop) -> None:
    """Keyless rows and keys of DOUBLE have the sign of the source's zero in the lake, and nothing stops."""
    shop.execute(
        "CREATE TABLE keyless (d DOUBLE, f FLOAT)",
        "CREATE TABLE keyed (d DOUBLE PRIMARY KEY, v INT)",
        "INSERT INTO keyless VALUES (0e0, 0e0), (-0e0, 0e0), (-0e0, 0e0), (NULL, -0e0)",
        "INSERT INTO keyed VALUES (0e0, 1), (1, 1)",
    )
    assert shop.drain() == []
    shop.execute(
        "UPDATE keyless SET d = -0e0 WHERE f = 0 AND d IS NOT NULL",
        "DELETE FROM keyless WHERE d IS NULL",
        "INSERT INTO keyless VALUES (0e0, -0e0)",
        "UPDATE keyed SET d = -0e0 WHERE d = 0",
    )
    assert shop.drain() == []
    assert shop.warnings == []
    for table, names in (("keyless", "d, f"), ("keyed", "d, v")):
        with shop.lake.sessions.take() as spark:
            found = spark.sql(f"SELECT {names} FROM delta.`{shop.lake.lake.path(shop.database, table)}`").collect()
        with shop.mysql.root(shop.database) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT {names} FROM {table}")
            assert Counter(repr(tuple(row)) for row in found) == Counter(repr(row) for row in cursor.fetchall())


def test_old_rows_get_the_default_of_a_column_that_came(shop: Shop) -> None:
    """A new column with a default fills the old rows once, as the source does, for constants of every kind."""
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


@pytest.mark.in_turn
@pytest.mark.parametrize("image", ["MINIMAL", pytest.param("NOBLOB", marks=pytest.mark.full)])
def test_columns_that_images_leave_out_keep_their_values(shop: Shop, image: str) -> None:
    """Partial images keep what they leave out: single columns, changed keys, rows that come and go in one batch. An
    image without any column is a row of defaults."""
    shop.execute(
        "CREATE TABLE a (id INT, part VARCHAR(9), n INT DEFAULT 5, s VARCHAR(20) DEFAULT 'it''s', t TEXT, "
        "d DECIMAL(8,2) NOT NULL DEFAULT 1.5, at TIMESTAMP(3) DEFAULT NOW(3) ON UPDATE NOW(3), j JSON, "
        "z INT NOT NULL, twice INT AS (n * 2) STORED, PRIMARY KEY (id, part))",
        "CREATE TABLE b (x INT, y INT DEFAULT 3, t TEXT)",
        "INSERT INTO a (id, part, n, t, j, z) VALUES (1,'a',1,'x','[1]',0), (2,'a',2,'y','{}',0), (3,'a',3,'z',NULL,0)",
        "INSERT INTO b VALUES (1, 1, 'one'), (1, 1, 'one'), (2, NULL, NULL)",
        f"CREATE TABLE c ({', '.join(f'c{n} INT DEFAULT {n}' for n in range(9))})",
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
        "INSERT INTO b () VALUES ()",
        "INSERT INTO c () VALUES ()",
        "INSERT INTO c () VALUES ()",
    )
    shop.execute(*changes)
    assert shop.drain() == []
    assert shop.differences("a", "b", "c") == dict.fromkeys("abc", (0, 0, 0))
    shop.execute(
        changes[0], "UPDATE a SET z = z + 1", "UPDATE a SET id = id + 100 ORDER BY id DESC", "UPDATE b SET x = 0"
    )
    assert shop.drain(batch_size=2) == []
    assert shop.differences("a", "b") == {"a": (0, 0, 0), "b": (0, 0, 0)}


def test_an_update_of_a_row_that_the_lake_never_had_stops_its_table(shop: Shop) -> None:
    """A minimal image of an unknown row stops its table, and other tables go on."""
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
