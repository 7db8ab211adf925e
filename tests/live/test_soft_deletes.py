"""Deleted rows that stay, and columns of each row's last change, from MySQL to Delta by the real parts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import QueryBuilder

from cdc_core.errors import LakeError
from cdc_core.position import split_version
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.lake import ddl
from spark_jobs.lake.consent import waits_for_consent
from spark_jobs.lake.own_columns import COMMIT_TIME, DELETED, LAST_OP, POSITION
from spark_jobs.lake.policies import Changed, Dropped, Policies, TablePolicy
from spark_jobs.lake.row_rules import Deletes, LastChange, RowRules
from spark_jobs.landing.modes import Mode, Modes
from spark_jobs.load.remake import Remaker
from spark_jobs.verify.comparer import TableComparer, compared
from spark_jobs.verify.repair import RowRepair
from tests.support.copying import loader_of
from tests.support.landed import Killed, LandedShop, changes, dies, opened_landed
from tests.support.shop import Shop, reading_source
from tests.support.small_lake import briefly, source_of

pytestmark = pytest.mark.integration
SOFT = RowRules(Deletes.SOFT, columns=tuple(LastChange))
RIGHT = {"t": (0, 0, 0)}


@pytest.fixture
def shop(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> Iterator[LandedShop]:
    """Its tables are merged; deletes are soft, and all columns are there."""
    with opened_landed(mysql8, spark_remote, tmp_path) as shop:
        ruled(shop, SOFT)
        yield shop


def ruled(shop: LandedShop, rules: RowRules | None, mode: Mode = Mode.MERGE) -> None:
    """What comes next is another run's, with these rules."""
    shop.lake.lake.rules = rules
    shop.mode = mode
    shop.run()


def rows(shop: Shop, table: str = "t") -> dict[int, dict[str, Any]]:
    """All rows, deleted ones too, by `id`; that is there once."""
    there = shop.lake.lake.open(shop.lake.lake.path(shop.database, table))
    found = pa.table(QueryBuilder().register("t", there).execute("SELECT * FROM t").read_all()).to_pylist()
    by_id = {row["id"]: row for row in found}
    assert len(by_id) == len(found)
    return by_id


def told(shop: Shop, table: str = "t") -> dict[int, tuple[Any, bool | None, str | None]]:
    """Of each row its `v`, whether it is deleted, and its last change."""
    return {key: (row["v"], row[DELETED], row.get(LAST_OP)) for key, row in rows(shop, table).items()}


def test_a_deleted_row_stays_with_its_last_values(shop: LandedShop) -> None:
    """Also where it was changed, or came, in the same batch; it lives again when its key comes back. A changed key
    leaves the old one deleted. Each row says what its last change was, where it is in the binlog, and when."""
    shop.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))",
        "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')",
    )
    assert shop.drain() == []
    assert {row[DELETED] for row in rows(shop).values()} == {False}
    shop.execute(
        "DELETE FROM t WHERE id = 1",
        "UPDATE t SET v = 'last' WHERE id = 2",
        "DELETE FROM t WHERE id = 2",
        "INSERT INTO t VALUES (5, 'short')",
        "DELETE FROM t WHERE id = 5",
        "UPDATE t SET id = 30 WHERE id = 3",
    )
    end = shop.read()
    assert shop.drain() == []
    assert told(shop) == {
        1: ("a", True, "delete"), 2: ("last", True, "delete"), 3: ("c", True, "delete"), 4: ("d", False, "insert"),
        5: ("short", True, "delete"), 30: ("c", False, "update"),
    }  # fmt: skip
    number, offset = (int(part) for part in rows(shop)[30][POSITION].split(":"))
    assert number == split_version(end.version())[0]
    assert 0 < offset < end.position
    assert {row[COMMIT_TIME] is None for row in rows(shop).values()} == {False}
    assert shop.differences("t") == RIGHT
    shop.execute("INSERT INTO t VALUES (1, 'back'), (5, 'again')", "REPLACE INTO t VALUES (4, 'new')")
    assert shop.drain(batch_size=1) == []
    found = told(shop)
    assert (found[1], found[5]) == (("back", False, "insert"), ("again", False, "insert"))
    assert found[4][:2] == ("new", False)
    assert shop.differences("t") == RIGHT
    assert shop.warnings == []


@pytest.mark.in_turn
@pytest.mark.full
def test_the_rows_are_the_same_however_they_are_merged(shop: LandedShop) -> None:
    """In small batches, in large ones whose transactions are compressed, from a log, and with modes that change."""
    rng, tables = random.Random(7), ("small", "large", "landed", "mixed")
    for table in tables:
        shop.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, v VARCHAR(40), n DECIMAL(10, 2))")
    assert shop.drain() == []
    script = [changes(rng, "{}") for _ in range(4)]
    ways = {"small": (Mode.MERGE, 5), "large": (Mode.MERGE, 10_000), "landed": (Mode.LAND_FIRST, 10)}
    for table in tables:
        mode, size = ways.get(table, (Mode.MERGE, 10))
        for number, part in enumerate(script):
            statements = [one.replace("{}", table) for one in part]
            whole = ["SET SESSION binlog_transaction_compression = ON", "BEGIN", *statements, "COMMIT"]
            shop.execute(*(whole if table == "large" else statements))
            if table == "mixed":
                mode = (Mode.MERGE, Mode.LAND_FIRST)[number % 2]
            if table != "large":
                ruled(shop, SOFT, mode)
                assert shop.drain(size) == []
        ruled(shop, SOFT, mode)
        assert shop.drain(size) == []
        shop.merger(part_rows=20).whole(shop.named(table))
    assert shop.differences(*tables) == dict.fromkeys(tables, (0, 0, 0))
    assert told(shop, "small") == told(shop, "large") == told(shop, "landed") == told(shop, "mixed")
    assert {(deleted, op == "delete") for _, deleted, op in told(shop, "small").values()} == {
        (True, True), (False, False)
    }  # fmt: skip
    assert shop.warnings == []


@pytest.mark.full
def test_a_claim_that_was_applied_comes_again(shop: LandedShop) -> None:
    """After a kill between its commit and its ack, also with other boundaries; and after a rewind."""
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))", "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    assert shop.drain() == []
    begin = shop.read()
    shop.execute("DELETE FROM t WHERE id = 1", "INSERT INTO t VALUES (3, 'c')", "DELETE FROM t WHERE id = 3")
    claim = shop.claim()
    shop.lake.apply(claim, "killed", 2, [])
    before = rows(shop)
    shop.connector.rollback(reason="killed")
    shop.execute("INSERT INTO t VALUES (1, 'back')", "DELETE FROM t WHERE id = 2")
    shop.run()
    assert shop.drain(batch_size=1) == []
    after = rows(shop)
    assert after[3] == before[3]
    assert told(shop) == {1: ("back", False, "insert"), 2: ("b", True, "delete"), 3: ("c", True, "delete")}
    shop.reset(begin)
    shop.run()
    assert shop.drain(batch_size=1) == []
    assert rows(shop) == after
    assert shop.differences("t") == RIGHT


@pytest.mark.in_turn
@pytest.mark.full
def test_the_flag_goes_on_and_off(shop: LandedShop) -> None:
    """A table that is there gets the columns, NULL in old rows, which live; a TRUNCATE right then marks them. Without
    the flag no deleted row looks alive: they go with the next batch. Columns that a table has are kept up."""
    ruled(shop, RowRules())
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))", "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    assert shop.drain() == []
    assert set(rows(shop)[1]) == {"id", "v"}
    ruled(shop, RowRules(Deletes.SOFT))
    shop.execute("INSERT INTO t VALUES (3, 'c')", "DELETE FROM t WHERE id = 2")
    assert shop.drain() == []
    assert told(shop) == {1: ("a", None, None), 2: ("b", True, None), 3: ("c", False, None)}
    assert shop.differences("t") == RIGHT
    ruled(shop, RowRules(columns=(LastChange.OP,)))
    shop.execute("UPDATE t SET v = 'x' WHERE id = 1", "DELETE FROM t WHERE id = 3")
    assert shop.drain() == []
    assert told(shop) == {1: ("x", False, "update")}
    ruled(shop, RowRules())
    shop.execute("UPDATE t SET v = 'y' WHERE id = 1", "INSERT INTO t VALUES (4, 'd')")
    assert shop.drain() == []
    assert told(shop) == {1: ("y", False, "update"), 4: ("d", False, "insert")}
    assert shop.differences("t") == RIGHT
    ruled(shop, SOFT)
    shop.execute("TRUNCATE TABLE t")
    assert shop.drain() == []
    assert told(shop) == {1: ("y", True, "delete"), 4: ("d", True, "delete")}
    assert shop.differences("t") == RIGHT
    assert shop.warnings == []


@pytest.mark.full
def test_a_run_that_dies_while_the_flag_goes_on_or_off(shop: LandedShop, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it left is done by the next one, and nothing is wrong meanwhile."""
    ruled(shop, RowRules())
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))", "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    assert shop.drain() == []
    shop.execute("DELETE FROM t WHERE id = 1")
    killed(shop, SOFT, monkeypatch, behind=True)
    assert (set(rows(shop)), set(rows(shop)[1])) == ({1, 2}, {"id", "v"})
    ruled(shop, SOFT)
    assert shop.drain() == []
    assert told(shop) == {1: ("a", True, "delete"), 2: ("b", None, None)}
    shop.execute("INSERT INTO t VALUES (3, 'c')")
    killed(shop, RowRules(), monkeypatch, behind=False)
    assert set(rows(shop)) == {2}
    ruled(shop, RowRules())
    assert shop.drain() == []
    assert told(shop) == {2: ("b", None, None), 3: ("c", False, "insert")}
    assert shop.differences("t") == RIGHT


def killed(shop: LandedShop, rules: RowRules, monkeypatch: pytest.MonkeyPatch, *, behind: bool) -> None:
    """A run with these rules dies at its first ALTER TABLE in the lake."""
    ruled(shop, rules)
    with monkeypatch.context() as patch:
        dies(patch, ddl, "alter_table", behind=behind)
        with pytest.raises(Killed):
            shop.drain()


@pytest.mark.in_turn
@pytest.mark.full
def test_all_rows_are_marked_by_truncate(shop: LandedShop) -> None:
    """Those that were deleted before keep their place. Of a landed table as well; a new row lives."""
    for mode in (Mode.MERGE, Mode.LAND_FIRST):
        ruled(shop, SOFT, mode)
        shop.execute(
            "DROP TABLE IF EXISTS t",
            "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))",
            "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
            "DELETE FROM t WHERE id = 1",
        )
        assert shop.drain() == []
        shop.follow()
        before = rows(shop)
        shop.execute("INSERT INTO t VALUES (3, 'c')", "TRUNCATE TABLE t", "INSERT INTO t VALUES (2, 'new')")
        assert shop.drain() == []
        shop.follow()
        after = rows(shop)
        assert told(shop) == {1: ("a", True, "delete"), 2: ("new", False, "insert"), 3: ("c", True, "delete")}
        assert after[1] == before[1]
        assert after[3][POSITION] != before[1][POSITION]
        assert shop.differences("t") == RIGHT


@pytest.mark.in_turn
@pytest.mark.full
def test_statements_in_the_middle(shop: LandedShop) -> None:
    """Columns come, go, and get other names and types, in place and with rows rewritten; the table gets another
    name. Deleted rows go along."""
    shop.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), w INT)", "INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2)"
    )
    assert shop.drain() == []
    shop.execute(
        "DELETE FROM t WHERE id = 1",
        "ALTER TABLE t ADD COLUMN x INT AFTER id",
        "ALTER TABLE t ADD COLUMN y INT NOT NULL DEFAULT 7",
        "ALTER TABLE t DROP COLUMN w",
        "ALTER TABLE t RENAME COLUMN x TO z",
        "ALTER TABLE t MODIFY COLUMN z BIGINT",
        "INSERT INTO t VALUES (3, 1099511627776, 'c', 8)",
    )
    assert shop.drain() == []
    assert told(shop) == {1: ("a", True, "delete"), 2: ("b", False, "insert"), 3: ("c", False, "insert")}
    assert [found.differences for found in shop.compared("t")] == [0]
    shop.execute("RENAME TABLE t TO named", "DELETE FROM named WHERE id = 2")
    assert shop.drain() == []
    assert told(shop, "named") == {1: ("a", True, "delete"), 2: ("b", True, "delete"), 3: ("c", False, "insert")}
    assert shop.differences("named") == {"named": (0, 0, 0)}


@pytest.mark.in_turn
@pytest.mark.full
def test_a_row_that_comes_back_has_nothing_in_a_column_that_is_kept(shop: LandedShop) -> None:
    """The source dropped the column, and the policy keeps it: rows that stay keep their values, one that comes back has
    none, as if its key were new. The same from a log, and within one batch."""
    policies, modes = Policies(TablePolicy(changed=Changed.LENIENT)), Modes(Mode.MERGE, {"*.landed": Mode.LAND_FIRST})
    shop.lake = replace(shop.lake, policies=policies, modes=modes)
    tables, row = ("t", "landed"), "({0}, {0}, {0})"
    for table in tables:
        shop.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT, w INT)")
        shop.execute(f"INSERT INTO {table} VALUES {', '.join(map(row.format, range(1, 6)))}")
        shop.execute(f"ALTER TABLE {table} DROP COLUMN w", f"DELETE FROM {table} WHERE id IN (1, 5)")
    assert shop.drain() == []
    merger = replace(shop.merger(), policies=policies)
    merger.whole(shop.named("landed"))
    for table in tables:
        shop.execute(f"INSERT INTO {table} VALUES (1, 10), (5, 50)", f"DELETE FROM {table} WHERE id IN (2, 5)")
        shop.execute(f"INSERT INTO {table} VALUES (2, 20)", f"UPDATE {table} SET v = v + 1 WHERE id IN (2, 3)")
    assert shop.drain() == []
    merger.whole(shop.named("landed"))
    for table in tables:
        found = {key: (one["v"], one["w"], one[DELETED]) for key, one in rows(shop, table).items()}
        assert found == {
            1: (10, None, False), 2: (21, None, False), 3: (4, 3, False), 4: (4, 4, False), 5: (50, None, True)
        }  # fmt: skip


@pytest.mark.in_turn
@pytest.mark.full
def test_deleted_rows_do_not_hold_up_a_narrower_type(shop: LandedShop) -> None:
    """The source had none of them when it checked its rows. One whose value the lake's new type cannot hold does: the
    table waits for a person, and the row stays."""
    shop.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), n BIGINT)",
        "INSERT INTO t VALUES (1, NULL, 1), (2, 'too long', -2), (3, 'c', 5000000000), (4, 'd', 4)",
    )
    assert shop.drain() == []
    shop.execute("DELETE FROM t WHERE id <= 2")
    shop.execute("ALTER TABLE t MODIFY v VARCHAR(3) NOT NULL", "ALTER TABLE t MODIFY n BIGINT UNSIGNED NOT NULL")
    assert shop.drain() == []
    assert told(shop) == {
        1: (None, True, "delete"), 2: ("too long", True, "delete"), 3: ("c", False, "insert"), 4: ("d", False, "insert")
    }  # fmt: skip
    assert rows(shop)[2]["n"] == -2
    assert shop.differences("t") == RIGHT
    shop.execute("DELETE FROM t WHERE id = 3", "ALTER TABLE t MODIFY n INT")
    assert shop.drain() == [shop.named("t")]
    (stop,) = shop.connector.client_status().stopped
    assert "deleted rows have values of n that" in stop.reason
    assert rows(shop)[3]["n"] == 5000000000


@pytest.mark.in_turn
@pytest.mark.full
def test_a_copy_that_takes_deleted_rows_waits_for_a_person(shop: LandedShop, tmp_path: Path) -> None:
    """Though the table is small enough to be copied in the run."""
    with reading_source(shop) as reading:
        create = "CREATE TABLE {} (id INT PRIMARY KEY, v VARCHAR(20))"
        ruled(shop, RowRules(Deletes.SOFT, {"*.hard": Deletes.HARD}))
        reading.execute(*(create.replace("{}", table) for table in ("t", "hard")))
        reading.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b')", "INSERT INTO hard VALUES (1, 'a')")
        reading.execute("DELETE FROM t WHERE id = 1")
        assert reading.drain() == []
        reading.execute(*(f"ALTER TABLE {table} ADD COLUMN g INT AS (id + 1) STORED" for table in ("t", "hard")))
        assert reading.drain() == [shop.named("t")]
        (stop,) = shop.connector.client_status().stopped
        assert waits_for_consent(stop.reason)
        assert "sluice copy" in stop.hint
        assert set(rows(shop)) == {1, 2}
        loader_of(shop, tmp_path / "conf").copy(shop.database, "t")
        assert set(rows(shop)) == {2}
        assert not shop.connector.client_status().stopped
        assert shop.differences("t", "hard") == {"t": (0, 0, 0), "hard": (0, 0, 0)}


@pytest.mark.full
@pytest.mark.parametrize("dropped", list(Dropped))
def test_a_dropped_table_is_its_policys(shop: LandedShop, dropped: Dropped) -> None:
    """And a table that is made under the same name begins without rows."""
    shop.lake = replace(shop.lake, policies=Policies(TablePolicy(dropped)))
    create = "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))"
    shop.execute(create, "INSERT INTO t VALUES (1, 'a'), (2, 'b')", "DELETE FROM t WHERE id = 1")
    assert shop.drain() == []
    shop.execute("DROP TABLE t")
    assert shop.drain() == []
    kept = {1: ("a", True, "delete"), 2: ("b", False, "insert")}
    assert told(shop) == (kept if dropped is Dropped.KEEP else {})
    shop.execute(create, "INSERT INTO t VALUES (3, 'c')", "DELETE FROM t WHERE id = 3")
    assert shop.drain() == []
    assert told(shop) == {3: ("c", True, "delete")}
    assert shop.differences("t") == RIGHT


@pytest.mark.full
def test_tables_that_cannot_have_them_stop_alone(shop: LandedShop) -> None:
    """Without a key, with a column of such a name, at once or later, and with images that leave columns out."""
    keys = "id INT PRIMARY KEY, v VARCHAR(20)"
    shop.execute(
        "CREATE TABLE bare (v INT)", f"CREATE TABLE named ({keys}, {DELETED} INT)", f"CREATE TABLE later ({keys})",
        f"CREATE TABLE some ({keys})", f"CREATE TABLE gone ({keys})", f"CREATE TABLE t ({keys})",
    )  # fmt: skip
    tables = ("later", "some", "gone", "t")
    shop.execute("INSERT INTO bare VALUES (1)", "INSERT INTO named VALUES (1, 'a', 1)")
    shop.execute(*(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')" for table in tables))
    assert sorted(shop.drain()) == [shop.named("bare"), shop.named("named")]
    shop.execute(
        f"ALTER TABLE later ADD COLUMN {COMMIT_TIME} INT",
        "SET SESSION binlog_row_image = MINIMAL",
        "UPDATE some SET v = 'x' WHERE id = 1",
        "DELETE FROM gone WHERE id = 1",
    )
    shop.execute("DELETE FROM t WHERE id = 1")
    assert sorted(shop.drain()) == sorted(shop.named(table) for table in ("later", "some", "gone"))
    reasons = {stop.table: stop.reason for stop in shop.connector.client_status().stopped}
    assert "primary key" in reasons[shop.named("bare")]
    assert COMMIT_TIME in reasons[shop.named("later")]
    assert "leave columns out" in reasons[shop.named("some")]
    assert "leave columns out" in reasons[shop.named("gone")]
    assert told(shop) == {1: ("a", True, "delete"), 2: ("b", False, "insert")}


@pytest.mark.in_turn
@pytest.mark.full
def test_copies_and_repairs(shop: LandedShop, tmp_path: Path) -> None:
    """A repair mends living rows, and a deleted row of a key that must have one goes. A copy keeps the columns, and
    the deleted rows go, whether or not it knows the rules; it takes the columns where the rules name none."""
    shop.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))", "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')"
    )
    shop.execute(
        "DELETE FROM t WHERE id IN (1, 3)", "SET SESSION sql_log_bin = 0", "INSERT INTO t VALUES (1, 'unseen')"
    )
    assert shop.drain() == []
    assert shop.differences("t") == {"t": (1, 0, 0)}
    there = TableComparer(shop.connector, source_of(shop), shop.lake.lake, timeout_seconds=600, sleep=briefly)
    (found,) = compared(replace(there, settle=RowRepair(shop.lake.sessions, "run").of), [(shop.database, "t")])
    assert (found.repaired, found.differences, found.error) == (1, 0, "")
    assert {key: one[:2] for key, one in told(shop).items()} == {1: ("unseen", None), 2: ("b", False), 3: ("c", True)}
    shop.execute("DELETE FROM t WHERE id = 1", "INSERT INTO t VALUES (1, 'd')")
    shop.run()
    assert shop.drain() == []
    assert told(shop)[1] == ("d", False, "insert")
    for rules in (None, SOFT):
        shop.lake.lake.rules = rules
        loader_of(shop, tmp_path / "conf").copy(shop.database, "t")
        assert told(shop) == {1: ("d", False, None), 2: ("b", False, None)}
        shop.execute("DELETE FROM t WHERE id = 2", "INSERT INTO t VALUES (2, 'b')")
        ruled(shop, SOFT)
        assert shop.drain() == []
        assert shop.differences("t") == RIGHT
    ruled(shop, RowRules())
    loader_of(shop, tmp_path / "conf").copy(shop.database, "t")
    assert set(rows(shop)[1]) == {"id", "v"}
    assert shop.differences("t") == RIGHT
    assert shop.warnings == []


@pytest.mark.full
def test_what_a_foreign_key_deletes_stays_too(shop: LandedShop) -> None:
    """It has no place, as it is in no binlog. A child that was deleted before is left as it is."""
    with reading_source(shop) as reading:
        reading.execute(
            "CREATE TABLE p (id INT PRIMARY KEY, v INT)",
            "CREATE TABLE t (id INT PRIMARY KEY, v INT, FOREIGN KEY (v) REFERENCES p (id) ON DELETE CASCADE)",
            "INSERT INTO p VALUES (1, 1), (2, 2)",
            "INSERT INTO t VALUES (10, 1), (11, 1), (20, 2)",
            "DELETE FROM t WHERE id = 11",
        )
        assert reading.drain() == []
        before = rows(shop)
        reading.execute("DELETE FROM p WHERE id = 1")
        assert reading.drain() == []
        after = rows(shop)
        assert told(shop) == {10: (1, True, "delete"), 11: (1, True, "delete"), 20: (2, False, "insert")}
        assert (after[10][POSITION], after[11]) == (None, before[11])
        assert reading.differences("p", "t") == {"p": (0, 0, 0), "t": (0, 0, 0)}


@pytest.mark.in_turn
@pytest.mark.full
def test_what_reads_a_landed_table_sees_living_rows(shop: LandedShop) -> None:
    """Its view, and its history, which goes on as ever. It cannot be reloaded from its log."""
    ruled(shop, SOFT, Mode.HISTORY)
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))", "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    assert shop.drain() == []
    shop.keep("t")
    shop.execute("DELETE FROM t WHERE id = 1", "INSERT INTO t VALUES (3, 'c')")
    assert shop.drain() == []
    assert shop.now("t") == shop.source("t")
    shop.keep("t")
    assert told(shop)[1] == ("a", True, "delete")
    assert shop.now("t") == shop.source("t")
    assert {row["id"] for row in shop.history("t") if row["is_current"]} == {2, 3}
    shop.execute("DELETE FROM t WHERE id = 2")
    ruled(shop, SOFT, Mode.MERGE)
    assert shop.drain() == []
    ruled(shop, SOFT, Mode.HISTORY)
    shop.keep("t")  # by a comparison: it was merged directly
    assert {row["id"] for row in shop.history("t") if row["is_current"]} == {3}
    remaker = Remaker(shop.follows, shop.lake.sessions)
    with pytest.raises(LakeError, match="besides the source's"):
        remaker.table(shop.named("t"), None)
