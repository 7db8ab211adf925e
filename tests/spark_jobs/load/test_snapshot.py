"""Snapshots of tables that held rows before the capture, while others write and drain, by the real parts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from cdc_core import config
from cdc_core.errors import SluiceError
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.load import adopt, groups, registration
from spark_jobs.load.loader import Loader
from spark_jobs.load.reader import Manner, Read
from spark_jobs.load.result import Copied, NoSuchTable
from spark_jobs.snapshot.limits import Limits
from tests.support.shop import Shop, opened_shop
from tests.support.threads import Over, beside

pytestmark = [pytest.mark.integration, pytest.mark.full]

ROWS = 400


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of two chunks; leases that end soon."""
    monkeypatch.setattr(groups, "ROWS_PER_GROUP", 1)
    monkeypatch.setattr(registration, "LEASE_SECONDS", 5.0)


@contextmanager
def opened(mysql: MySqlServer, spark_remote: str, folder: Path, *tables: str, more: str = "") -> Iterator[Shop]:
    """A shop whose tables have rows of before the capture, and `more` columns."""
    with mysql.database("before") as database:
        rows = ", ".join(f"('k{number}', {number}, 'old')" for number in range(ROWS))
        for table in tables:
            key = "" if table == "copies" else ", PRIMARY KEY (b, a)"
            mysql.execute(
                f"CREATE TABLE {table} (a VARCHAR(9) COLLATE utf8mb4_general_ci, b INT, v VARCHAR(20){more}{key}) "
                "COMMENT 'of before'",
                f"INSERT INTO {table} (a, b, v) VALUES {rows}",
                database=database,
            )
        with opened_shop(mysql, spark_remote, folder, canal_instance_filter_regex=rf"{database}\\..*") as shop:
            shop.database = database
            yield shop


def snapshots(shop: Shop, folder: Path) -> Loader:
    instance, _ = config.load_instance(folder / "conf", "shop")
    manner = Manner(30, Limits(connections=2))
    return Loader(shop.connector, instance, shop.lake.lake, shop.lake.sessions, manner)


@contextmanager
def busy(shop: Shop, *tables: str) -> Iterator[None]:
    """Others write and drain meanwhile."""

    def write(over: Over) -> None:
        number = ROWS
        with shop.mysql.root(shop.database) as connection, connection.cursor() as cursor:
            while not over(0.1):
                number += 1
                for table in tables:
                    cursor.execute(f"INSERT INTO {table} VALUES ('K{number}', {number % ROWS}, 'new')")
                    cursor.execute(f"UPDATE {table} SET v = '{number}' WHERE b = {number * 7 % ROWS}")
                    cursor.execute(f"DELETE FROM {table} WHERE b = {number * 3 % ROWS} AND v = 'old'")

    def drain(over: Over) -> None:
        while not over(0.0):
            try:
                shop.batch(100_000)
            except SluiceError:  # the switch was in between; the batch comes again
                over(0.5)

    with beside(write, drain):
        yield


def test_tables_are_exact_while_others_write_and_drain(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> None:
    """With a key in chunks, without one in one view; and again, when they are in the lake. Those with a key are made of
    the staged files, also where changes are laid over them and where a table is there."""
    with opened(mysql8, spark_remote, tmp_path, "keyed", "copies") as shop:
        taken = snapshots(shop, tmp_path)
        seen: list[Read] = []
        mysql8.execute(f"GRANT LOCK TABLES ON *.* TO '{mysql8.user}'@'%'")  # for an exact place under writes
        try:
            with busy(shop, "keyed", "copies"):
                for table in ("keyed", "copies", "keyed"):
                    found = taken.table(shop.database, table, report=seen.append)
                    assert isinstance(found, Copied)
                    assert found.rows > ROWS // 2
                    assert table == "copies" or adopted(shop, table)  # Spark lays changes over rows without a key
        finally:
            mysql8.execute(f"REVOKE LOCK TABLES ON *.* FROM '{mysql8.user}'@'%'")
        assert max(read.chunks for read in seen if read.table.endswith("keyed")) >= ROWS // 30 // 2
        assert shop.drain() == []
        client = shop.connector.client_status()
        assert (client.stopped, client.snapshots) == ((), ())
        assert shop.differences("keyed", "copies") == {"keyed": (0, 0, 0), "copies": (0, 0, 0)}
        assert isinstance(taken.table(shop.database, "nowhere"), NoSuchTable)


def test_small_tables_are_exact_while_others_write_and_drain(
    mysql8: MySqlServer, spark_remote: str, tmp_path: Path
) -> None:
    """Many at a time, with a key and without one; and again, when they are in the lake and go on."""
    tables = [*(f"keyed{number}" for number in range(6)), "copies"]
    with opened(mysql8, spark_remote, tmp_path, *tables) as shop:
        taken, names = snapshots(shop, tmp_path), [f"{shop.database}.{table}" for table in tables]
        mysql8.execute(f"GRANT LOCK TABLES ON *.* TO '{mysql8.user}'@'%'")
        try:
            with busy(shop, *tables):
                for _ in range(2):
                    found = {loading.name: loading for loading in taken.tables(names)}
                    assert all(isinstance(one.outcome(), Copied) for one in found.values())
                    assert len([one for one in found.values() if one.seconds is not None]) >= len(tables) // 2
        finally:
            mysql8.execute(f"REVOKE LOCK TABLES ON *.* FROM '{mysql8.user}'@'%'")
        assert shop.drain() == []
        client = shop.connector.client_status()
        assert (client.stopped, client.snapshots) == ((), ())
        assert shop.differences(*tables) == dict.fromkeys(tables, (0, 0, 0))


def adopted(shop: Shop, table: str) -> bool:
    """Whether the table's last copy is made of files that were staged, and not of ones that Spark wrote."""
    lake = shop.lake.lake
    path = lake.path(shop.database, table)
    version = next(one.version for one in lake.commits(path) if '"copy":' in one.user_metadata)
    files = pa.table(lake.open(path, version).get_add_actions(flatten=True))["path"].to_pylist()
    return not [name for name in files if name.startswith("part-")]


@pytest.mark.in_turn
def test_a_new_table_is_made_of_the_staged_files(
    mysql8: MySqlServer, spark_remote: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first commit has all rows, in the files that were staged; the stream goes on with it. A switch that was
    killed after that commit is done again."""
    more = ", at DATETIME(3) DEFAULT '1582-10-01 00:00:00.125' COMMENT 'when', n DECIMAL(9,2) DEFAULT -1.25"
    with opened(mysql8, spark_remote, tmp_path, "t", "killed", more=more) as shop:
        taken, lake = snapshots(shop, tmp_path), shop.lake.lake
        assert isinstance(taken.table(shop.database, "t"), Copied)
        path = lake.path(shop.database, "t")
        state = lake.state(path, "")
        assert state is not None
        assert (state.version, state.complete, state.comment) == (1, True, "of before")
        assert {column.name: column.comment for column in state.columns}["at"] == "when"
        first = lake.open(path, 0)
        assert first.to_pyarrow_dataset().count_rows() == ROWS
        bounds = pa.table(first.get_add_actions(flatten=True))
        assert (min(bounds["min.b"].to_pylist()), max(bounds["max.b"].to_pylist())) == (0, ROWS - 1)

        with monkeypatch.context() as patched:
            patched.setattr(adopt, "_set_properties", killed)
            with pytest.raises(KeyboardInterrupt):
                taken.table(shop.database, "killed")
        assert isinstance(taken.table(shop.database, "killed"), Copied)

        for table in ("t", "killed"):
            shop.execute(
                f"UPDATE {table} SET v = 'later' WHERE b % 3 = 0",
                f"DELETE FROM {table} WHERE b % 5 = 0",
                f"INSERT INTO {table} (a, b, v) VALUES ('new', -1, 'new')",
            )
        assert shop.drain() == []
        assert shop.differences("t", "killed") == {"t": (0, 0, 0), "killed": (0, 0, 0)}


@pytest.mark.in_turn
def test_a_table_that_is_there_takes_the_staged_files(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> None:
    """Spark has written it, with deletion vectors, and its rows are wrong. Changes come while it is read. What Spark
    reads after it, and of before, is right, and the stream goes on."""
    with opened(mysql8, spark_remote, tmp_path, "t") as shop:
        taken, lake = snapshots(shop, tmp_path), shop.lake.lake
        path = lake.path(shop.database, "t")
        assert isinstance(taken.table(shop.database, "t"), Copied)
        with shop.lake.sessions.take() as spark:
            spark.sql(f"DELETE FROM delta.`{path}` WHERE b % 3 = 0")
            before = lake.open(path).version()
        changes = iter(["UPDATE t SET v = 'new' WHERE b % 7 = 0", "DELETE FROM t WHERE b % 5 = 0"])

        def meanwhile(read: Read) -> None:
            if read.chunks >= 4 and (change := next(changes, None)):
                shop.execute(change)
                if "DELETE" in change:
                    shop.drain()

        assert isinstance(taken.table(shop.database, "t", report=meanwhile), Copied)
        assert adopted(shop, "t")
        shop.execute("UPDATE t SET v = 'later' WHERE b % 11 = 0")
        assert shop.drain() == []
        assert shop.differences("t") == {"t": (0, 0, 0)}
        with shop.lake.sessions.take() as spark:
            counts = [
                spark.sql(f"SELECT count(*) FROM delta.`{path}` {version}").toArrow()[0][0].as_py()
                for version in ("", f"VERSION AS OF {before}")
            ]
        assert counts == [ROWS * 4 // 5, ROWS - (ROWS + 2) // 3]


def killed(*_: object) -> str:
    raise KeyboardInterrupt


def test_a_statement_that_is_followed_late_breaks_it_once(
    mysql8: MySqlServer, spark_remote: str, tmp_path: Path
) -> None:
    """The snapshot that is begun because of it has rows of the new definition alone: the ack changes nothing."""
    with opened(mysql8, spark_remote, tmp_path, "keyed") as shop:
        steps = iter([lambda: shop.execute("ALTER TABLE keyed ADD late INT", "UPDATE keyed SET late = b"), shop.drain])

        def step(read: Read) -> None:
            if read.chunks == 2:
                next(steps)()

        found = snapshots(shop, tmp_path).table(shop.database, "keyed", report=step)
        assert isinstance(found, Copied)
        assert next(steps, None) is None
        assert shop.drain() == []
        assert shop.differences("keyed") == {"keyed": (0, 0, 0)}
