"""What Canal's clients get otherwise than from Canal: docs/canal-clients.md, "What differs from Canal, on purpose"."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from cdc_core.canal.entries.kinds import CanalEventType, EntryType
from orchestration.stack.mysql.server import MySqlServer
from tests.support.canal_client import connected
from tests.support.canal_service import canal_service
from tests.support.entries import store_of

pytestmark = pytest.mark.integration

STATEMENTS = (
    *("XA START 'x'", "INSERT INTO t VALUES (1, 'xa')", "XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'"),
    *("XA START 'y'", "INSERT INTO t VALUES (2, 'never')", "XA END 'y'", "XA PREPARE 'y'", "XA ROLLBACK 'y'"),
    "CREATE TABLE j (id INT PRIMARY KEY, h INT INVISIBLE, d JSON)",
    """INSERT INTO j (id, h, d) VALUES (1, 7, JSON_ARRAY(1e20, 1e-7, CAST('2024-02-29' AS DATE),
       CAST('2024-02-29 01:02:03' AS DATETIME), CAST(x'4142' AS JSON)))""",
    "CREATE TABLE `a``b` (`x``y` INT(5) PRIMARY KEY, n NCHAR(3), f FLOAT(30))",
    "INSERT INTO `a``b` VALUES (1, 'n', 2)",
    *("CREATE TABLE IF NOT EXISTS t (id INT)", "DROP TABLE IF EXISTS nowhere"),
    *("CREATE TABLE r (id INT PRIMARY KEY) ENGINE=MyISAM", "REPAIR TABLE r", "ANALYZE TABLE r", "OPTIMIZE TABLE r"),
    "ALTER DATABASE {database} CHARACTER SET latin1",
    *("CREATE TABLE c (id INT PRIMARY KEY, p INT)", "ALTER TABLE c ADD FOREIGN KEY (p) REFERENCES t (id)"),
    *("ALTER TABLE c ADD CONSTRAINT q CHECK (p > 0)", "ALTER TABLE c DROP CHECK q"),
    "SET binlog_rows_query_log_events = 1",
    *("INSERT INTO left_out VALUES (1)", "INSERT INTO t VALUES (3, 'asked')"),
    *("SET binlog_rows_query_log_events = 0", "SET binlog_transaction_compression = 1"),
    "INSERT INTO t SELECT 10 + n, REPEAT('b', 200000) FROM (SELECT 1 n UNION SELECT 2 UNION SELECT 3 UNION SELECT 4) z",
    *("SET binlog_transaction_compression = 0", "INSERT INTO t VALUES (99, 'last')"),
)


class Seen(NamedTuple):
    """One entry, and the number of its batch."""

    batch: int
    kind: EntryType
    event: CanalEventType | None
    table: str
    header: Any
    store: Any

    @property
    def values(self) -> list[list[str]]:
        return [[column.value for column in row.afterColumns] for row in self.store.rowDatas]


@pytest.fixture(scope="module")
def seen(mysql8: MySqlServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Seen]]:
    """All that a client gets of the statements."""
    with mysql8.database() as database:
        mysql8.execute("CREATE TABLE t (id INT PRIMARY KEY, v LONGTEXT)", database=database)
        mysql8.execute("CREATE TABLE left_out (id INT PRIMARY KEY)", database=database)
        folder = tmp_path_factory.mktemp("differences")
        with canal_service(mysql8, database, folder, tables="(?!left_out$).*") as door, connected(door.port) as client:
            client.subscribe()
            with mysql8.root(database) as link, link.cursor() as cursor:
                for statement in STATEMENTS:
                    cursor.execute(statement.format(database=database) if "{" in statement else statement)
                    cursor.fetchall()
            found: list[Seen] = []
            while not any(one.kind == EntryType.ROWDATA and ["99", "last"] in one.values for one in found):
                messages = client.get(100_000, 30, 3)
                assert messages.batch_id > 0, found[-1:]
                found += [_seen(messages.batch_id, entry) for entry in client.entries(messages)]
                client.ack(messages.batch_id)
            yield found


def _seen(batch: int, entry: Any) -> Seen:
    kind, store = EntryType(entry.entryType), store_of(entry)
    event = CanalEventType(store.eventType) if kind is EntryType.ROWDATA else None
    return Seen(batch, kind, event, entry.header.tableName, entry.header, store)


def rows(seen: list[Seen], table: str) -> list[list[str]]:
    return [
        values for one in seen if one.event is CanalEventType.INSERT and one.table == table for values in one.values
    ]


def statements(seen: list[Seen], word: str) -> list[tuple[CanalEventType | None, str]]:
    return [(one.event, one.table) for one in seen if one.event and word in one.store.sql]


def test_xa_comes_once_with_its_commit(seen: list[Seen]) -> None:
    """As one transaction; of a rollback nothing comes, and neither statement has an entry."""
    assert [one.kind.name for one in seen[:3]] == ["TRANSACTIONBEGIN", "ROWDATA", "TRANSACTIONEND"]
    assert seen[1].values == [["1", "xa"]]
    assert ["2", "never"] not in rows(seen, "t")
    assert not any(one.event in (CanalEventType.XACOMMIT, CanalEventType.XAROLLBACK) for one in seen)


def test_json_and_invisible_columns(seen: list[Seen]) -> None:
    """Documents are the server's own text; an invisible column is a column."""
    ((key, hidden, document),) = rows(seen, "j")
    assert (key, hidden) == ("1", "7")
    assert document.startswith("[1e20, 0.0000001, ")
    assert json.loads(document)[2:] == ["2024-02-29", "2024-02-29 01:02:03.000000", "base64:type15:QUI="]


def test_names_and_types_are_the_catalogues(seen: list[Seen]) -> None:
    """A backtick in a name is one, and `mysqlType` is not what the statement has written."""
    assert statements(seen, "CREATE TABLE `a``b`") == [(CanalEventType.CREATE, "a`b")]
    (row,) = [one for one in seen if one.event is CanalEventType.INSERT and one.table == "a`b"]
    columns = [(column.name, column.mysqlType) for column in row.store.rowDatas[0].afterColumns]
    assert columns == [("x`y", "int"), ("n", "char(3)"), ("f", "double")]


def test_statements_without_entries_and_with(seen: list[Seen]) -> None:
    """What changes nothing has none, but DROP IF EXISTS; ALTER DATABASE and constraints have one."""
    assert statements(seen, "IF NOT EXISTS t") == []
    assert statements(seen, "nowhere") == [(CanalEventType.ERASE, "nowhere")]
    assert [one for word in ("REPAIR", "ANALYZE", "OPTIMIZE") for one in statements(seen, word)] == []
    assert statements(seen, "ALTER DATABASE") == [(CanalEventType.QUERY, "")]
    for word in ("ADD FOREIGN KEY", "ADD CONSTRAINT q CHECK", "DROP CHECK q"):
        assert statements(seen, word) == [(CanalEventType.ALTER, "c")]


def test_a_statement_after_rows_begins_a_batch(seen: list[Seen]) -> None:
    """In a batch all statements come before the rows."""
    for batch in {one.batch for one in seen}:
        ddl = [one.store.isDdl for one in seen if one.batch == batch and one.kind is EntryType.ROWDATA]
        assert ddl == sorted(ddl, reverse=True)


def test_texts_of_statements_come_before_captured_rows_alone(seen: list[Seen]) -> None:
    """Of `binlog_rows_query_log_events`."""
    texts = [one.store.sql for one in seen if one.event is CanalEventType.QUERY and not one.store.isDdl]
    assert texts == ["INSERT INTO t VALUES (3, 'asked')"]


def test_places_inside_a_large_compressed_transaction(seen: list[Seen]) -> None:
    """They rise within the event, of which the transaction is one."""
    large = [one for one in seen if one.event is CanalEventType.INSERT and len(one.values[0][1]) == 200_000]
    places = [one.header.logfileOffset for one in large]
    assert sum(len(one.values) for one in large) == 4
    assert places == sorted(places)
    assert places[0] < places[-1] < places[0] + large[0].header.eventLength
