"""The schema history in front of real servers: old rows have the columns of their time, also after a rewind."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cdc_core.destination.capture import Capture
from cdc_core.destination.catalogue import Catalogue
from cdc_core.destination.rewind import RewindTarget, carry_out, plan
from cdc_core.destination.tsdb import make_tsdb
from cdc_core.errors import SchemaError
from cdc_core.meta.cursors import Cursors
from cdc_core.meta.file import FileNodes
from cdc_core.meta.nodes import MemoryNodes, Nodes
from cdc_core.position import EntryPosition
from cdc_core.schema.ddl import Ddl
from cdc_core.schema.table import Column, TableSchema
from orchestration.stack.mysql.server import MySqlServer
from tests.support.captures import CLIENT, all_read, claim, config, drain, execute, running
from tests.support.matrix_runs import row_metadata
from tests.support.servers import settings_of

pytestmark = pytest.mark.integration

SERVERS = [("mysql8", "MINIMAL"), ("mysql8", "FULL"), ("mysql57", ""), ("mariadb", "NO_LOG")]
STEPS = [
    "ALTER TABLE t ADD c INT NOT NULL DEFAULT 7 COMMENT 'seventh'",
    "ALTER TABLE t ALTER c SET DEFAULT 9",
    "ALTER TABLE t CHANGE a b INT, CHANGE b a INT",
    "ALTER TABLE t DROP COLUMN c, MODIFY v VARCHAR(40) CHARACTER SET utf8 FIRST",
]


@contextmanager
def metadata(server: MySqlServer, value: str) -> Iterator[None]:
    """With that binlog_row_metadata, where the server has it."""
    if not value:
        yield
        return
    with row_metadata(server, value):
        yield


@pytest.mark.parametrize(("name", "level"), SERVERS)
def test_rows_have_the_columns_of_their_time(name: str, level: str, request: pytest.FixtureRequest) -> None:
    """As they come, and again from the beginning, when the table has other columns."""
    server = request.getfixturevalue(name)
    nodes = MemoryNodes()
    with server.database() as shop, metadata(server, level):
        execute(server, shop, "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, v VARCHAR(20) CHARACTER SET latin1)")
        begin = EntryPosition(*server.position())
        with running(config(server, shop), nodes) as capture:
            assert capture.service.claim(CLIENT, 10, 0.1, "run-1", 60) is None
            for number, step in enumerate([None, *STEPS]):
                if step:
                    execute(server, shop, step)
                execute(server, shop, f"INSERT INTO t (id, a, b, v) VALUES ({number}, 1, 2, 'é')")
            first = seen(capture, 5)
        execute(server, shop, "ALTER TABLE t ADD z1 INT, ADD z2 INT, ADD z3 INT")
        rewind(server, nodes, begin)
        with running(config(server, shop), nodes) as capture:
            again = seen(capture, 5)

        assert [names(one) for one in first] == ["id a b v", "id a b v c", "id a b v c", "id b a v c", "v id b a"]
        assert first == again
        assert [one.columns[-1].default for one in first[1:4]] == ["7", "9", "9"]
        assert first[1].columns[-1].comment == "seventh"
        assert all(column.name and column.column_type for one in first for column in one.columns)


def seen(capture: Capture, rows: int) -> list[TableSchema]:
    """The definitions of the rows that come, in their order; everything is acked."""
    drain(capture, rows)
    known = [capture.registry.get(number) for number in range(len(capture.registry))]
    return [schema for schema in known if schema.columns]  # without the names that CREATE statements make


def names(schema: TableSchema) -> str:
    return " ".join(column.name for column in schema.columns)


def rewind(server: MySqlServer, nodes: Nodes, to: EntryPosition) -> None:
    cursors = Cursors(nodes, "shop")
    carry_out(cursors, plan(settings_of(server), cursors, RewindTarget(to)))


def test_a_restart_goes_on_with_the_history(mysql57: MySqlServer, tmp_path: Path) -> None:
    """From files: a statement and its rows that were written while nobody read get the names of their time."""
    path = tmp_path / "shop" / "cursors.json"
    with mysql57.database() as shop:
        execute(mysql57, shop, "CREATE TABLE t (a INT PRIMARY KEY, b INT)")
        with running(config(mysql57, shop), FileNodes(path)) as capture:
            assert capture.service.claim(CLIENT, 10, 0.1, "run-1", 60) is None
            execute(mysql57, shop, "INSERT INTO t VALUES (1, 2)")
            drain(capture, 1)
        execute(mysql57, shop, "ALTER TABLE t CHANGE b c INT DEFAULT 5", "INSERT INTO t VALUES (3, 4)")
        execute(mysql57, shop, "ALTER TABLE t CHANGE c d INT", "CREATE TABLE u LIKE t", "RENAME TABLE t TO v, u TO t")
        with running(config(mysql57, shop), FileNodes(path)) as capture:
            (row,) = seen(capture, 1)

        assert (names(row), row.columns[1].default) == ("a c", "5")


def test_statements_show_the_definitions_around_them(mysql57: MySqlServer) -> None:
    """A claim has them, exact; also of a statement that the claim reads long after."""
    with mysql57.database() as shop:
        execute(mysql57, shop, "CREATE TABLE t (a INT PRIMARY KEY, b INT)")
        with running(config(mysql57, shop), MemoryNodes()) as capture:
            assert capture.service.claim(CLIENT, 10, 0.1, "run-1", 60) is None
            execute(mysql57, shop, "ALTER TABLE t ADD c INT DEFAULT 7", "ALTER TABLE t ALTER c SET DEFAULT 9")
            execute(mysql57, shop, "INSERT INTO t (a) VALUES (1)")
            all_read(capture, mysql57)
            found = claim(capture)
            added, changed = (one.effects[0] for one in found.ddl)

    assert added.before is not None
    assert added.schema is not None
    assert changed.schema is not None
    assert (names(added.before), names(added.schema)) == ("a b", "a b c")
    assert (added.schema.columns[2].default, changed.schema.columns[2].default) == ("7", "9")
    assert changed.before == added.schema


@pytest.mark.parametrize(("name", "level"), SERVERS)
def test_defaults_that_the_text_leaves_open_are_asked_for(
    name: str, level: str, request: pytest.FixtureRequest
) -> None:
    """By the first row; the statements around it tell exact definitions all the same, whenever they are read."""
    server = request.getfixturevalue(name)
    made = "CREATE TABLE t (a INT PRIMARY KEY, d DOUBLE(9,2) DEFAULT '1.234' COMMENT 'odd', v VARCHAR(9) DEFAULT 0x41)"
    with (
        server.database() as shop,
        metadata(server, level),
        running(config(server, shop), MemoryNodes()) as capture,
    ):
        assert capture.service.claim(CLIENT, 10, 0.1, "run-1", 60) is None
        execute(server, shop, made, "INSERT INTO t (a) VALUES (1)")
        execute(server, shop, "ALTER TABLE t MODIFY v VARCHAR(20) DEFAULT 'b' 'c'", "INSERT INTO t (a) VALUES (2)")
        execute(server, shop, "ALTER TABLE t ADD b INT")
        all_read(capture, server)
        statements = [one for _ in range(3) for one in told(capture)]
        first, second = seen(capture, 0)

    created, modified, widened = (one.effects[0] for one in statements)
    assert [one.schema and names(one.schema) for one in (created, modified, widened)] == ["a d v", "a d v", "a d v b"]
    assert created.schema is not None
    assert modified.before is not None
    assert modified.before.version == created.schema.version
    assert [(c.default, c.default_expression) for c in created.schema.columns[1:]] == [("1.234", True), ("0x41", True)]
    assert (first.columns[1].default, first.columns[1].default_expression) == ("1.23", False)
    assert [(c.default, c.default_expression) for c in second.columns[1:]] == [("1.23", False), ("bc", False)]
    assert "default_as_written" not in str([one.to_dict() for one in (first, second, created.schema, modified.before)])


def told(capture: Capture) -> tuple[Ddl, ...]:
    """The statements of the next claim, which is acked."""
    found = claim(capture)
    capture.service.ack(CLIENT, found.batch_id, found.owner)
    return found.ddl


def test_a_contradiction_shows_all_definitions(mysql57: MySqlServer) -> None:
    """An event of a definition that was changed unlogged, and changed again since. The error belongs to its table."""
    with mysql57.database() as shop:
        execute(mysql57, shop, "CREATE TABLE t (a INT PRIMARY KEY)")
        begin, settings = EntryPosition(*mysql57.position()), config(mysql57, shop)
        catalogue = Catalogue(settings, settings_of(mysql57), lambda database, _: database == shop)
        tsdb = make_tsdb(settings, MemoryNodes(), catalogue, time.time)
        tsdb.begin("one", begin)
        unlogged(mysql57, shop, "ALTER TABLE t ADD b DATE, ADD c DOUBLE")
        event = TableSchema(shop, "t", (Column("", 3, 0, nullable=False), Column("", 10, 0)))

        with pytest.raises(SchemaError, match="neither from the schema history nor from the catalogue") as caught:
            tsdb.resolve(event, begin)

    for columns in ("binlog has (? long, ? date)", "history (a int(11))", "catalogue (a int(11), b date, c double)"):
        assert columns in caught.value.message


def unlogged(server: MySqlServer, database: str, statement: str) -> None:
    """Executes a statement that no binlog has."""
    with server.root(database) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_log_bin = 0")
        cursor.execute(statement)


def test_an_unlogged_change_is_found(mysql8: MySqlServer) -> None:
    """The catalogue settles what the binlog does not show, and the history has it from then on."""
    with mysql8.database() as shop, metadata(mysql8, "MINIMAL"):
        execute(mysql8, shop, "CREATE TABLE t (a INT PRIMARY KEY)")
        with running(config(mysql8, shop), MemoryNodes()) as capture:
            assert capture.service.claim(CLIENT, 10, 0.1, "run-1", 60) is None
            unlogged(mysql8, shop, "ALTER TABLE t ADD b INT COMMENT 'unlogged'")
            execute(mysql8, shop, "INSERT INTO t VALUES (1, 2)", "INSERT INTO t VALUES (2, 3)")
            (row,) = seen(capture, 2)

    assert (names(row), row.columns[1].comment) == ("a b", "unlogged")
