"""Rows and statements that a mirror into MySQL could get wrong in silence: each is equal at both sides, or refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cdc_core.canal.mirror.target import Target
from cdc_core.canal.mirror.work import RowGroup
from cdc_core.errors import PositionError, SourceUnavailable, TableStopped
from orchestration.commands.mirror import server_of
from orchestration.stack.mysql.server import MySqlServer
from tests.support.mirror_world import PASSWORD, World, mirror_world

pytestmark = pytest.mark.integration


@pytest.fixture
def world(mysql8: MySqlServer, mysql57: MySqlServer, tmp_path: Path) -> Iterator[World]:
    with mirror_world(mysql8, mysql57, tmp_path) as world:
        yield world


_CASES = {
    "a zero in a column that numbers itself": [
        "SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO'",
        "CREATE TABLE a (id INT PRIMARY KEY AUTO_INCREMENT, v INT)",
        "INSERT INTO a VALUES (5, 1), (0, 2)",
    ],
    "values that no strict mode lets in": [
        "SET sql_mode = 'ALLOW_INVALID_DATES'",
        "CREATE TABLE a (id INT PRIMARY KEY, d DATE, e ENUM('a', 'b'), f FLOAT, y YEAR, t TIMESTAMP NULL)",
        "INSERT INTO a VALUES (1, '2024-02-31', 'zz', 3.40282346638528859812e38, '0000', 0)",
        "INSERT INTO a VALUES (2, 0, 'a', -3.4e38, 2155, NULL)",
    ],
    "generated columns": [
        "CREATE TABLE a (id INT PRIMARY KEY, v INT, w INT AS (v + 1) STORED, x INT AS (v + 2))",
        "INSERT INTO a (id, v) VALUES (1, 1), (2, 2)",
        "UPDATE a SET v = 9 WHERE id = 1",
        "DELETE FROM a WHERE id = 2",
    ],
    "generated columns without a key": [
        "CREATE TABLE a (id INT, v INT, w INT AS (v + 1) STORED)",
        "INSERT INTO a (id, v) VALUES (1, 1), (2, 2)",
        "UPDATE a SET v = 9 WHERE id = 1",
        "DELETE FROM a WHERE id = 2",
    ],
    "texts that a collation takes for the same": [
        "CREATE TABLE a (s VARCHAR(9)) COLLATE utf8mb4_general_ci",
        "INSERT INTO a VALUES ('a'), ('A'), ('a '), ('')",
        "DELETE FROM a WHERE BINARY s = 'A'",
    ],
    "all types without a key": [
        "CREATE TABLE a (x INT, j JSON, f FLOAT, d DOUBLE, b BIT(9), e ENUM('p', 'q'), s SET('p', 'q'), "
        "v VARBINARY(9), b4 BINARY(4), t TIMESTAMP(3) NULL, h TIME(2), y YEAR, m DECIMAL(40, 5), g POINT, "
        "l LONGTEXT, o BLOB)",
        """INSERT INTO a VALUES (1, '{"a": [1, null]}', 0.1, 0.1, 5, 'q', 'p,q', x'ff00', x'01', """
        "'2024-01-01 01:01:01.123', '-12:12:12.25', 2024, 90071992547409920.00002, POINT(1, 2), 'long', 'o')",
        "INSERT INTO a (x, m) VALUES (2, 90071992547409920.00001)",
        "UPDATE a SET x = 7 WHERE x = 1",
        "INSERT INTO a SELECT * FROM a",
        "DELETE FROM a WHERE x = 7 LIMIT 1",
    ],
    "a NULL and labels in the rows of one event": [
        "CREATE TABLE a (id INT PRIMARY KEY, s SET('p', 'q', 'r'), e ENUM('x', '3'))",
        "INSERT INTO a VALUES (1, NULL, NULL), (2, 'p,q', '3'), (3, '', 'x')",
        "UPDATE a SET s = IF(id = 3, NULL, 'r'), e = NULL",
    ],
    "zeros at the end of a BINARY key": [
        "CREATE TABLE a (id BINARY(4) PRIMARY KEY, v INT)",
        "INSERT INTO a VALUES (x'01020300', 1), (x'00000000', 2), (x'01020304', 3)",
        "DELETE FROM a WHERE v = 1",
        "UPDATE a SET id = x'0a000000' WHERE v = 3",
    ],
    "a FLOAT key": [
        "CREATE TABLE a (id FLOAT PRIMARY KEY, v INT)",
        "INSERT INTO a VALUES (0.1, 1), (0.2, 2)",
        "DELETE FROM a WHERE v = 1",
        "UPDATE a SET id = 0.3",
    ],
    "a key that changes in an image without its BLOBs": [
        "SET binlog_row_image = NOBLOB",
        "CREATE TABLE a (id INT PRIMARY KEY, v INT, w TEXT NOT NULL)",
        "INSERT INTO a VALUES (1, 1, 'x'), (2, 2, 'y')",
        "UPDATE a SET v = 5 WHERE id = 1",
        "UPDATE a SET id = 7 WHERE id = 2",
    ],
    "a key that changes in a minimal image": [
        "SET binlog_row_image = MINIMAL",
        "CREATE TABLE a (id INT PRIMARY KEY, v INT)",
        "INSERT INTO a VALUES (1, 1), (2, 2)",
        "UPDATE a SET id = 7 WHERE id = 2",
    ],
    "a TIMESTAMP that takes NULL": [
        "CREATE TABLE a (id INT PRIMARY KEY, t TIMESTAMP, u TIMESTAMP NULL)",
        "INSERT INTO a (id) VALUES (1)",
    ],
    "a table that is made of a query": [
        "CREATE TABLE b (id INT PRIMARY KEY)",
        "INSERT INTO b VALUES (1)",
        "CREATE TABLE a AS SELECT id, id + 1 AS more FROM b",
        "INSERT INTO a VALUES (7, 7)",
    ],
    "columns that get the time of the statement": [
        "CREATE TABLE a (id INT PRIMARY KEY)",
        "INSERT INTO a VALUES (1)",
        "SET timestamp = 1700000000",
        "ALTER TABLE a ADD t TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP",
    ],
}


@pytest.mark.parametrize("statements", _CASES.values(), ids=_CASES)
def test_ends_equal(world: World, statements: list[str]) -> None:
    """Whatever modes, images and collations do."""
    world.rule()
    world.write(*statements)
    world.run()
    world.same("a")


def test_keys_that_change_places_and_come_again(world: World) -> None:
    """As after a fail-over, when places cannot be compared: rows are written again, and are where they were."""
    world.rule()
    world.write("CREATE TABLE a (id INT PRIMARY KEY, v INT)", "INSERT INTO a VALUES (1, 1), (2, 2), (3, 3)")
    world.run()
    world.write(
        "UPDATE a SET id = id + 1 ORDER BY id DESC",
        "UPDATE a SET id = 100 WHERE id = 2",
        "UPDATE a SET id = 2 WHERE id = 3",
        "UPDATE a SET id = 3 WHERE id = 100",
    )
    world.run(ack=False)
    world.same("a")
    world.other.execute("UPDATE sluice_mirror SET server_id = 77", database=world.database)
    assert world.run().rows == 6
    world.same("a")


@pytest.mark.parametrize("value", ["'abcdef', 1, 'a'", "'a', 1000, 'a'", "'a', 1, 'b'"])
def test_what_does_not_fit_is_refused(world: World, value: str) -> None:
    """A column of the target that is too short or too small, or lacks a label: nothing is cut."""
    world.write("CREATE TABLE a (id INT PRIMARY KEY, v VARCHAR(20), n INT, e VARCHAR(3))")
    world.other.execute(
        "CREATE TABLE a (id INT PRIMARY KEY, v VARCHAR(3), n TINYINT, e ENUM('a'))", database=world.database
    )
    world.rule("database: {db}\ntable: a\nmapAll: true")
    world.write("INSERT INTO a VALUES (1, 'a', 1, 'a')", f"INSERT INTO a VALUES (2, {value})")
    with pytest.raises(TableStopped, match="the target refuses rows"):
        world.run()
    assert world.rows(world.other, "a") == []


def test_a_row_without_a_key_that_is_not_there(world: World) -> None:
    """It is not passed over; put there by hand, it goes on."""
    world.rule()
    world.write("CREATE TABLE a (x INT)", "INSERT INTO a VALUES (1)")
    world.run()
    world.other.execute("DELETE FROM a", database=world.database)
    world.write("UPDATE a SET x = 2")
    with pytest.raises(TableStopped, match="is missing"):
        world.run()
    world.other.execute("INSERT INTO a VALUES (1)", database=world.database)
    world.run()
    world.same("a")


@pytest.mark.fault
@pytest.mark.parametrize("done", [True, False])
def test_a_statement_that_would_undo_itself(world: World, monkeypatch: pytest.MonkeyPatch, done: bool) -> None:
    """Ended before its place was kept: a second run would exchange the names again. The operator says what is true."""
    world.rule()
    world.write(
        "CREATE TABLE a (id INT)", "CREATE TABLE b (id INT)", "INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (2)"
    )
    world.run()
    world.write("RENAME TABLE a TO c, b TO a, c TO b")
    with monkeypatch.context() as patch:
        patch.setattr(Target, "apply", _ends)
        with pytest.raises(KeyboardInterrupt):
            world.run()
    world.target.close()
    with pytest.raises(TableStopped, match="its second run would undo it") as stopped:
        world.run()
    place = stopped.value.hint.split("--done ")[1].split(";")[0]
    if not done:
        world.other.execute("RENAME TABLE a TO c, b TO a, c TO b", database=world.database)
    world.run(done=(place,) if done else ())
    world.same("a")
    world.same("b")


def _ends(*_: object) -> None:
    raise KeyboardInterrupt


def test_several_rules_of_one_table(world: World) -> None:
    """All of them count."""
    world.write("CREATE TABLE a (id INT PRIMARY KEY, v INT)")
    world.other.execute(
        "CREATE TABLE one (id INT PRIMARY KEY, v INT)", "CREATE TABLE two (nr INT PRIMARY KEY)", database=world.database
    )
    world.rule("database: {db}\ntable: a\ntargetTable: one\nmapAll: true")
    world.rule("database: {db}\ntable: a\ntargetTable: two\ntargetPk:\n  nr: ID\ntargetColumns:\n  nr: ID", "two")
    world.write("INSERT INTO a VALUES (1, 2), (2, 2)", "UPDATE a SET v = 3", "DELETE FROM a WHERE id = 2")
    world.run()
    assert world.rows(world.other, "one") == [(1, 3)]
    assert world.rows(world.other, "two") == [(1,)]


@pytest.mark.parametrize("rule", ["targetPk:\n  id: nope\nmapAll: true", "targetColumns:\n  id: id\n  v: nope"])
def test_a_rule_with_a_wrong_column(world: World, rule: str) -> None:
    """It is named; nothing is written without it."""
    world.write("CREATE TABLE a (id INT PRIMARY KEY, v INT)")
    world.other.execute("CREATE TABLE a (id INT PRIMARY KEY, v INT)", database=world.database)
    world.rule(f"database: {{db}}\ntable: a\n{rule}")
    world.write("INSERT INTO a VALUES (1, 2)")
    with pytest.raises(TableStopped, match="names columns that the rows do not have: nope"):
        world.run()
    assert world.rows(world.other, "a") == []


def test_two_mirrors_of_one_client(world: World) -> None:
    """The one that is behind does not write over the other's place: nothing of its batch is applied."""
    world.rule()
    world.write("CREATE TABLE n (x INT)", "INSERT INTO n VALUES (1)")
    world.run()
    world.target.open()
    reached = world.target.reached
    assert reached is not None
    other = Target(server_of(world.copy, PASSWORD), "shop", 1001)
    other.open()
    further = replace(reached, position=reached.position + 100)
    other.apply((), further)
    group = RowGroup("insert", (world.database, "n"), ("x",), (), [(7,)])
    with pytest.raises(PositionError, match="another mirror moves"):
        world.target.apply([group], replace(reached, position=reached.position + 50))
    assert world.rows(world.other, "n") == [(1,)]
    world.target.open()
    assert world.target.reached == further
    other.close()
    world.target.close()


@pytest.mark.fault
@pytest.mark.parametrize("change", ["INSERT INTO a VALUES (1)", "ALTER TABLE a ADD v INT"])
def test_a_target_that_only_reads_for_a_while(world: World, change: str) -> None:
    """As during its own fail-over: the mirror waits, it is no refusal, and nothing is left out."""
    world.rule()
    world.write("CREATE TABLE a (id INT PRIMARY KEY)")
    world.run()
    world.write(change, "INSERT INTO a (id) VALUES (2)")
    world.other.execute("SET GLOBAL super_read_only = 1")
    try:
        with pytest.raises(SourceUnavailable, match="super-read-only"):
            world.run()
    finally:
        world.other.execute("SET GLOBAL super_read_only = 0", "SET GLOBAL read_only = 0")
    world.run()
    world.same("a")
