"""`sluice mirror`: a destination applied to another server, by Canal's mapping rules, exactly once."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from cdc_core.canal.mirror.rules import read_rules
from cdc_core.canal.mirror.target import MirrorPlace
from cdc_core.errors import ConfigError, PositionError, TableStopped
from orchestration.commands.mirror import server_of
from orchestration.stack.mysql.server import MySqlServer
from tests.support.canal_matrix import TYPES
from tests.support.mirror_world import PASSWORD, World, mirror_world

pytestmark = pytest.mark.integration

_AS_TEXT = ("JSON", "FLOAT", "DOUBLE")  # MySQL 5.7 prints 1.0 of a document as 1


@pytest.fixture
def world(mysql8: MySqlServer, mysql57: MySqlServer, tmp_path: Path) -> Iterator[World]:
    with mirror_world(mysql8, mysql57, tmp_path) as world:
        yield world


def test_a_table_under_other_names(world: World) -> None:
    """Table, key and columns have other names in the target; what is not mapped is left out. All kinds of changes."""
    world.write("CREATE TABLE user (id INT PRIMARY KEY, name VARCHAR(30), age INT, secret INT)")
    world.other.execute("CREATE TABLE person (nr INT PRIMARY KEY, label VARCHAR(30), age INT)", database=world.database)
    world.rule(
        "database: {db}\ntable: user\ntargetTable: {db}.person\ntargetPk:\n  nr: id\n"
        "targetColumns:\n  nr: id\n  label: name\n  age:\n"
    )
    world.write("INSERT INTO user VALUES (1, 'a', 5, 9), (2, 'b', 6, 9), (3, 'ü''\\\\', NULL, 9)")
    world.write(
        "UPDATE user SET age = 7 WHERE id = 2", "UPDATE user SET id = 30 WHERE id = 3", "DELETE FROM user WHERE id = 1"
    )
    world.run()
    assert world.rows(world.other, "person") == [(2, "b", 7), (30, "ü'\\", None)]


def test_every_type(world: World) -> None:
    """What SELECT shows of the target is what it shows of the source."""
    world.rule("mirrorDb: true\ndatabase: {db}")
    names = []
    with world.source.root(world.database) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = '', time_zone = '+00:00'")
        for number, (declared, values) in enumerate(TYPES):
            names.append(f"t{number}")
            cursor.execute(f"CREATE TABLE t{number} (id INT PRIMARY KEY, v {declared}) CHARACTER SET utf8mb4")
            for key, value in enumerate([*values, "NULL"]):
                cursor.execute(f"INSERT INTO t{number} VALUES ({key}, {value})")
    world.run()
    for name, (declared, _) in zip(names, TYPES, strict=True):
        shown = "id, REPLACE(CAST(v AS CHAR), '.0', '')" if declared in _AS_TEXT else "id, HEX(v)"
        assert world.rows(world.other, name, shown) == world.rows(world.source, name, shown), declared


def test_a_whole_database_with_its_statements(world: World) -> None:
    """DDL in between rows, on a schema that the target follows."""
    world.rule("mirrorDb: true\ndatabase: {db}")
    world.write(
        "CREATE TABLE a (id INT PRIMARY KEY, x INT)",
        "INSERT INTO a VALUES (1, 1), (2, 2)",
        "ALTER TABLE a ADD y VARCHAR(9) DEFAULT 'd'",
        "INSERT INTO a VALUES (3, 3, 'new')",
        "CREATE TABLE gone (id INT PRIMARY KEY)",
        "INSERT INTO gone VALUES (1)",
        "DROP TABLE gone",
        "CREATE TABLE b LIKE a",
        "INSERT INTO b SELECT * FROM a",
        "TRUNCATE a",
        "INSERT INTO a VALUES (9, 9, 'last')",
        "RENAME TABLE b TO c",
    )
    mirror = world.run()
    world.same("a")
    world.same("c")
    assert mirror.statements == 7


def test_what_comes_again_is_not_applied_again(world: World) -> None:
    """A table without a key would show it: batches are applied, and their acks are lost."""
    world.rule("mirrorDb: true\ndatabase: {db}")
    world.write("CREATE TABLE n (x INT, s VARCHAR(9))", "INSERT INTO n VALUES (1, 'a'), (1, 'a'), (2, NULL)")
    assert world.run(ack=False).rows == 3
    world.write(
        "INSERT INTO n VALUES (3, 'c')", "UPDATE n SET s = 'b' WHERE x = 1 LIMIT 1", "DELETE FROM n WHERE x = 2"
    )
    again = world.run()
    world.same("n")
    assert again.rows == 3


def test_a_refused_row_names_its_table(world: World) -> None:
    """Nothing of the batch is in the target; mended, all of it is."""
    world.rule("mirrorDb: true\ndatabase: {db}")
    world.write("CREATE TABLE a (id INT PRIMARY KEY)", "CREATE TABLE b (id INT PRIMARY KEY)")
    world.run()
    world.other.execute("DROP TABLE b", database=world.database)
    world.write("BEGIN", "INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (1)", "COMMIT")  # so one batch has both
    with pytest.raises(TableStopped, match="the target refuses rows") as refused:
        world.run()
    assert refused.value.place == f"{world.database}.b"
    assert world.rows(world.other, "a") == []
    world.other.execute("CREATE TABLE b (id INT PRIMARY KEY)", database=world.database)
    world.run()
    world.same("a")
    world.same("b")


def test_a_refused_statement_stays_refused(world: World) -> None:
    """A table that is there already is not taken for one that an earlier try has made."""
    world.rule("mirrorDb: true\ndatabase: {db}")
    world.other.execute("CREATE TABLE a (other INT)", database=world.database)
    world.write("CREATE TABLE a (id INT PRIMARY KEY)")
    for _ in range(2):
        with pytest.raises(TableStopped, match="already exists"):
            world.run()
    world.other.execute("DROP TABLE a", database=world.database)
    world.write("INSERT INTO a VALUES (1)")
    world.run()
    world.same("a")


def test_a_statement_that_was_run_by_hand(world: World) -> None:
    """It is passed over, with what the error names as its place; rows before and after it are applied once."""
    world.rule("mirrorDb: true\ndatabase: {db}")
    world.write("CREATE TABLE n (x INT)", "INSERT INTO n VALUES (1)", "CREATE TABLE a (id INT PRIMARY KEY)")
    world.write("INSERT INTO n VALUES (1)", "INSERT INTO a VALUES (7)")
    world.other.execute("CREATE TABLE a (id INT PRIMARY KEY, more INT DEFAULT 5)", database=world.database)
    with pytest.raises(TableStopped, match="already exists") as refused:
        world.run()
    place = refused.value.hint.split("--done ")[1].split(";")[0]
    assert refused.value.place == f"{place}: CREATE TABLE a (id INT PRIMARY KEY)"
    with pytest.raises(TableStopped, match="already exists"):
        world.run(done=("mysql-bin.000001:4",))
    world.run(ack=False, done=(place,))
    world.run()
    assert world.rows(world.other, "a") == [(7, 5)]
    world.same("n")


def test_a_statement_on_other_tables_too(world: World) -> None:
    """A table that goes to a database without a rule, and one with a rule of its own: nothing is done, and by hand it
    goes on."""
    other = f"{world.database}_2"
    world.rule("mirrorDb: true\ndatabase: {db}")
    world.rule("database: {db}\ntable: own\nmapAll: true", "two")
    world.source.execute(f"CREATE DATABASE {other}")
    for number, statement in enumerate([f"RENAME TABLE a TO {other}.a", "DROP TABLE a, own"]):
        world.write("CREATE TABLE a (id INT PRIMARY KEY)", f"INSERT INTO a VALUES ({number})")
        world.write("CREATE TABLE IF NOT EXISTS own (id INT PRIMARY KEY)", statement)
        world.write("CREATE TABLE IF NOT EXISTS a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (70)")
        with pytest.raises(TableStopped, match="changes mirrored tables together with") as refused:
            world.run()
        assert world.rows(world.other, "a") == [(number,)]
        world.other.execute("DROP TABLE a", database=world.database)
        world.run(done=(refused.value.hint.split("--done ")[1].split(";")[0],))
        world.same("a")
        world.write("DROP TABLE a")
    world.source.execute(f"DROP DATABASE {other}")


def test_a_binlog_that_began_again_is_not_taken_for_old() -> None:
    """An event before the target's place that was written later than all of it: an error, and no row is left out. One
    that comes again is old, also where times are not in the order of places."""
    reached = MirrorPlace(1, "mysql-bin.000005", 900, 5000)
    assert reached.covers(MirrorPlace(1, "mysql-bin.000005", 900, 3000))
    assert reached.covers(MirrorPlace(1, "mysql-bin.000004", 9000, 5000))
    assert not reached.covers(MirrorPlace(1, "mysql-bin.000005", 901, 3000))
    assert not reached.covers(MirrorPlace(2, "mysql-bin.000001", 4, 3000))
    with pytest.raises(PositionError, match="a later event is before it"):
        reached.covers(MirrorPlace(1, "mysql-bin.000001", 4, 6000))


@pytest.mark.in_turn(2)
@pytest.mark.fault
@pytest.mark.full
def test_a_mirror_that_is_killed_ends_equal(world: World, tmp_path: Path) -> None:
    """Killed at random moments under random changes, also of a table without a key; at the end both sides are equal."""
    world.rule("mirrorDb: true\ndatabase: {db}")
    world.write("CREATE TABLE k (id INT PRIMARY KEY, v INT, s VARCHAR(40))", "CREATE TABLE n (x INT, s VARCHAR(9))")
    chance = random.Random(4)
    command = [
        sys.executable, "-m", "orchestration.cli", "mirror", "shop", "--rules", str(world.rules), "--batch-size", "4",
        "--target", world.copy, "--target-password", PASSWORD, "--address", f"127.0.0.1:{world.port}",
    ]  # fmt: skip
    for round_ in range(4):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            deadline, end = time.monotonic() + chance.uniform(3.0, 6.0), chance.uniform(0.0, 0.2)
            while time.monotonic() < deadline:
                world.write(*_changes(chance))
            time.sleep(end)
            process.send_signal(signal.SIGKILL)
        world.write(f"ALTER TABLE k ADD c{round_} INT")
    world.run()
    for table in "kn":
        world.same(table)
    assert len(world.rows(world.source, "k")) > 10


@pytest.mark.in_turn(2)
@pytest.mark.fault
@pytest.mark.full
def test_a_target_whose_connections_are_cut(world: World) -> None:
    """Cut again and again, also where nobody knows whether a commit was done: nothing is lost or applied twice, also in
    a table without a key."""
    world.rule("mirrorDb: true\ndatabase: {db}")
    world.write("CREATE TABLE k (id INT PRIMARY KEY, v INT, s VARCHAR(40))", "CREATE TABLE n (x INT, s VARCHAR(9))")
    world.run()
    chance = random.Random(7)
    command = [
        sys.executable, "-m", "orchestration.cli", "mirror", "shop", "--rules", str(world.rules), "--batch-size", "2",
        "--target", world.copy, "--target-password", PASSWORD, "--address", f"127.0.0.1:{world.port}",
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        world.write(*_changes(chance))
        assert process.stdout is not None
        assert process.stdout.readline()  # before its first batch it ends when its target is away
        deadline = time.monotonic() + 25
        while time.monotonic() < deadline:
            world.write(*_changes(chance), "INSERT INTO n SELECT x, 'm' FROM n LIMIT 300", "DELETE FROM n LIMIT 200")
            if chance.random() < 0.2:
                _cut(world.other)
        assert process.poll() is None
        process.send_signal(signal.SIGKILL)
    world.run()
    for table in "kn":
        world.same(table)


def _cut(server: MySqlServer) -> None:
    with server.root() as link, link.cursor() as cursor:
        cursor.execute("SELECT id FROM information_schema.processlist WHERE user = 'mirror'")
        for (number,) in cursor.fetchall():
            with suppress(Exception):
                cursor.execute(f"KILL {number}")


def _changes(chance: random.Random) -> list[str]:
    key = chance.randrange(200)
    return [
        f"REPLACE INTO k (id, v, s) VALUES ({key}, {chance.randrange(9)}, 'r'), ({key + 1}, 2, NULL)",
        f"UPDATE k SET v = v + 1 WHERE id > {chance.randrange(200)} LIMIT 5",
        f"DELETE FROM k WHERE id = {chance.randrange(200)}",
        f"INSERT INTO n VALUES ({chance.randrange(5)}, 'a')",
        "UPDATE n SET s = 'b' WHERE s = 'a' LIMIT 1",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dbMapping:\n  database: a\n", "mirrorDb: true, or table"),
        ("dbMapping:\n  database: a\n  table: t\n", "mapAll: true, or targetColumns"),
        ("dbMapping:\n  database: a\n  table: t\n  mapAll: true\n  targetTabel: x\n", "Extra inputs"),
        ("dbMapping:\n  database: a\n  mirrorDb: true\n  targetDb: b\n", "mirrorDb keeps all names"),
        ("other: 1\n", "no dbMapping"),
        ("a: [\n", "cannot be read"),
    ],
)
def test_rules_that_cannot_be_are_named(text: str, said: str, tmp_path: Path) -> None:
    """With file and reason; a destination without any rule is refused as well."""
    (tmp_path / "x.yml").write_text(f"destination: shop\n{text}")
    with pytest.raises(ConfigError, match=said) as refused:
        read_rules(tmp_path, "shop")
    assert "x.yml" in refused.value.place
    (tmp_path / "x.yml").write_text("destination: other\ndbMapping:\n  database: a\n  mirrorDb: true\n")
    with pytest.raises(ConfigError, match="no rule for shop"):
        read_rules(tmp_path, "shop")


@pytest.mark.parametrize("target", ["shop", "postgres://a@h/d", "mysql://h/d", "mysql://a@h"])
def test_a_target_that_is_no_address(target: str) -> None:
    """The error says the form, and nothing of a password."""
    with pytest.raises(ConfigError, match="malformed") as refused:
        server_of(target, "secret")
    assert "secret" not in str(refused.value)
