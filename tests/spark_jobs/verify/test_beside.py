"""Tables compared by checksums, against a real MySQL and a real service: what is wrong is told, and nothing else."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.verify.beside import Beside
from tests.support.shop import Shop, opened_shop
from tests.support.small_lake import briefly, brought, busy, merged, source_of

pytestmark = pytest.mark.integration
NO_SPARK = "sc://127.0.0.1:1"


@pytest.fixture
def shop(mysql8: MySqlServer, tmp_path: Path) -> Iterator[Shop]:
    with opened_shop(mysql8, NO_SPARK, tmp_path) as shop:
        yield shop


def found(shop: Shop, table: str) -> tuple[int, ...]:
    """Rows of source and lake; missing, extra and different."""
    beside = Beside(shop.connector, source_of(shop), shop.lake.lake, timeout_seconds=600, sleep=briefly)
    row = beside.table(shop.database, table)
    assert row is not None
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


@pytest.mark.parametrize("server", ["mysql8", "mysql57", "mysql9", "mariadb"])
def test_each_kind_of_difference_is_told(server: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
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


def test_what_checksums_cannot_compare_is_left_to_the_other_way(shop: Shop) -> None:
    """No key, a zero date in a key; and a table that the lake does not have."""
    zero = "SET SESSION sql_mode = 'ALLOW_INVALID_DATES'"
    shop.execute("CREATE TABLE n (v INT)", "INSERT INTO n VALUES (1)")
    shop.execute(zero, "CREATE TABLE z (d DATE PRIMARY KEY, v INT)", "INSERT INTO z VALUES ('0000-00-00', 1)")
    for table in "nz":
        brought(shop, table)
    DeltaTable(shop.lake.lake.path(shop.database, "z")).update({"v": "2"})
    beside = Beside(shop.connector, source_of(shop), shop.lake.lake, timeout_seconds=600, sleep=briefly)
    assert [beside.table(shop.database, table) for table in ("n", "z", "gone")] == [None, None, None]


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


def test_nothing_rests(mysql8: MySqlServer, tmp_path: Path) -> None:
    """Others write the same rows all the time, back and forth, and a run applies them. Rows that are wrong are told,
    and no other, although the lake is behind."""
    with opened_shop(mysql8, NO_SPARK, tmp_path) as shop:
        shop.execute(
            "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
            "INSERT INTO t VALUES " + ", ".join(f"({n}, 0)" for n in range(2000)),
        )
        path = brought(shop, "t")
        chosen, turns = random.Random(1), itertools.count()

        def turn() -> None:
            here, nth = chosen.randrange(300), next(turns)
            shop.execute(
                f"UPDATE t SET v = {nth % 2} WHERE id < 20",
                f"DELETE FROM t WHERE id = {here}",
                f"REPLACE INTO t VALUES ({here + nth % 3}, {nth % 2})",
                f"UPDATE IGNORE t SET id = {10_000 + here} WHERE id = {here + 1} AND {nth} % 5 = 0",
                f"DELETE FROM t WHERE id = {10_000 + here} AND {nth} % 2 = 0",
            )
            merged(shop, "t")

        DeltaTable(path).delete("id IN (1000, 1001)")
        DeltaTable(path).update({"v": "7"}, predicate="id IN (1500, 1501, 1502)")
        with busy(turn):
            for _ in range(3):
                assert found(shop, "t")[2:] == (2, 0, 3)
