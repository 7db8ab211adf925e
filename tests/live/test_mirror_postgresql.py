"""`sluice mirror` into a real PostgreSQL."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cdc_core.canal.mirror.columns import labels_of
from cdc_core.canal.tcp import TcpDoor
from cdc_core.errors import ConfigError, TableStopped
from orchestration.commands.mirror import Source, run
from orchestration.stack.mysql.server import MySqlServer
from tests.support.canal_matrix import TYPES
from tests.support.canal_service import canal_service
from tests.support.postgres import Postgres

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    server = Postgres().start()
    server.execute("CREATE DATABASE shop", database="postgres")
    yield server
    server.discard()


@pytest.fixture
def database(mysql8: MySqlServer, postgres: Postgres) -> Iterator[str]:
    with mysql8.database() as name:
        postgres.execute(f'CREATE SCHEMA "{name}"')
        yield name


@pytest.fixture
def door(mysql8: MySqlServer, database: str, tmp_path: Path) -> Iterator[TcpDoor]:
    with canal_service(mysql8, database, tmp_path) as door:
        yield door


def _command(door: TcpDoor, postgres: Postgres, database: str, folder: Path) -> list[str]:
    rules = folder / "rdb"
    rules.mkdir(exist_ok=True)
    (rules / "all.yml").write_text(f"destination: shop\ndbMapping:\n  mirrorDb: true\n  database: {database}\n")
    return [
        sys.executable, "-m", "orchestration.cli", "mirror", "shop", "--rules", str(rules), "--batch-size", "4",
        "--target", f"postgresql://mirror@127.0.0.1:{postgres.port}/shop", "--address", f"127.0.0.1:{door.port}",
    ]  # fmt: skip


def _until_equal(mysql: MySqlServer, postgres: Postgres, database: str, query: str) -> None:
    """`query` has %s for the table's quotes."""
    deadline = time.monotonic() + 60
    while True:
        with mysql.root(database) as link, link.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00'")
            cursor.execute(query)
            mine = sorted((_plain(row) for row in cursor.fetchall()), key=repr)
        theirs = _rows(postgres, database, query)
        if mine == theirs:
            return
        assert time.monotonic() < deadline, f"{mine[:5]} is not {theirs[:5]} ({len(mine)}, {len(theirs)})"
        time.sleep(0.3)


def _rows(postgres: Postgres, database: str, query: str) -> list[Any]:
    """None of a table or column that is not there yet."""
    with suppress(psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn):
        return sorted((_plain(row) for row in postgres.execute(f'SET search_path = "{database}"', query)), key=repr)
    return []


def _plain(row: Any) -> tuple[Any, ...]:
    return tuple(value.decode("latin-1") if isinstance(value, bytes) else str(value) for value in row)


@pytest.mark.in_turn(2)
@pytest.mark.fault
@pytest.mark.full
def test_a_mirror_that_is_killed_ends_equal(
    mysql8: MySqlServer, postgres: Postgres, database: str, door: TcpDoor, tmp_path: Path
) -> None:
    """Types, keys, no keys and DDL statements; killed at random moments; at the end both sides are equal."""
    mysql8.execute(
        "CREATE TABLE k (id INT PRIMARY KEY, v INT, s VARCHAR(40), b VARBINARY(9), e ENUM('x','it''s'), "
        "f SET('p','q','r'), m DECIMAL(9,2), d DATETIME(3), t TIMESTAMP NULL)",
        "CREATE TABLE n (x INT, s VARCHAR(9))",
        database=database,
    )
    command, chance, altered = _command(door, postgres, database, tmp_path), random.Random(5), 0
    for turn in range(3):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            deadline = time.monotonic() + chance.uniform(3.0, 5.0)
            while time.monotonic() < deadline or altered <= 2 * turn:  # a busy machine changes few rows in that time
                mysql8.execute(*_changes(chance), database=database)
                if chance.random() < 0.1:
                    mysql8.execute(*_definitions(chance, altered), database=database)
                    altered += 1
                time.sleep(0.03)  # the mirror has to catch up, with batches of four transactions
            process.send_signal(signal.SIGKILL)
    assert altered > 3
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            _until_equal(mysql8, postgres, database, "SELECT x, s FROM n")
            _until_equal(mysql8, postgres, database, "SELECT id, v, s, b, e, f, m, d FROM k")
            _until_equal(mysql8, postgres, database, "SELECT id FROM k WHERE t > '2020-01-01'")
            for number in range(altered):
                _until_equal(mysql8, postgres, database, f"SELECT id, c{number} FROM k")
            _until_equal(mysql8, postgres, database, _TABLES.format(database))
        finally:
            process.kill()
    assert len(postgres.execute(f'SELECT id FROM "{database}".k')) > 10


_TABLES = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = '{}'"


def _definitions(chance: random.Random, number: int) -> list[str]:
    """`number`: of those before. A statement that is run twice fails, or takes away what is there."""
    return [
        f"ALTER TABLE k ADD c{number} INT NOT NULL DEFAULT {chance.randrange(9)}, MODIFY s VARCHAR({41 + number})",
        f"CREATE TABLE copy{number} LIKE k",
        f"INSERT INTO copy{number} SELECT * FROM k",
        f"RENAME TABLE copy{number} TO old{number}",
        "TRUNCATE n" if chance.random() < 0.3 else f"DROP TABLE IF EXISTS old{max(number - 1, 0)}",
    ]


def _changes(chance: random.Random) -> list[str]:
    key = chance.randrange(200)
    quoted = chance.choice(["'a''b'", "'back\\\\slash'", "'\u65e5\u672c'", "''", "NULL"])
    return [
        f"REPLACE INTO k (id, v, s, b, e, f, m, d, t) VALUES ({key}, {chance.randrange(9)}, {quoted}, x'00ff27', "
        f"'it''s', 'p,r', 1.5, '2024-01-02 03:04:05.678', '2024-05-06 07:08:09'), "
        f"({key + 1}, 2, NULL, NULL, 'x', '', -7, NULL, NULL)",
        f"UPDATE k SET v = v + 1 WHERE id > {chance.randrange(200)} LIMIT 5",
        f"UPDATE IGNORE k SET id = id + 300 WHERE id = {chance.randrange(200)}",
        f"DELETE FROM k WHERE id = {chance.randrange(200)}",
        f"INSERT INTO n VALUES ({chance.randrange(5)}, 'a'), ({chance.randrange(5)}, NULL)",
        "UPDATE n SET s = 'b' WHERE s = 'a' LIMIT 1",
        "DELETE FROM n WHERE x = 3 LIMIT 1",
    ]


def test_every_type(mysql8: MySqlServer, postgres: Postgres, database: str, door: TcpDoor, tmp_path: Path) -> None:
    """Tables as their statements make them there; what a driver reads of the target is what it reads of the source."""
    with mysql8.root(database) as link, link.cursor() as cursor:
        cursor.execute("SET sql_mode = '', time_zone = '+00:00'")
        for number, (declared, values) in enumerate(TYPES):
            cursor.execute(f"CREATE TABLE t{number} (id INT PRIMARY KEY, v {declared}) CHARACTER SET utf8mb4")
            for key, value in enumerate([*values, "NULL"]):
                if not _ZERO_DATE.search(value):  # PostgreSQL has none
                    cursor.execute(f"INSERT INTO t{number} VALUES ({key}, {value})")
        cursor.execute("CREATE TABLE last (id INT PRIMARY KEY)")
        cursor.execute("INSERT INTO last VALUES (1)")
    _ends_equal(_command(door, postgres, database, tmp_path), mysql8, postgres, database, "SELECT id FROM last")
    with mysql8.root(database) as link, link.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        for number, (declared, _) in enumerate(TYPES):
            cursor.execute(f"SELECT v FROM t{number} ORDER BY id")
            mine = [_value(value, declared) for (value,) in cursor.fetchall()]
            found = postgres.execute("SET TIME ZONE 'UTC'", f'SELECT v FROM "{database}".t{number} ORDER BY id')
            theirs = [value.replace(tzinfo=None) if isinstance(value, datetime) else value for (value,) in found]
            if declared == "FLOAT":  # of which MySQL shows six digits
                mine = [None if value is None else pytest.approx(value, rel=1e-5) for value in mine]
            assert theirs == mine, declared


_ZERO_DATE = re.compile("0000-00|-00-")


def _value(value: Any, declared: str) -> Any:
    """Of MySQL's driver as PostgreSQL's has it."""
    if value is None:
        return None
    if declared.startswith("BIT"):
        return int.from_bytes(value, "big")
    return json.loads(value) if declared == "JSON" else value


def test_rows_that_the_target_cannot_take_stop_with_a_remedy(
    mysql8: MySqlServer, postgres: Postgres, database: str, door: TcpDoor, tmp_path: Path
) -> None:
    """A column that PostgreSQL lacks: nothing of the batch is written, and it goes on when the column is there."""
    mysql8.execute("CREATE TABLE c (id INT PRIMARY KEY, w INT)", "INSERT INTO c VALUES (1, 1)", database=database)
    words = _command(door, postgres, database, tmp_path)
    _ends_equal(words, mysql8, postgres, database, "SELECT id, w FROM c")
    postgres.execute(f'ALTER TABLE "{database}".c DROP w')
    mysql8.execute("INSERT INTO c VALUES (2, 7)", database=database)
    with pytest.raises(TableStopped, match='column "w"') as raised:
        _run(words, door)
    assert raised.value.place == f"{database}.c"
    postgres.execute(f'ALTER TABLE "{database}".c ADD w INT', f'UPDATE "{database}".c SET w = 1')
    _ends_equal(words, mysql8, postgres, database, "SELECT id, w FROM c")


def test_a_null_and_labels_in_the_rows_of_one_event(
    mysql8: MySqlServer, postgres: Postgres, database: str, door: TcpDoor, tmp_path: Path
) -> None:
    """Canal gives a NULL in a SET another type than the labels after it."""
    mysql8.execute(
        "CREATE TABLE c (id INT PRIMARY KEY, s SET('p', 'q'), e ENUM('x', 'y'))",
        "INSERT INTO c VALUES (1, NULL, NULL), (2, 'p,q', 'y'), (3, '', 'x')",
        database=database,
    )
    _ends_equal(_command(door, postgres, database, tmp_path), mysql8, postgres, database, "SELECT id, s, e FROM c")


def test_what_a_trigger_refuses_stops_with_a_remedy(
    mysql8: MySqlServer, postgres: Postgres, database: str, door: TcpDoor, tmp_path: Path
) -> None:
    """An error that never passes is not waited for."""
    words = _command(door, postgres, database, tmp_path)
    mysql8.execute("CREATE TABLE c (id INT PRIMARY KEY)", "INSERT INTO c VALUES (1)", database=database)
    _ends_equal(words, mysql8, postgres, database, "SELECT id FROM c")
    postgres.execute(
        f'CREATE FUNCTION "{database}".no() RETURNS trigger LANGUAGE plpgsql '
        "AS $$ BEGIN RAISE EXCEPTION 'not today'; END $$",
        f'CREATE TRIGGER no BEFORE INSERT ON "{database}".c EXECUTE FUNCTION "{database}".no()',
    )
    mysql8.execute("INSERT INTO c VALUES (2)", database=database)
    with pytest.raises(TableStopped, match="not today"):
        _run(words, door)
    postgres.execute(f'DROP TRIGGER no ON "{database}".c')
    _ends_equal(words, mysql8, postgres, database, "SELECT id FROM c")


def test_a_schema_of_the_accounts_name(
    mysql8: MySqlServer, postgres: Postgres, database: str, door: TcpDoor, tmp_path: Path
) -> None:
    """PostgreSQL looks into it first: the place stays where it was, and no row comes twice."""
    words = _command(door, postgres, database, tmp_path)
    mysql8.execute("CREATE TABLE n (x INT)", "INSERT INTO n VALUES (1), (2)", database=database)
    _ends_equal(words, mysql8, postgres, database, "SELECT x FROM n")
    postgres.execute("CREATE SCHEMA mirror AUTHORIZATION mirror")
    mysql8.execute("INSERT INTO n VALUES (3)", database=database)
    _ends_equal(words, mysql8, postgres, database, "SELECT x FROM n")
    found = postgres.execute("SELECT schemaname FROM pg_tables WHERE tablename = 'sluice_mirror'")
    postgres.execute("DROP SCHEMA mirror")
    assert found == [("public",)]


def test_a_statement_without_an_equal_stops_with_a_remedy(
    mysql8: MySqlServer, postgres: Postgres, database: str, door: TcpDoor, tmp_path: Path
) -> None:
    """Rows before it are applied. Run by hand and named as done, it is passed over; what follows is applied."""
    words = _command(door, postgres, database, tmp_path)
    mysql8.execute(
        "CREATE TABLE c (id INT PRIMARY KEY, w INT)",
        "INSERT INTO c VALUES (1, 70)",
        "ALTER TABLE c MODIFY w TINYINT",
        "INSERT INTO c VALUES (2, 7)",
        database=database,
    )
    for _ in range(2):
        with pytest.raises(TableStopped, match="no equivalent at the target: values of INT may change") as raised:
            _run(words, door)
    assert postgres.execute(f'SELECT id, w FROM "{database}".c') == [(1, 70)]
    place = raised.value.hint.split("--done ")[1].split(";")[0]
    postgres.execute(f'ALTER TABLE "{database}".c ALTER w TYPE SMALLINT')
    _ends_equal([*words, "--done", place], mysql8, postgres, database, "SELECT id, w FROM c")


def test_a_table_that_is_there_already_is_refused_and_stays(
    mysql8: MySqlServer, postgres: Postgres, database: str, door: TcpDoor, tmp_path: Path
) -> None:
    """Its error is PostgreSQL's; the table can be kept, as done by hand."""
    words = _command(door, postgres, database, tmp_path)
    postgres.execute(f'CREATE TABLE "{database}".c (id INT PRIMARY KEY, mine INT DEFAULT 5)')
    mysql8.execute("CREATE TABLE c (id INT PRIMARY KEY)", "INSERT INTO c VALUES (1)", database=database)
    with pytest.raises(TableStopped, match="already exists") as raised:
        _run(words, door)
    place = raised.value.hint.split("--done ")[1].split(";")[0]
    _ends_equal([*words, "--done", place], mysql8, postgres, database, "SELECT id FROM c")
    assert postgres.execute(f'SELECT mine FROM "{database}".c') == [(5,)]


@pytest.mark.parametrize("place", ["mysql-bin.000001", "4711", ":4", "mysql-bin.000001:x"])
def test_a_place_that_is_none(place: str, tmp_path: Path) -> None:
    """An error at the start, before anything is read."""
    with pytest.raises(ConfigError, match="not the position of a statement") as raised:
        run(Source("shop", "", "", 1001, "", ""), tmp_path, "mysql://a@h/d", "", 1, 1, [place], as_json=True)
    assert raised.value.place == f"--done {place}"


def _run(words: list[str], door: TcpDoor) -> None:
    """In this process, until it stops."""
    target, rules = words[words.index("--target") + 1], Path(words[words.index("--rules") + 1])
    run(Source("shop", f"127.0.0.1:{door.port}", "", 1001, "", ""), rules, target, "", 1, 10, as_json=True)


def _ends_equal(words: list[str], mysql: MySqlServer, postgres: Postgres, database: str, query: str) -> None:
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            _until_equal(mysql, postgres, database, query)
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("number", "kind", "text"),
    [
        (1, "enum('a','b')", "a"),
        (2, "enum('a','it''s, b')", "it's, b"),
        (0, "enum('a')", ""),
        (5, "set('p','q','r')", "p,r"),
        (0, "set('p')", ""),
    ],
)
def test_the_text_of_a_number(number: int, kind: str, text: str) -> None:
    """Canal has ENUM and SET as numbers; a server without these types gets their texts."""
    assert labels_of(number, kind) == text


def test_a_text_that_postgresql_cannot_have(
    mysql8: MySqlServer, postgres: Postgres, database: str, door: TcpDoor, tmp_path: Path
) -> None:
    """A NUL would end the statement in the driver: the error says what it is."""
    words = _command(door, postgres, database, tmp_path)
    mysql8.execute(
        "CREATE TABLE c (id INT PRIMARY KEY, s VARCHAR(9))", "INSERT INTO c VALUES (1, 'a\\0b')", database=database
    )
    with pytest.raises(TableStopped, match="no texts with the character NUL"):
        _run(words, door)
    assert postgres.execute(f'SELECT * FROM "{database}".c') == []
