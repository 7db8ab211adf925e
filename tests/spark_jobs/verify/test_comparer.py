"""Tables compared by checksums, against a real MySQL and a real service: what is wrong is found, and nothing else."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

from cdc_core.position import EntryPosition
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.load.hold import Hold, held
from spark_jobs.verify import comparer as comparing
from spark_jobs.verify import standing as standing_room
from spark_jobs.verify.comparer import TableComparer
from spark_jobs.verify.counts import counted
from spark_jobs.verify.verified import Comparison
from tests.support.shop import Shop, opened_shop
from tests.support.small_lake import brought, busy, found_beside, merged, source_of

pytestmark = pytest.mark.integration
NO_SPARK = "sc://127.0.0.1:1"


@pytest.fixture
def shop(mysql8: MySqlServer, tmp_path: Path) -> Iterator[Shop]:
    with opened_shop(mysql8, NO_SPARK, tmp_path) as shop:
        yield shop


def found(shop: Shop, table: str) -> tuple[int, ...]:
    """Rows of source and lake; missing, extra and different."""
    row = found_beside(shop, table)
    assert row.comparison is not None, row.error
    one = row.comparison
    return one.source_rows, one.lake_rows, one.missing, one.extra, one.different


def damage(path: str, *, id: int, **changed: object) -> None:
    """Changes a row of the lake, or takes it away where nothing is `changed`."""
    there = DeltaTable(path)
    row = there.to_pyarrow_table().filter(pa.compute.field("id") == id)
    there.delete(f"id = {id}")
    if changed:
        columns = {**row.to_pydict(), **{name: [value] for name, value in changed.items()}}
        write_deltalake(path, pa.table(columns, schema=row.schema), mode="append")


def values(n: int) -> str:
    return f"({n}, {n}.5, 'é{n}', '2024-01-01 00:00:00.5', {n}.25, x'0{n % 10}00', {n % 32}, '2024-01-01 00:00:01')"


@pytest.mark.in_turn
@pytest.mark.parametrize("server", ["mysql8", "mysql57", "mysql9", "mariadb"])
def test_each_kind_of_difference_is_reported(server: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Of 3,000 rows: missing, extra, a second copy, changed in each column, NULL against the empty text."""
    with opened_shop(request.getfixturevalue(server), NO_SPARK, tmp_path) as shop:
        shop.execute(
            "CREATE TABLE t (id INT UNSIGNED PRIMARY KEY, a DECIMAL(12,8), b VARCHAR(20) CHARACTER SET latin1, "
            "c DATETIME(3), d DOUBLE, e VARBINARY(9), f BIT(5), g TIMESTAMP(2) NULL)",
            f"INSERT INTO t VALUES {', '.join(map(values, range(1, 3001)))}",
            "UPDATE t SET b = '' WHERE id = 9",
        )  # fmt: skip
        path = brought(shop, "t")
        assert found(shop, "t") == (3000, 3000, 0, 0, 0)
        damage(path, id=1)
        damage(path, id=3, d=-3.25)
        damage(path, id=9, b=None)
        damage(path, id=4, e=b"\x04\x00\x00")
        extra = DeltaTable(path).to_pyarrow_table().filter(pa.compute.field("id") == 5)
        write_deltalake(path, extra, mode="append")
        write_deltalake(path, extra.set_column(0, "id", pa.array([9000], pa.int64())), mode="append")
        assert found(shop, "t") == (3000, 3001, 1, 2, 3)


def test_keys_that_differ_in_the_lake_alone(shop: Shop) -> None:
    """Case and trailing spaces are another key in the lake, and the same at the source."""
    shop.execute("CREATE TABLE t (k VARCHAR(9) PRIMARY KEY, v INT)", "INSERT INTO t VALUES ('Ab', 1), ('c', 2)")
    path = brought(shop, "t")
    DeltaTable(path).update({"k": "'aB'"}, predicate="k = 'Ab'")
    assert found(shop, "t") == (2, 2, 1, 1, 0)


def test_a_zero_date_in_a_key(shop: Shop) -> None:
    """It is NULL in the lake, so that several rows may have one key: they are counted as copies, the others by key."""
    zero = "SET SESSION sql_mode = 'ALLOW_INVALID_DATES'"
    shop.execute(
        zero,
        "CREATE TABLE t (d DATE PRIMARY KEY, v INT)",
        "INSERT INTO t VALUES ('0000-00-00', 1), ('2024-00-00', 1), ('2024-00-01', 3), ('2024-01-01', 4)",
    )
    path = brought(shop, "t")
    assert found(shop, "t") == (4, 4, 0, 0, 0)
    DeltaTable(path).update({"v": "2"}, predicate="v = 1")
    assert found(shop, "t") == (4, 4, 2, 2, 0)
    DeltaTable(path).update({"v": "5"}, predicate="v = 4")
    assert found(shop, "t") == (4, 4, 2, 2, 1)


def test_a_table_that_the_lake_has_not(shop: Shop) -> None:
    """All of its rows are missing; of an empty one nothing is."""
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE e (id INT)", "INSERT INTO t VALUES (1), (2)")
    shop.skip()
    assert found(shop, "t") == (2, 0, 2, 0, 0)
    assert found(shop, "e") == (0, 0, 0, 0, 0)


def test_many_rows_differ(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are counted by whole buckets, in parts, and the table is to be reloaded."""
    monkeypatch.setattr("spark_jobs.verify.candidates._MOST_ROWS", 100)
    monkeypatch.setattr("spark_jobs.verify.counts._ROWS_AT_ONCE", 500)
    shop.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, v DOUBLE)",
        "INSERT INTO t VALUES " + ", ".join(f"({n}, 1e-{n % 300})" for n in range(3000)),
    )
    path = brought(shop, "t")
    there = DeltaTable(path)
    there.delete("id < 1000")
    there.update({"v": "v + 1"}, predicate="id < 1500")
    extra = there.to_pyarrow_table().filter(pa.compute.field("id") >= 2900)
    write_deltalake(path, extra, mode="append")
    assert found(shop, "t") == (3000, 2100, 1000, 100, 500)
    assert "sluice copy" in found_beside(shop, "t").remedy
    monkeypatch.setattr("spark_jobs.verify.counts._MOST", 1000)
    assert "more than 1000 rows differ" in found_beside(shop, "t").error


def test_a_table_that_no_snapshot_holds_still(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an engine without transactions: what is written while it is read is no difference."""
    shop.execute("CREATE TABLE t (v INT) ENGINE = MyISAM", "INSERT INTO t VALUES (1), (2), (3)")
    path = brought(shop, "t")
    DeltaTable(path).delete("v = 3")
    writes = iter([["INSERT INTO t VALUES (4)"]])

    def written_first(*given: Any) -> Comparison:
        shop.execute(*next(writes, []))
        return counted(*given)

    monkeypatch.setattr("spark_jobs.verify.audit.counted", written_first)
    assert found(shop, "t") == (3, 2, 1, 0, 0)
    assert next(writes, None) is None


def test_columns_that_are_not_those_of_the_source(shop: Shop) -> None:
    """The others are compared, by the key; the definition says what is wrong. Values that the source's type does not
    have are different ones."""
    shop.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, a TINYINT, b VARCHAR(9), c INT)",
        "INSERT INTO t VALUES (1, 1, 'x', 1), (2, 2, 'y', 2)",
    )
    path = brought(shop, "t")
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "a": pa.array([1, 300], pa.int32()), "b": [1, 2], "d": [1, 2]})
    write_deltalake(path, rows, mode="overwrite", schema_mode="overwrite")
    row = found_beside(shop, "t")
    assert (row.comparison, len(row.definition), row.repairable) == (Comparison(2, 2, 0, 0, 1), 3, False)


def test_a_statement_while_the_lake_is_awaited(shop: Shop) -> None:
    """The lake follows it a moment after the source: no difference. One that lasts is reported."""
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    path = brought(shop, "t")
    shop.execute("CREATE TABLE other (id INT PRIMARY KEY)", "INSERT INTO other VALUES (1)")  # the lake is behind this
    steps = iter(["alter", "follow"])

    def sleep(_: float) -> None:
        step = next(steps, None)
        if step == "alter":
            end = EntryPosition(*shop.mysql.position())
            shop.execute("ALTER TABLE t ADD COLUMN c INT")
            while not shop.reached(end):
                with shop.connector.claim(1, owner="drain", timeout_seconds=1):
                    pass
        elif step == "follow":
            DeltaTable(path).alter.add_columns([Field("c", PrimitiveType("integer"))])
            shop.skip()
        else:
            time.sleep(0.1)

    beside = TableComparer(shop.connector, source_of(shop), shop.lake.lake, timeout_seconds=60, sleep=sleep)
    row = beside.table(shop.database, "t")
    assert (row.definition, row.error, row.differences) == ((), "", 0)
    assert next(steps, None) is None
    shop.execute("ALTER TABLE t ADD COLUMN d INT")
    shop.skip()
    assert beside.table(shop.database, "t").definition == ("the lake has no column 'd'",)


MEANWHILE = {  # where a statement runs while the table is compared, the statement, and what is found then
    "renamed": ("shared", "ALTER TABLE t RENAME COLUMN id TO k", "", Comparison(1, 1, 0, 0, 0)),
    "unknown column": ("audit", "ALTER TABLE t DROP COLUMN c", "", Comparison(1, 1, 0, 0, 0)),
    "dropped": ("_rows", "DROP TABLE u", "does not exist", None),
    "no table": ("audit", "DROP TABLE t", "does not exist", None),
    "made": ("_rows", "RENAME TABLE t TO v, u TO t, v TO u", "", Comparison(1, 1, 0, 0, 0)),
}


@pytest.mark.parametrize("case", MEANWHILE)
def test_a_statement_while_the_table_is_compared(shop: Shop, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    """Whatever it makes of the comparison, a difference or an error, is no answer: it is compared once more, when the
    lake has followed."""
    where, statement, error, comparison = MEANWHILE[case]
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, c INT)", "CREATE TABLE u (id INT PRIMARY KEY, c INT)")
    shop.execute("INSERT INTO t VALUES (1, 1)", "INSERT INTO u VALUES (1, 1)")
    path, steps = brought(shop, "t"), iter(["run", "follow"])
    if case == "renamed":
        shop.execute("ALTER TABLE t DROP COLUMN c")
        write_deltalake(path, pa.table({"id": pa.array([1], pa.int32())}), mode="overwrite", schema_mode="overwrite")
        shop.skip()
    real = getattr(comparing, where)

    def runs(*given: Any, **more: Any) -> Any:
        if where == "_rows":  # the rows are counted before it
            counted_before = real(*given, **more)
        if next(steps, None) == "run":
            shop.execute(statement)
            shop.skip()
        return counted_before if where == "_rows" else real(*given, **more)

    def follows(_: float) -> None:
        step = next(steps, None)
        if step == "follow" and case == "renamed":
            rows = pa.table({"k": pa.array([1], pa.int32())})
            write_deltalake(path, rows, mode="overwrite", schema_mode="overwrite")
        elif step == "follow" and case == "unknown column":
            rows = pa.table({"id": pa.array([1], pa.int32())})
            write_deltalake(path, rows, mode="overwrite", schema_mode="overwrite")
        elif step == "follow" and case == "made":
            brought(shop, "u")
        time.sleep(0.1)

    monkeypatch.setattr(comparing, where, runs)
    beside = TableComparer(shop.connector, source_of(shop), shop.lake.lake, timeout_seconds=60, sleep=follows)
    row = beside.table(shop.database, "u" if where == "_rows" else "t")
    assert next(steps, None) is None
    assert (row.comparison, row.definition) == (comparison, ())
    assert error in row.error


def test_zero_dates_as_text(mysql8: MySqlServer, tmp_path: Path) -> None:
    """Under `string` they are compared as the server prints them, as a key too."""
    zero = "SET SESSION sql_mode = 'ALLOW_INVALID_DATES'"
    with opened_shop(mysql8, NO_SPARK, tmp_path, sluice_zero_dates="string") as shop:
        shop.execute(
            zero,
            "CREATE TABLE t (d DATE PRIMARY KEY, v DATETIME(2))",
            "INSERT INTO t VALUES ('0000-00-00', '2024-00-01'), ('2023-02-31', NULL), ('2024-01-01', 20240101)",
        )
        path = brought(shop, "t", as_text=True)
        assert found(shop, "t") == (3, 3, 0, 0, 0)
        DeltaTable(path).update({"v": "'x'"})
        assert found(shop, "t") == (3, 3, 0, 0, 3)


@pytest.mark.in_turn
def test_nothing_rests(mysql8: MySqlServer, tmp_path: Path) -> None:
    """Others write the same rows all the time, back and forth, and a run applies them. Wrong rows are reported, and
    no other, although the lake is behind."""
    with opened_shop(mysql8, NO_SPARK, tmp_path) as shop:
        shop.execute(
            "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
            "INSERT INTO t VALUES " + ", ".join(f"({n}, 0)" for n in range(2000)),
        )
        path = brought(shop, "t")
        DeltaTable(path).delete("id IN (1000, 1001)")
        DeltaTable(path).update({"v": "7"}, predicate="id IN (1500, 1501, 1502)")
        with busy(lambda: written(shop, "t"), lambda: merged(shop, "t")):
            for _ in range(3):
                assert found(shop, "t")[2:] == (2, 0, 3)


@pytest.mark.in_turn
def test_nothing_rests_without_a_key(mysql8: MySqlServer, tmp_path: Path) -> None:
    """The same of rows that are counted, and of many that differ in a table with a key, by an account that may keep
    writes waiting for a moment."""
    with opened_shop(mysql8, NO_SPARK, tmp_path) as shop, pytest.MonkeyPatch.context() as patched, locking(mysql8):
        patched.setattr("spark_jobs.verify.candidates._MOST_ROWS", 1)
        rows = ", ".join(f"({n}, 0)" for n in range(2000))
        for table, key in (("k", " PRIMARY KEY"), ("n", "")):
            shop.execute(f"CREATE TABLE {table} (id INT{key}, v INT)", f"INSERT INTO {table} VALUES {rows}")
        for table, different in (("k", (2, 0, 3)), ("n", (5, 3, 0))):
            path = brought(shop, table)
            DeltaTable(path).delete("id IN (1000, 1001)")
            DeltaTable(path).update({"v": "7"}, predicate="id IN (1500, 1501, 1502)")
            with busy(partial(written, shop, table), partial(merged, shop, table)):
                for _ in range(3):
                    assert found(shop, table)[2:] == different


def test_a_table_that_never_rests_says_what_is_missing(mysql8: MySqlServer, tmp_path: Path) -> None:
    """By an account that may not lock. The drain waits for one try at a time, not for twenty."""
    with opened_shop(mysql8, NO_SPARK, tmp_path) as shop:
        rows = ", ".join(f"({n}, 0)" for n in range(2000))
        shop.execute("CREATE TABLE n (id INT, v INT)", f"INSERT INTO n VALUES {rows}")
        DeltaTable(brought(shop, "n")).delete("id IN (1000, 1001)")
        with busy(partial(written_at_once, shop, "n"), partial(merged, shop, "n")):
            row = found_beside(shop, "n", seconds=5)
        assert row.comparison is None
        assert "other writers keep writing the table" in row.error
        assert "LOCK TABLES" in row.error


@pytest.mark.parametrize("table", ["keyed", "child"])
@pytest.mark.parametrize("known", [True, False])
def test_the_drain_does_not_wait_for_a_transaction_that_lasts(
    mysql8: MySqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str, *, known: bool
) -> None:
    """A GTID is held for ever, as of a transaction that a replica applies. It is waited for before the claim is held,
    and the rows are compared; one that came later is given up for a while, and the error names it."""
    gtid, paused = "3e11fa47-71ca-11e1-9e33-c80aa9429562:23", {True: 0, False: 0}
    holding = [False]

    @contextmanager
    def noted(*given: Any, **more: Any) -> Iterator[Hold]:
        with held(*given, **more) as hold:
            holding[0] = True
            try:
                yield hold
            finally:
                holding[0] = False

    def pause(_: float) -> None:
        paused[holding[0]] += 1
        time.sleep(0.01)

    monkeypatch.setattr(standing_room, "held", noted)
    if not known:
        monkeypatch.setattr(standing_room, "lasting", lambda *_: frozenset())
    with opened_shop(mysql8, NO_SPARK, tmp_path) as shop, closing(mysql8.root()) as other, other.cursor() as cursor:
        shop.execute(
            "CREATE TABLE keyed (id INT PRIMARY KEY)",
            "INSERT INTO keyed VALUES (1), (2), (3)",
            "CREATE TABLE child (id INT, FOREIGN KEY (id) REFERENCES keyed (id))",
            "INSERT INTO child VALUES (1), (2), (3)",
        )
        DeltaTable(brought(shop, table)).delete("id = 2")
        cursor.execute(f"SET GTID_NEXT = '{gtid}'")
        comparer = TableComparer(shop.connector, source_of(shop), shop.lake.lake, timeout_seconds=1, sleep=pause)
        row = comparer.table(shop.database, table)
        cursor.execute("ROLLBACK")
        cursor.execute("SET GTID_NEXT = 'AUTOMATIC'")
    if known:
        assert row.comparison == Comparison(3, 2, 1, 0, 0), row.error
        assert paused[False] >= 50
    else:
        assert row.comparison is None
        assert gtid in row.error
        assert "not committed" in row.error
    assert paused[True] <= 20


@contextmanager
def locking(server: MySqlServer) -> Iterator[None]:
    """The account may lock tables."""
    server.execute("GRANT LOCK TABLES ON *.* TO 'sluice'@'%'")
    try:
        yield
    finally:
        server.execute("REVOKE LOCK TABLES ON *.* FROM 'sluice'@'%'")


TURNS = itertools.count()


def written_at_once(shop: Shop, table: str) -> None:
    """Changes without a pause between them, in which the table would rest."""
    with shop.mysql.root(shop.database) as connection, connection.cursor() as cursor:
        for nth in range(500):
            cursor.execute(f"UPDATE {table} SET v = {nth % 2} WHERE id = 20")
            connection.commit()


def written(shop: Shop, table: str) -> None:
    """A few changes of rows below 1000, there and back."""
    nth = next(TURNS)
    here = random.Random(nth).randrange(300)
    shop.execute(
        f"UPDATE {table} SET v = {nth % 2} WHERE id < 20",
        f"DELETE FROM {table} WHERE id = {here}",
        f"DELETE FROM {table} WHERE id = {here + nth % 3}",
        f"INSERT INTO {table} VALUES ({here + nth % 3}, {nth % 2})",
        f"UPDATE IGNORE {table} SET id = {10_000 + here} WHERE id = {here + 1} AND {nth} % 5 = 0",
        f"DELETE FROM {table} WHERE id = {10_000 + here} AND {nth} % 2 = 0",
    )
