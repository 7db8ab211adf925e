"""Chunks of tables on real servers: keys of every type and collation, under writes, and the errors."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pymysql
import pytest

from cdc_core.schema.information_schema import definition
from cdc_core.schema.table import TableSchema
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.snapshot import chunks
from spark_jobs.snapshot.chunk import COMPARED, Chunk, where
from spark_jobs.snapshot.chunks import UnorderedKey, last_key, plan_chunks
from spark_jobs.snapshot.reading import read_chunk
from spark_jobs.snapshot.source import Source, connect

pytestmark = pytest.mark.integration

ROWS, SIZE = 120, 17
Draw = Callable[[Random], str]
_LETTERS = " aAáÁbBzZéßÆ_~-"
_SETTINGS = "SET SESSION sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'"


_MORE = [pytest.param(name, marks=pytest.mark.full) for name in ("mysql57", "mysql9")]


@pytest.fixture(params=["mysql8", "mariadb", *_MORE])
def server(request: pytest.FixtureRequest) -> MySqlServer:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, MySqlServer)
    return found


def numbers(low: int, high: int) -> Draw:
    return lambda rng: str(rng.choice([low, high, rng.randint(low, high), max(low, min(high, rng.randint(-9, 99)))]))


def text(letters: str, most: int = 8) -> Draw:
    """A text that may end in blanks, and in what sorts before a blank."""

    def draw(rng: Random) -> str:
        drawn = "".join(rng.choices(letters, k=rng.randint(0, most))) + rng.choice(["", "", " ", "\t"])
        return "'" + drawn.replace("\\", "\\\\").replace("'", "''") + "'"

    return draw


def moments(rng: Random) -> str:
    day = rng.choice(["0000-00-00", "2024-00-00", "2023-02-31", "9999-12-31", f"{rng.randint(1000, 2100)}-07-09"])
    clock = f"{rng.randrange(24):02d}:{rng.randrange(60):02d}:59.{rng.randrange(10**6):06d}"
    return f"'{day} {clock}'" if day != "0000-00-00" else "'0000-00-00 00:00:00'"


BYTES: Draw = lambda rng: f"x'{rng.randbytes(rng.randint(0, 6)).hex()}{rng.choice(['', '00', '20'])}'"  # noqa: E731
LABELS = ",".join(f"'e{number}'" for number in range(300, 0, -1))
KEYS: dict[str, tuple[str, Draw]] = {
    "tinyint": ("TINYINT", numbers(-128, 127)),
    "bigint": ("BIGINT", numbers(-(1 << 63), (1 << 63) - 1)),
    "unsigned": ("BIGINT UNSIGNED", numbers(0, (1 << 64) - 1)),
    "zerofill": ("INT(6) ZEROFILL", numbers(0, 1 << 31)),
    "decimal": ("DECIMAL(40,5)", lambda rng: f"{rng.randint(-(10**20), 10**20)}.{rng.randrange(10**5)}"),
    "float": ("FLOAT", lambda rng: repr(rng.uniform(-1, 1) * 10 ** rng.randint(-30, 30))),
    "double": ("DOUBLE", lambda rng: repr(rng.uniform(-1, 1) * 10 ** rng.randint(-300, 300))),
    "bit": ("BIT(64)", numbers(0, (1 << 64) - 1)),
    "year": ("YEAR", lambda rng: str(rng.choice([0, rng.randint(1901, 2155)]))),
    "date": ("DATE", lambda rng: moments(rng)[:11] + "'"),
    "datetime": ("DATETIME(6)", moments),
    "timestamp": ("TIMESTAMP(3) NOT NULL DEFAULT 0", lambda rng: f"FROM_UNIXTIME({rng.randint(1, 2**31 - 1)}.125)"),
    "time": ("TIME(2)", lambda rng: f"'{rng.randint(-838, 838)}:{rng.randint(0, 59)}:{rng.randint(0, 59)}.25'"),
    "enum": (f"ENUM({LABELS})", lambda rng: str(rng.randint(1, 300))),
    "binary": ("BINARY(8)", BYTES),
    "varbinary": ("VARBINARY(20)", BYTES),
    "char": ("CHAR(12) COLLATE utf8mb4_general_ci", text(_LETTERS)),
    "insensitive": ("VARCHAR(20) COLLATE utf8mb4_unicode_ci", text(_LETTERS)),
    "bytes of text": ("VARCHAR(20) COLLATE utf8mb4_bin", text(_LETTERS + "漢😀'")),
    "latin1": ("VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_german2_ci", text(_LETTERS)),
    "utf16": ("VARCHAR(20) CHARACTER SET utf16", text(_LETTERS)),
    "cp932": ("VARCHAR(20) CHARACTER SET cp932", text("a漢字カｶ\\")),
    "czech": ("CHAR(20) CHARACTER SET latin2 COLLATE latin2_czech_cs", text("achHčzZ ")),
    "thai": ("VARCHAR(20) CHARACTER SET tis620", text("aกขคเแ")),
    "utf8": ("VARCHAR(20) CHARACTER SET utf8 COLLATE utf8_swedish_ci", text(_LETTERS + "åäö")),
}  # fmt: skip
PADDED = {
    "no pad": ("VARCHAR(20) COLLATE utf8mb4_0900_ai_ci", text(_LETTERS)),
    "no pad char": ("CHAR(12) COLLATE utf8mb4_0900_as_cs", text(_LETTERS)),
}
MARIADB = {
    "uuid": ("UUID", lambda rng: f"'{rng.getrandbits(128):032x}'"),
    "inet6": ("INET6", lambda rng: f"'::{rng.getrandbits(16):x}:{rng.getrandbits(16):x}'"),
    "no pad": ("VARCHAR(20) COLLATE utf8mb4_nopad_bin", text(_LETTERS)),
}
MIXED = ("enum", "insensitive", "bigint", "varbinary", "datetime", "float")


def keys(server: MySqlServer) -> dict[str, list[tuple[str, Draw]]]:
    """The columns of each table's key."""
    own = {"mysql57": {}, "mariadb": MARIADB}.get(server.version.replace("5.7.22", "mysql57"), PADDED)
    single = {name: [column] for name, column in (KEYS | own).items()}
    few: tuple[str, Draw] = ("INT", lambda rng: str(rng.randint(1, 2)))
    pairs = {f"few and {name}": [few, KEYS[name]] for name in MIXED}
    return single | pairs | {"three": [few, few, KEYS["insensitive"]], "two": [KEYS["insensitive"], KEYS["bigint"]]}


def make(cursor: Any, table: str, columns: list[tuple[str, Draw]]) -> None:
    declared = ", ".join(f"k{at} {kind}" for at, (kind, _) in enumerate(columns))
    key = ", ".join(f"k{at}" for at in range(len(columns)))
    cursor.execute(f"CREATE TABLE {table} ({declared}, v INT, PRIMARY KEY ({key}), KEY (v)) ENGINE = InnoDB")


def insert(cursor: Any, rng: Random, table: str, columns: list[tuple[str, Draw]], rows: int, value: int) -> None:
    drawn = (f"({', '.join(draw(rng) for _, draw in columns)}, {value})" for _ in range(rows))
    cursor.execute(f"INSERT IGNORE INTO {table} VALUES {', '.join(drawn)}")


def schema_of(server: MySqlServer, database: str, table: str) -> TableSchema:
    with server.root() as connection:
        found = definition(connection, database, table)
    assert found is not None
    return found


def source(server: MySqlServer) -> Source:
    return Source(server.host, server.port, server.user, server.password)


@contextmanager
def reading(server: MySqlServer) -> Iterator[pymysql.Connection[Any]]:
    with connect(source(server)) as connection, connection.cursor() as cursor:
        cursor.execute(COMPARED)
        yield connection


def rows_of(connection: pymysql.Connection[Any], schema: TableSchema, condition: str) -> list[tuple[Any, ...]]:
    """The keys as the bytes that are stored, and the value."""
    wanted = ", ".join(f"HEX(WEIGHT_STRING(k{at})), HEX(k{at})" for at in range(len(schema.primary_key)))
    with connection.cursor() as cursor:
        connection.rollback()
        cursor.execute(
            f"SELECT {wanted}, v FROM {schema.name} FORCE INDEX (PRIMARY)"
            + (f" WHERE {condition}" if condition else "")
        )
        return list(cursor.fetchall())


def touched(connection: pymysql.Connection[Any]) -> int:
    """How many rows the session read so far, by index or by scan."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW SESSION STATUS LIKE 'Handler_read%'")
        return sum(int(count) for _, count in cursor.fetchall())


def reads(connection: pymysql.Connection[Any], schema: TableSchema, condition: str) -> tuple[list[Any], int]:
    """The rows, and how many rows the server read for them."""
    before = touched(connection)
    cost = touched(connection) - before  # of the question itself
    before += cost
    rows = rows_of(connection, schema, condition)
    return rows, touched(connection) - before - cost


def test_a_unique_index_may_be_the_key(server: MySqlServer) -> None:
    """A table without a primary key is cut by the UNIQUE index that the server takes in its place, where events name
    it; elsewhere it is one chunk."""
    with server.database() as database:
        server.execute(
            f"CREATE TABLE {database}.t (n INT, a INT NOT NULL, b VARCHAR(9) NOT NULL, UNIQUE u (b, a), UNIQUE n (n))",
            f"INSERT INTO {database}.t VALUES {', '.join(f'(NULL, {n}, {n % 9})' for n in range(ROWS))}",
        )
        schema = schema_of(server, database, "t")
        with connect(source(server)) as walk:
            planned = list(plan_chunks(walk, schema, SIZE))
        found = [
            batch.column(1) for chunk in planned for batch in read_chunk(source(server), schema, where(schema, chunk))
        ]
        assert sorted(value.as_py() for column in found for value in column) == list(range(ROWS))
        assert len(planned) == (1 if server.version == "5.7.22" else ROWS // SIZE + 1)


def test_every_row_is_in_one_chunk(server: MySqlServer) -> None:
    """Of keys of every type and collation; the chunks are of one size, and a range of the index gives each."""
    rng = Random(11)
    with server.database() as database, server.root(database) as root, reading(server) as connection:
        for number, (name, columns) in enumerate(keys(server).items()):
            with root.cursor() as cursor:
                cursor.execute(_SETTINGS)
                make(cursor, f"t{number}", columns)
                insert(cursor, rng, f"t{number}", columns, ROWS, 1)
            schema = schema_of(server, database, f"t{number}")
            with connect(source(server)) as walk:
                planned = list(plan_chunks(walk, schema, SIZE))
            parts = []
            for chunk in planned:
                condition = where(schema, chunk)
                part, cost = reads(connection, schema, condition)
                assert cost <= len(part) + 12 + condition.count(","), (name, condition)
                parts.append(part)
            rows = rows_of(connection, schema, "")
            assert Counter(row for part in parts for row in part) == Counter(rows), name
            assert [len(part) for part in parts] == [SIZE] * (len(rows) // SIZE) + [len(rows) % SIZE], name


def test_rows_that_stay_are_in_one_chunk_while_others_come_and_go(mysql8: MySqlServer) -> None:
    """Also where a bound's own row is deleted before its chunk is read."""
    rng, over = Random(7), threading.Event()
    columns = [KEYS["insensitive"], KEYS["bigint"]]
    with mysql8.database() as database, mysql8.root(database) as root:
        with root.cursor() as cursor:
            make(cursor, "t", columns)
            insert(cursor, rng, "t", columns, 400, 1)
            insert(cursor, rng, "t", columns, 400, 2)
        schema = schema_of(mysql8, database, "t")

        def write() -> None:
            with mysql8.root(database) as connection, connection.cursor() as cursor:
                while not over.is_set():
                    insert(cursor, rng, "t", columns, 40, 3)
                    cursor.execute("DELETE FROM t WHERE v > 1 ORDER BY RAND() LIMIT 60")

        writer = threading.Thread(target=write)
        with connect(source(mysql8)) as walk, reading(mysql8) as connection:
            stay = [row for row in rows_of(connection, schema, "") if row[-1] == 1]
            writer.start()
            try:
                found = [
                    row
                    for chunk in plan_chunks(walk, schema, SIZE)
                    for row in rows_of(connection, schema, where(schema, chunk))
                ]
            finally:
                over.set()
                writer.join()
        assert Counter(row for row in found if row[-1] == 1) == Counter(stay)


def test_a_table_without_rows_or_without_an_order_is_one_chunk(mysql8: MySqlServer) -> None:
    """Empty; of one row; without a key; with an index of prefixes; one that goes up and down; a SET."""
    whole = [Chunk(0)]
    cases = {
        "a INT PRIMARY KEY": (0, whole),
        "a INT PRIMARY KEY, b INT": (1, whole),
        "a INT": (9, whole),
        "a TEXT, PRIMARY KEY (a(5))": (9, whole),
        "a INT, b INT, PRIMARY KEY (a, b DESC)": (9, whole),
        "a SET('1','2','3','4'), PRIMARY KEY (a)": (9, whole),
        "a INT, b INT, PRIMARY KEY (b DESC)": (2, [Chunk(0, None, ("2",)), Chunk(1, ("2",))]),
    }
    with mysql8.database() as database, mysql8.root(database) as root, root.cursor() as cursor:
        for declared, (rows, expected) in cases.items():
            cursor.execute(f"CREATE TABLE t ({declared})")
            for number in range(1, rows + 1):
                values = ", ".join([str(number)] * (declared.count("INT") or 1))
                cursor.execute(f"INSERT INTO t VALUES ({values})")
            with connect(source(mysql8)) as walk:
                assert list(plan_chunks(walk, schema_of(mysql8, database, "t"), 2)) == expected, declared
            cursor.execute("DROP TABLE t")


def test_a_walk_goes_on_after_a_chunk(mysql8: MySqlServer) -> None:
    """With the numbers that follow; after the last chunk there is none."""
    with mysql8.database() as database, mysql8.root(database) as root, root.cursor() as cursor:
        cursor.execute("CREATE TABLE t (a INT PRIMARY KEY)")
        cursor.execute("INSERT INTO t VALUES (1), (2), (5), (6), (9)")
        schema = schema_of(mysql8, database, "t")
        with connect(source(mysql8)) as walk:
            planned = list(plan_chunks(walk, schema, 2))
        assert planned == [Chunk(0, None, ("2",)), Chunk(1, ("2",), ("6",)), Chunk(2, ("6",))]
        for number, chunk in enumerate(planned):
            with connect(source(mysql8)) as walk:
                assert list(plan_chunks(walk, schema, 2, after=chunk)) == planned[number + 1 :]


def test_a_key_that_does_not_compare_as_itself_is_refused(mysql8: MySqlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of chunks that miss rows, or have them twice."""
    with mysql8.database() as database, mysql8.root(database) as root, root.cursor() as cursor:
        cursor.execute("CREATE TABLE t (a INT PRIMARY KEY)")
        cursor.execute("INSERT INTO t VALUES (1), (2), (3)")
        monkeypatch.setattr(chunks, "at", lambda *_: "a = 7")
        with connect(source(mysql8)) as walk, pytest.raises(UnorderedKey, match=r"\(2\) does not match the stored key"):
            list(plan_chunks(walk, schema_of(mysql8, database, "t"), 2))


def test_the_walk_ends_however_fast_others_append(mysql8: MySqlServer) -> None:
    """More rows come at the table's end than a chunk has: they are in the last one."""
    with mysql8.database() as database, connect(source(mysql8)) as asked, connect(source(mysql8)) as walk:
        mysql8.execute(
            "CREATE TABLE t (a INT AUTO_INCREMENT, b CHAR(3), PRIMARY KEY (b, a), KEY (a))",
            "INSERT INTO t (b) VALUES ('a'), ('a'), ('b'), ('b'), ('c')",
            database=database,
        )
        schema = schema_of(mysql8, database, "t")
        upto, planned = last_key(asked, schema), list[Chunk]()
        for chunk in plan_chunks(walk, schema, 2, upto=upto):
            planned.append(chunk)
            assert len(planned) < 9
            mysql8.execute("INSERT INTO t (b) VALUES ('x'), ('y'), ('z')", database=database)
        assert len(planned) == 3
        found = [
            row
            for chunk in planned
            for part in read_chunk(source(mysql8), schema, where(schema, chunk))
            for row in part.column("a").to_pylist()
        ]
        assert sorted(found) == list(range(1, 15))
