"""Small tables loaded many at a time, from real servers and without Spark: as each would be alone, whatever goes wrong
with one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

from cdc_core.errors import DecodeError, SessionError
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.lake.state import FENCE
from spark_jobs.load import cutover, registration, small_reader
from spark_jobs.load.loader import Loader
from spark_jobs.load.reader import Read
from spark_jobs.load.result import Copied, NoSuchTable
from spark_jobs.load.several import SoFar
from tests.support.shop import Shop
from tests.support.small_tables import ROWS, TABLES, check, check_all, loaded, loader_of, named, opened_small

pytestmark = pytest.mark.integration


@pytest.fixture
def shop(mysql8: MySqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """Leases end soon."""
    monkeypatch.setattr(registration, "LEASE_SECONDS", 4.0)
    with opened_small(mysql8, tmp_path) as shop:
        yield shop


@pytest.fixture
def loader(shop: Shop, tmp_path: Path) -> Loader:
    return loader_of(shop, tmp_path)


class AtCall:
    """Does something before some call of a function, once, and calls it then."""

    def __init__(self, function: Callable[..., Any], at: int, then: Callable[..., object]) -> None:
        self.calls, self._function, self._at, self._then = 0, function, at, then

    def __call__(self, *given: Any, **named: Any) -> Any:
        self.calls += 1
        if self.calls == self._at:
            self._then(*given)
        return self._function(*given, **named)


@pytest.mark.in_turn
def test_small_tables_are_read_at_one_place(loader: Loader, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """None is loaded by itself; all have one low and one high, and progress counts tables and rows."""
    monkeypatch.setattr(Loader, "table", None)
    monkeypatch.setattr("spark_jobs.load.several._REPORT_SECONDS", 0.0)
    seen: list[SoFar] = []
    found = loaded(loader, named(shop), seen.append)
    assert [type(one) for one in found.values()] == [Copied] * TABLES
    assert len({one.place for one in found.values()}) == 1
    check_all(shop)
    assert (seen[0].tables, seen[0].of_tables) == (0, TABLES)
    assert seen[-1].rows == TABLES * ROWS
    assert [one.tables for one in seen] == sorted(one.tables for one in seen)
    again = loaded(loader, named(shop))  # they take the place of what is there
    assert {one.rows for one in again.values()} == {ROWS}
    check_all(shop)


def test_a_claim_is_held_for_seconds(loader: Loader, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it had no time for waits for the next one."""
    monkeypatch.setattr(Loader, "table", None)
    monkeypatch.setattr(cutover, "_HELD_SECONDS", -1.0)
    tables = AtCall(cutover.Cutover.tables, 0, print)
    monkeypatch.setattr(cutover.Cutover, "tables", lambda *given: tables(*given))
    found = loaded(loader, named(shop))
    assert [type(one) for one in found.values()] == [Copied] * TABLES
    assert tables.calls == TABLES
    check_all(shop)


def test_tables_of_every_kind(loader: Loader, shop: Shop) -> None:
    """Foreign keys, generated columns, other character sets and odd names, without a key, empty, and none at all."""
    shop.execute(
        "CREATE TABLE child (id INT PRIMARY KEY, a INT, FOREIGN KEY (a) REFERENCES t0 (a) ON DELETE CASCADE)",
        "INSERT INTO child VALUES (1, 1), (2, 2), (3, NULL)",
        "CREATE TABLE made (id INT PRIMARY KEY, n INT, twice INT AS (n * 2) STORED, thrice INT AS (n * 3) VIRTUAL)",
        "INSERT INTO made (id, n) VALUES (1, 10), (2, NULL)",
        "CREATE TABLE latin (k VARCHAR(9) COLLATE latin1_swedish_ci PRIMARY KEY, v TEXT CHARACTER SET gbk)",
        "INSERT INTO latin VALUES ('é', '汉'), ('Ü', NULL), ('', '')",
        "CREATE TABLE copies (a INT, v VARCHAR(9))",
        "INSERT INTO copies VALUES (1, 'x'), (1, 'x'), (NULL, NULL)",
        "CREATE TABLE nothing (id INT PRIMARY KEY)",
        "CREATE TABLE nothing_twice (id INT)",
        "CREATE TABLE `we``ird na.me` (`a b` INT PRIMARY KEY, `ü` DATETIME(6))",
        "INSERT INTO `we``ird na.me` VALUES (1, '2024-05-06 07:08:09.000010')",
        "CREATE VIEW shown AS SELECT a FROM t0",
    )
    tables = ["child", "made", "latin", "copies", "nothing", "nothing_twice"]
    found = loaded(loader, [f"{shop.database}.{name}" for name in (*tables, "nowhere", "shown")])
    assert {name: one.rows for name, one in found.items() if isinstance(one, Copied)} == {
        "child": 3, "made": 2, "latin": 3, "copies": 3, "nothing": 0, "nothing_twice": 0,
    }  # fmt: skip
    assert isinstance(found["nowhere"], NoSuchTable)
    assert "it is a view" in str(found["shown"])
    check(shop, *tables)


def test_a_table_that_turns_out_large_is_read_in_chunks(
    loader: Loader, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only that one: the server's estimate of it was wrong."""
    shop.execute("INSERT INTO t3 SELECT a + 1000, v FROM t3", "INSERT INTO t3 SELECT a + 2000, v FROM t3")
    monkeypatch.setattr(small_reader, "MOST_ROWS", ROWS // 2)
    seen: list[Read] = []
    found = loaded(loader, named(shop), lambda so_far: seen.append(so_far.read) if so_far.read else None)
    assert found["t3"].rows == 4 * ROWS
    assert {read.table for read in seen} == {f"{shop.database}.t3"}
    assert max(read.chunks for read in seen) == 4 * ROWS // 30 + 1
    check_all(shop)


def test_a_source_that_ends_connections(loader: Loader, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next tables are read over others, and that one once more."""

    def kill(connection: Any, *_: Any) -> None:
        shop.mysql.execute(f"KILL {connection.thread_id()}")

    for at in (1, 4):
        monkeypatch.setattr(small_reader, "read_rows", AtCall(small_reader.read_rows, at, kill))
    found = loaded(loader, named(shop))
    assert [type(one) for one in found.values()] == [Copied] * TABLES
    check_all(shop)


@pytest.mark.parametrize("at", [1, 5])
def test_a_table_that_is_dropped_meanwhile(
    loader: Loader, shop: Shop, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """Before it is read, or after that. The others are loaded; it is reported as any such table is."""
    drop = lambda *_: shop.execute("DROP TABLE t0")  # noqa: E731
    monkeypatch.setattr(small_reader, "read_rows", AtCall(small_reader.read_rows, at, drop))
    found = loaded(loader, named(shop))
    assert isinstance(found.pop("t0"), NoSuchTable)
    assert [type(one) for one in found.values()] == [Copied] * (TABLES - 1)
    assert shop.connector.client_status().snapshots == ()  # a sensor would load it again and again
    check_all(shop, "t0")
    assert not shop.lake.lake.has(shop.database, "t0")


def test_a_table_that_is_altered_meanwhile(loader: Loader, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is begun again, with the new column; the others do not wait for it."""
    alter = lambda *_: shop.execute("ALTER TABLE t0 ADD COLUMN more INT DEFAULT 7")  # noqa: E731
    monkeypatch.setattr(small_reader, "read_rows", AtCall(small_reader.read_rows, 5, alter))
    found = loaded(loader, named(shop))
    assert [type(one) for one in found.values()] == [Copied] * TABLES
    assert [*found][-1] == "t0"
    check_all(shop)
    columns = shop.lake.lake.state(shop.lake.lake.path(shop.database, "t0"), "")
    assert columns is not None
    assert [column.name for column in columns.columns] == ["a", "v", "more"]


def test_a_commit_that_comes_in_between(loader: Loader, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a table that is there: nothing is lost, and it is tried again; the others are there at once."""
    loaded(loader, named(shop))
    path, real = shop.lake.lake.path(shop.database, "t2"), cutover.entered
    met: list[int] = []

    def entered(*given: Any) -> Any:
        found = real(*given)
        if given[0].table == "t2" and not met:
            met.append(1)
            write_deltalake(path, DeltaTable(path).to_pyarrow_table().slice(0, 1), mode="append")
            DeltaTable(path).alter.set_table_properties({FENCE: "another"}, raise_if_not_exists=False)
        return found

    monkeypatch.setattr(cutover, "entered", entered)
    found = loaded(loader, named(shop))
    assert [type(one) for one in found.values()] == [Copied] * TABLES
    assert met
    assert [*found][-1] == "t2"
    check_all(shop)


def test_one_that_is_cancelled_stays_cancelled(loader: Loader, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not begun again after the others."""
    cancel = lambda *_: shop.connector.snapshots.cancel(f"{shop.database}.t1")  # noqa: E731
    monkeypatch.setattr(small_reader, "read_rows", AtCall(small_reader.read_rows, TABLES, cancel))
    found = loaded(loader, named(shop))
    assert isinstance(found.pop("t1"), SessionError)
    assert [type(one) for one in found.values()] == [Copied] * (TABLES - 1)
    assert not shop.lake.lake.has(shop.database, "t1")
    check_all(shop, "t1")


def test_a_refused_value_is_its_tables(loader: Loader, shop: Shop) -> None:
    """The error is that of a table by itself."""
    shop.execute(
        "SET SESSION sql_mode = ''", "CREATE TABLE zero (id INT PRIMARY KEY, d DATE)", "INSERT INTO zero VALUES (1, 0)"
    )
    found = loaded(loader, [f"{shop.database}.zero", *named(shop)])
    assert isinstance(found.pop("zero"), DecodeError)
    assert [type(one) for one in found.values()] == [Copied] * TABLES


def test_many_without_a_key_are_read_in_views(loader: Loader, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a place that is exact. One that is written between the place and its view is read by itself."""
    for number in range(5):
        shop.execute(f"CREATE TABLE c{number} (a INT)", f"INSERT INTO c{number} VALUES (1), (1), (2)")
    write = lambda *_: shop.execute("INSERT INTO c3 VALUES (1)")  # noqa: E731
    monkeypatch.setattr(small_reader, "view_behind", AtCall(small_reader.view_behind, 1, write))
    found = loaded(loader, [f"{shop.database}.c{number}" for number in range(5)])
    assert {name: one.rows for name, one in found.items()} == {"c0": 3, "c1": 3, "c2": 3, "c4": 3, "c3": 4}
    assert all(one.place.low == one.place.high for one in found.values())
    tables = [f"c{number}" for number in range(5)]
    check(shop, *tables)
