"""Changes that land first, from MySQL into the tables' change logs, by the real parts and without Spark."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from orchestration.commands.service import call
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.apply.spark_lake import SparkLake
from spark_jobs.apply.table import Batch
from spark_jobs.changes.columns import EPOCH, NTH, OP, SYSTEM, VERSION
from spark_jobs.following.history.standing import Histories, lacks
from spark_jobs.lake.fence import Fence
from spark_jobs.landing.log import TableLog
from spark_jobs.landing.modes import Mode, Modes
from spark_jobs.landing.notes import Notes
from spark_jobs.write.order import Engine
from tests.support.shop import Shop, opened_shop, until_running

pytestmark = pytest.mark.integration

NOBODY = "sc://127.0.0.1:1"  # no Spark is there, and none is needed


class Merging:
    """In the place of what merges logs: notes for which tables it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, _batch: Batch, table: str) -> None:
        self.asked.append(table)

    behind_statement = before_rows = __call__


@pytest.fixture
def shop(mysql8: MySqlServer, tmp_path: Path) -> Iterator[Shop]:
    with opened_shop(mysql8, NOBODY, tmp_path) as one:
        one.lake = lands(one, Mode.APPEND)
        yield one


def lands(shop: Shop, mode: Mode, **more: Any) -> SparkLake:
    """The lake of a new run."""
    lake = shop.lake.lake
    return replace(shop.lake, modes=Modes(mode), notes=Notes(), fence=Fence(lake, shop.lake.sessions), **more)


def log_of(shop: Shop, table: str) -> TableLog:
    return TableLog(shop.lake.lake, "shop", shop.connector.client_id, f"{shop.database}.{table}")


def changes(shop: Shop, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """Op and values of all images, in order."""
    opened = log_of(shop, table).open()
    assert opened is not None
    found = pa.table(opened.table.to_pyarrow_table())
    found = found.sort_by([(one, "ascending") for one in (EPOCH, VERSION, NTH)])
    return list(zip(*(found[name].to_pylist() for name in (OP, *columns)), strict=True))


def left(shop: Shop, table: str, *columns: str) -> Counter[tuple[Any, ...]]:
    """The rows that a log leaves of an empty table. Each image must fit what is before it."""
    rows: Counter[tuple[Any, ...]] = Counter()
    for op, *values in changes(shop, table, *columns):
        if op == "truncate":
            rows.clear()
        elif op in ("delete", "update_before"):
            assert rows[tuple(values)] > 0, (op, values)
            rows[tuple(values)] -= 1
        else:
            rows[tuple(values)] += 1
    return +rows


def source(shop: Shop, table: str, *columns: str) -> Counter[tuple[Any, ...]]:
    with shop.mysql.root(shop.database) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(columns)} FROM {table}")
        return Counter(cursor.fetchall())


def busy(shop: Shop, table: str, rounds: int) -> None:
    """Inserts, updates, changed keys and deletes, in transactions of many sizes."""
    for at in range(rounds):
        low = 1000 * at
        values = ", ".join(f"({low + n}, 'v{n}')" for n in range(1, 3 + 7 * at % 40))
        shop.execute(
            f"INSERT INTO {table} VALUES {values}",
            f"UPDATE {table} SET v = CONCAT(v, '+') WHERE id > {low - 900} AND id % 3 = 0",
            f"UPDATE {table} SET id = id + 500 WHERE id = {low + 1}",
            f"DELETE FROM {table} WHERE id % 7 = 2",
        )


def reset(shop: Shop, position: tuple[str, int]) -> None:
    body = {"to": {"journalName": position[0], "position": position[1]}, "client_id": shop.connector.client_id}
    call(shop.connector.http_url, "", "POST", "/v1/destinations/shop/reset", body | {"dry_run": False})
    until_running(shop.connector)


def test_each_change_lands_once_whatever_is_killed(shop: Shop) -> None:
    """A run dies after its append and before its ack, each time; what comes again has other boundaries; a later run
    finds what its log has. No image is missing or doubled."""
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(200))")
    assert shop.drain() == []
    busy(shop, "t", 12)
    shop.read()
    for size in (7, 40, 3, 120, 25):
        died = shop.claim(size)
        lands(shop, Mode.APPEND).apply(died, "dies", 2, died.stopped)
        shop.connector.rollback(owner="test", reason="it died")
        shop.lake = lands(shop, Mode.APPEND)
        shop.batch(size // 2 + 1)
    assert shop.drain(33) == []
    assert left(shop, "t", "id", "v") == source(shop, "t", "id", "v")
    found = pa.table(log_of(shop, "t").open().table.to_pyarrow_table())  # type: ignore[union-attr]
    places = Counter(zip(*(found[name].to_pylist() for name in (EPOCH, VERSION, "_sluice_row", OP)), strict=True))
    assert set(places.values()) == {1}
    noted = shop.lake.ledger.landed(f"{shop.database}.t", 0, shop.lake.ledger.opened())
    assert noted == log_of(shop, "t").open().ends(0)  # type: ignore[union-attr]


def test_a_rewind_brings_rows_again_in_an_epoch_of_their_own(shop: Shop) -> None:
    """What came before stays in the log, and what comes again is behind it."""
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.drain()
    place = shop.mysql.position()
    shop.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b')", "UPDATE t SET v = 'c' WHERE id = 1")
    shop.drain()
    reset(shop, place)
    shop.lake = lands(shop, Mode.APPEND)
    shop.execute("DELETE FROM t WHERE id = 2")
    assert shop.drain() == []
    once = [("insert", 1, "a"), ("insert", 2, "b"), ("update_before", 1, "a"), ("update_after", 1, "c")]
    assert changes(shop, "t", "id", "v") == [*once, *once, ("delete", 2, "b")]
    opened = log_of(shop, "t").open()
    assert opened is not None
    assert sorted(opened.ends(3)) == sorted(set(pa.table(opened.table.to_pyarrow_table())[EPOCH].to_pylist()))


def test_columns_that_statements_change(shop: Shop) -> None:
    """Added, dropped, renamed, of another type, and all rows deleted. Statements need no Spark where there is a log
    alone."""
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9), n INT)")
    shop.execute("INSERT INTO t VALUES (1, 'a', 1)", "ALTER TABLE t ADD COLUMN w DATETIME(6)")
    shop.execute("INSERT INTO t VALUES (2, 'b', 2, '2020-01-02 03:04:05.6')", "ALTER TABLE t DROP COLUMN v")
    shop.execute("INSERT INTO t VALUES (3, 3, NULL)", "ALTER TABLE t RENAME COLUMN n TO m")
    shop.execute("INSERT INTO t VALUES (4, 4, NULL)", "TRUNCATE TABLE t", "INSERT INTO t VALUES (5, 5, NULL)")
    assert shop.drain() == []
    assert changes(shop, "t", "id", "v", "n", "m") == [
        ("insert", 1, "a", 1, None), ("insert", 2, "b", 2, None), ("insert", 3, None, 3, None),
        ("insert", 4, None, None, 4), ("truncate", None, None, None, None), ("insert", 5, None, None, 5),
    ]  # fmt: skip
    shop.execute("ALTER TABLE t MODIFY COLUMN m BIGINT", "INSERT INTO t VALUES (6, 1099511627776, NULL)")
    assert shop.drain() == []
    assert changes(shop, "t", "id", "m") == [("insert", 6, 1 << 40)]
    assert not Path(shop.lake.lake.path(shop.database, "t")).exists()


def test_a_truncated_table_without_other_changes(shop: Shop) -> None:
    """The statement alone is a row of the log."""
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    shop.drain()
    shop.execute("TRUNCATE TABLE t")
    assert shop.drain() == []
    assert changes(shop, "t", "id") == [("insert", 1), ("truncate", None)]


def test_tables_that_cannot_be_landed_say_so(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """With images that leave columns out, with a column of the log's names, and with names that Delta must map: each is
    merged, and the run gets the reason, once. The others land, those without a key too."""
    merged: list[str] = []
    monkeypatch.setattr("spark_jobs.apply.batch.apply_table", lambda _batch, table: merged.append(table.name))
    shop.execute(
        "CREATE TABLE bare (a INT)", "CREATE TABLE odd (id INT PRIMARY KEY, `a b` INT)",
        "CREATE TABLE named (id INT PRIMARY KEY, _sluice_Epoch INT)",
        "CREATE TABLE part (id INT PRIMARY KEY, v INT)", "CREATE TABLE t (id INT PRIMARY KEY)",
    )  # fmt: skip
    shop.execute("INSERT INTO part VALUES (1, 1)")
    shop.drain()
    merging = Merging()
    shop.lake = lands(shop, Mode.LAND_FIRST, catch_up=merging, engine=Engine.SQL)
    for _ in range(2):
        shop.execute(
            *(f"INSERT INTO {name} VALUES (FLOOR(RAND() * 1e9){more})" for name, more in
              (("bare", ""), ("odd", ", 1"), ("named", ", 1"), ("t", ""))),
            "SET SESSION binlog_row_image = MINIMAL", "UPDATE part SET v = v + 1",
        )  # fmt: skip
        claim = shop.claim(1_000_000)
        result = shop.lake.apply(claim, "run", 2, claim.stopped)
        shop.connector.rollback(owner="test", reason="again")
        told = {table.split(".")[1]: why for table, why in result.instead.items()}
        if merged and not told:
            break
        assert {name: why.split()[0:4] for name, why in told.items()} == {
            "odd": ["a", "column's", "name", "needs"],
            "named": ["its", "column", "'_sluice_Epoch'", "has"], "part": ["row", "images", "leave", "columns"],
        }  # fmt: skip
    assert {name.split(".")[1] for name in merged} == {"odd", "named", "part"}
    assert [row[0] for row in changes(shop, "bare", "a")] == ["insert"] * len(changes(shop, "bare", "a"))
    assert [row[0] for row in changes(shop, "t", "id")] == ["insert"] * len(changes(shop, "t", "id"))
    assert changes(shop, "part", "v") == [("insert", 1)]
    assert merging.asked == [f"{shop.database}.part"]


def test_a_table_without_a_key_lands_and_has_no_history(shop: Shop) -> None:
    """The run says why, and nobody looks for one."""
    shop.execute("CREATE TABLE bare (a INT)", "INSERT INTO bare VALUES (1), (1)")
    shop.drain()
    shop.lake = lands(shop, Mode.HISTORY, catch_up=Merging())
    shop.execute("DELETE FROM bare LIMIT 1")
    claim = shop.claim()
    (landed,) = shop.lake.apply(claim, "run", 2, claim.stopped).landed
    assert landed.no_history == "it has no primary key, which versions need"
    assert [row[0] for row in changes(shop, "bare", "a")] == ["insert", "insert", "delete"]
    assert lacks(Histories(shop.lake.lake, "shop", shop.connector.client_id), f"{shop.database}.bare") is None


def test_a_log_that_is_gone_stops_its_table_alone(shop: Shop) -> None:
    """What was acked and not merged went with it, which the merged table would hide. So did what a copy of the log's
    folder of before lacks."""
    shop.lake = lands(shop, Mode.LAND_FIRST, catch_up=Merging())
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE u (id INT PRIMARY KEY)")
    shop.lake = lands(shop, Mode.APPEND)
    shop.execute("INSERT INTO t VALUES (1)", "INSERT INTO u VALUES (1)")
    shop.drain()
    path = Path(log_of(shop, "t").path)
    shutil.copytree(path, path.with_name("older"))
    shop.execute("INSERT INTO t VALUES (2)")
    shop.drain()
    shutil.move(path, path.with_name("kept"))
    for mode, text in ((Mode.LAND_FIRST, "is gone"), (Mode.MERGE, "is gone"), (Mode.APPEND, "is older")):
        if text == "is older":
            shutil.copytree(path.with_name("older"), path)
        shop.lake = lands(shop, mode)
        shop.execute(f"INSERT INTO t VALUES ({3 + len(text) + len(mode)})")
        claim = shop.claim(1000)
        result = shop.lake.apply(claim, "run", 2, claim.stopped)
        (refusal,) = result.refused
        assert text in refusal.error.message
        assert f"sluice copy shop {shop.database}.t" in refusal.error.hint
        shop.connector.rollback(owner="test", reason="again")
    shutil.rmtree(path)
    shutil.move(path.with_name("kept"), path)
    shop.lake = lands(shop, Mode.APPEND)
    shop.execute("INSERT INTO u VALUES (2)")
    assert shop.drain() == []
    assert left(shop, "t", "id") == source(shop, "t", "id")
    assert left(shop, "u", "id") == source(shop, "u", "id")


def test_a_column_of_another_type_waits_for_the_merge(shop: Shop) -> None:
    """What follows the log is asked to merge it whole, for the statement and before the log begins again."""
    merging = Merging()
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1)")
    shop.drain()
    shop.execute("ALTER TABLE t MODIFY COLUMN v BIGINT")
    shop.drain()
    shop.lake = lands(shop, Mode.LAND_FIRST, catch_up=merging)
    shop.execute("INSERT INTO t VALUES (2, 1099511627776)")
    assert shop.drain() == []
    assert merging.asked == [f"{shop.database}.t"]
    assert changes(shop, "t", "id", "v") == [("insert", 2, 1 << 40)]


def test_the_logs_columns_are_the_tables_and_ours(shop: Shop) -> None:
    """Types are those of the lake's tables; Sluice's columns follow."""
    shop.execute("CREATE TABLE t (id BIGINT UNSIGNED PRIMARY KEY, e ENUM('a', 'b'), j JSON, d DECIMAL(10, 2), b BLOB)")
    shop.execute("""INSERT INTO t VALUES (18446744073709551615, 'b', '{"a": 1}', 1.25, x'00ff')""")
    assert shop.drain() == []
    opened = log_of(shop, "t").open()
    assert opened is not None
    assert [(one.name, one.type) for one in opened.columns] == [
        ("id", "decimal(20,0)"), ("e", "string"), ("j", "string"), ("d", "decimal(10,2)"), ("b", "binary")
    ]  # fmt: skip
    assert [one.name for one in opened.table.schema().fields][5:] == SYSTEM.names
    ((_, *values),) = changes(shop, "t", "id", "e", "b")
    assert [str(values[0]), *values[1:]] == ["18446744073709551615", "b", b"\x00\xff"]
