"""`sluice mirror` into a real PostgreSQL."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdc_core.doors.tcp import TcpDoor
from cdc_core.errors import TableStopped
from cdc_core.mirror.work import labels_of
from orchestration.commands.mirror import Source, run
from orchestration.stack.mysql.server import MySqlServer
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
        theirs = sorted((_plain(row) for row in postgres.execute(f'SET search_path = "{database}"', query)), key=repr)
        if mine == theirs:
            return
        assert time.monotonic() < deadline, f"{mine[:5]} is not {theirs[:5]} ({len(mine)}, {len(theirs)})"
        time.sleep(0.3)


def _plain(row: Any) -> tuple[Any, ...]:
    return tuple(value.decode("latin-1") if isinstance(value, bytes) else str(value) for value in row)


@pytest.mark.fault
def test_a_mirror_that_is_killed_ends_equal(
    mysql8: MySqlServer, postgres: Postgres, database: str, door: TcpDoor, tmp_path: Path
) -> None:
    """Types, keys and no keys; killed at random moments under random changes; at the end both sides are equal."""
    mysql8.execute(
        "CREATE TABLE k (id INT PRIMARY KEY, v INT, s VARCHAR(40), b VARBINARY(9), e ENUM('x','it''s'), "
        "f SET('p','q','r'), m DECIMAL(9,2), d DATETIME(3), t TIMESTAMP NULL)",
        "CREATE TABLE n (x INT, s VARCHAR(9))",
        database=database,
    )
    postgres.execute(
        f'SET search_path = "{database}"',
        "CREATE TABLE k (id INT PRIMARY KEY, v INT, s TEXT, b BYTEA, e TEXT, f TEXT, m NUMERIC(9,2), d TIMESTAMP(3), "
        "t TIMESTAMPTZ)",
        "CREATE TABLE n (x INT, s TEXT)",
    )
    command, chance = _command(door, postgres, database, tmp_path), random.Random(5)
    for _ in range(3):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            deadline = time.monotonic() + chance.uniform(3.0, 5.0)
            while time.monotonic() < deadline:
                mysql8.execute(*_changes(chance), database=database)
            process.send_signal(signal.SIGKILL)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            _until_equal(mysql8, postgres, database, "SELECT x, s FROM n")
            _until_equal(mysql8, postgres, database, "SELECT id, v, s, b, e, f, m, d FROM k")
            _until_equal(mysql8, postgres, database, "SELECT id FROM k WHERE t > '2020-01-01'")
        finally:
            process.kill()
    assert len(postgres.execute(f'SELECT id FROM "{database}".k')) > 10


def _changes(chance: random.Random) -> list[str]:
    key = chance.randrange(200)
    quoted = chance.choice(["'a''b'", "'back\\\\slash'", "'\u65e5\u672c'", "''", "NULL"])
    return [
        f"REPLACE INTO k VALUES ({key}, {chance.randrange(9)}, {quoted}, x'00ff27', 'it''s', 'p,r', 1.5, "
        f"'2024-01-02 03:04:05.678', '2024-05-06 07:08:09'), ({key + 1}, 2, NULL, NULL, 'x', '', -7, NULL, NULL)",
        f"UPDATE k SET v = v + 1 WHERE id > {chance.randrange(200)} LIMIT 5",
        f"UPDATE IGNORE k SET id = id + 300 WHERE id = {chance.randrange(200)}",
        f"DELETE FROM k WHERE id = {chance.randrange(200)}",
        f"INSERT INTO n VALUES ({chance.randrange(5)}, 'a'), ({chance.randrange(5)}, NULL)",
        "UPDATE n SET s = 'b' WHERE s = 'a' LIMIT 1",
        "DELETE FROM n WHERE x = 3 LIMIT 1",
    ]


def test_rows_that_the_target_cannot_take_stop_with_a_remedy(
    mysql8: MySqlServer, postgres: Postgres, database: str, door: TcpDoor, tmp_path: Path
) -> None:
    """A column that PostgreSQL lacks: nothing of the batch is written, and it goes on when the column is there."""
    mysql8.execute("CREATE TABLE c (id INT PRIMARY KEY)", database=database)
    postgres.execute(f'CREATE TABLE "{database}".c (id INT PRIMARY KEY)')
    words = _command(door, postgres, database, tmp_path)
    target, rules = words[words.index("--target") + 1], Path(words[words.index("--rules") + 1])
    source = Source("shop", f"127.0.0.1:{door.port}", "", 1001, "", "")
    mysql8.execute(
        "INSERT INTO c VALUES (1)", "ALTER TABLE c ADD w INT", "INSERT INTO c VALUES (2, 7)", database=database
    )
    with pytest.raises(TableStopped, match='column "w"') as raised:
        run(source, rules, target, "", 1, 10, as_json=True)
    assert raised.value.place == f"{database}.c"
    postgres.execute(f'ALTER TABLE "{database}".c ADD w INT')
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            _until_equal(mysql8, postgres, database, "SELECT id, w FROM c")
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
