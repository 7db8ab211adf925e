"""A real server's binlog as Canal's entries."""

from __future__ import annotations

from typing import Any

import pytest

from cdc_core.binlog.block import BlockSlice
from cdc_core.binlog.payload import expand
from cdc_core.canal.entries.encode import Encoder
from cdc_core.canal.entries.kinds import CanalEventType, EntryType
from cdc_core.canal.entries.options import Options
from cdc_core.gtid import parse_gtids
from cdc_core.stream.ddl_events import DdlReader
from orchestration.stack.mysql.server import MySqlServer
from tests.support.annotated import annotated
from tests.support.binlog_files import capture
from tests.support.entries import entries_of, props, store_of, values
from tests.support.servers import executed_gtids

pytestmark = pytest.mark.integration

COLUMNS = """
    id BIGINT UNSIGNED PRIMARY KEY, tiny TINYINT UNSIGNED, number INT, big BIGINT, price DECIMAL(12,2),
    single FLOAT, twice DOUBLE, name VARCHAR(80), fixed CHAR(5), note TEXT, raw VARBINARY(20), padded BINARY(4),
    photo BLOB, kind ENUM('red','green'), marks SET('a','b','c'), bits BIT(10), flag BIT(1), born DATE, at TIME(3),
    seen DATETIME(6), stamp TIMESTAMP(2) NULL, made YEAR, doc JSON"""
ROW = """(18446744073709551615, 200, -7, -9223372036854775808, -12.50, 1.1, 12345678.9, 'Zoë 漢', 'ab', 'long',
    0x00FF41, 0x4100, 0xC3A9, 'green', 'a,c', 513, 1, '2024-02-29', '-01:02:03.450', '2024-02-29 10:11:12.000345',
    '2024-02-29 10:11:12.34', 1999, '{"a": [1, 2.5]}')"""
EXPECTED = {
    "id": "18446744073709551615",
    "tiny": "200",
    "number": "-7",
    "big": "-9223372036854775808",
    "price": "-12.50",
    "single": "1.1",
    "twice": "1.23456789E7",
    "name": "Zoë 漢",
    "fixed": "ab",
    "note": "long",
    "raw": "\x00\xffA",
    "padded": "A",
    "photo": "\xc3\xa9",
    "kind": "2",
    "marks": "5",
    "bits": "513",
    "flag": "1",
    "born": "2024-02-29",
    "at": "-01:02:03.450",
    "seen": "2024-02-29 10:11:12.000345",
    "stamp": "2024-02-29 10:11:12.34",
    "made": "1999",
    "doc": '{"a": [1, 2.5]}',
}
SQL_TYPES = {
    "id": 3, "tiny": 5, "number": 4, "big": -5, "price": 3, "single": 7, "twice": 8, "name": 12, "fixed": 1,
    "note": 2005, "raw": 2004, "padded": 2004, "photo": 2004, "kind": 4, "marks": -7, "bits": -7, "flag": -7,
    "born": 91, "at": 92, "seen": 93, "stamp": 93, "made": 12, "doc": 12,
}  # fmt: skip


def encoded(server: MySqlServer, statements: list[str], options: Options | None = None) -> list[Any]:
    """The entries of what these statements write."""
    slices, registry = annotated(server, capture(server, *statements))
    return entries_of(Encoder(registry, DdlReader(lambda *_: True), options or Options()).pieces(slices))


def rows(entries: list[Any]) -> list[Any]:
    return [entry for entry in entries if entry.entryType == EntryType.ROWDATA and entry.header.HasField("eventType")]


def test_every_type_has_canals_text_and_number(mysql8: MySqlServer) -> None:
    """The texts, the JDBC types, the keys and the declared types of one row of each type."""
    with mysql8.database() as database:
        mysql8.execute(f"CREATE TABLE {database}.t ({COLUMNS}) CHARACTER SET utf8mb4")
        entries = encoded(mysql8, ["SET time_zone='+00:00'", f"INSERT INTO {database}.t VALUES {ROW}"])
    begin, row, end = entries
    assert [entry.entryType for entry in entries] == [1, 2, 3]
    change = store_of(row)
    assert change.eventType == row.header.eventType == CanalEventType.INSERT
    assert (row.header.schemaName, row.header.tableName) == (database, "t")
    columns = change.rowDatas[0].afterColumns
    assert values(columns) == EXPECTED
    assert {column.name: column.sqlType for column in columns} == SQL_TYPES
    assert [column.index for column in columns] == list(range(len(EXPECTED)))
    assert [column.name for column in columns if column.isKey] == ["id"]
    assert all(column.updated and column.HasField("isNull") for column in columns)
    assert {column.name: column.mysqlType for column in columns}["price"] == "decimal(12,2)"
    assert store_of(begin).threadId > 0
    assert int(store_of(end).transactionId) > 0


def test_headers_say_where_the_events_stand(mysql8: MySqlServer) -> None:
    """Journal, offset, size, server, time, GTID and rows are those of SHOW BINLOG EVENTS. GTIDs only in GTID mode."""
    with mysql8.database() as database:
        mysql8.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY)")
        entries = encoded(mysql8, [f"INSERT INTO {database}.t VALUES (1), (2), (3)"], Options(gtid=True))
        (plain, *_) = encoded(mysql8, [f"INSERT INTO {database}.t VALUES (4)"])
        assert props(plain.header) == {}
        journal = entries[0].header.logfileName
        with mysql8.root() as connection, connection.cursor() as cursor:
            cursor.execute(f"SHOW BINLOG EVENTS IN '{journal}' FROM {entries[0].header.logfileOffset}")
            events = {int(row[1]): row for row in cursor.fetchall()}
    for entry, kind in zip(entries, ("Query", "Write_rows", "Xid"), strict=True):
        header = entry.header
        event = events[header.logfileOffset]
        assert event[2] == kind
        assert (header.serverId, header.logfileOffset + header.eventLength) == (event[3], event[4])
        assert (header.version, header.serverenCode, header.sourceType) == (1, "UTF-8", 2)
        assert header.executeTime % 1000 == 0
        assert props(header)["curtGtid"].count("-") == 4
        assert int(props(header)["curtGtidSn"]) > int(props(header)["curtGtidLct"])
    assert props(entries[1].header)["rowsCount"] == "3"


def test_headers_inside_a_compressed_transaction_have_its_size(mysql8: MySqlServer) -> None:
    """Offset and size of all entries are those of the event that holds them, as in Canal."""
    with mysql8.database() as database:
        mysql8.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY)")
        texts = ["SET binlog_transaction_compression = ON", f"INSERT INTO {database}.t VALUES (1), (2)"]
        (whole,) = expand(capture(mysql8, *texts))
        slices, registry = annotated(mysql8, whole)
        entries = entries_of(Encoder(registry, DdlReader(lambda *_: True), Options()).pieces(slices))
        journal = entries[0].header.logfileName
        with mysql8.root() as connection, connection.cursor() as cursor:
            cursor.execute(f"SHOW BINLOG EVENTS IN '{journal}' FROM {entries[0].header.logfileOffset} LIMIT 1")
            ((_, start, kind, _, end, _),) = cursor.fetchall()
    assert kind == "Transaction_payload"
    assert [(one.header.logfileOffset, one.header.eventLength) for one in entries] == [(start, end - start)] * 3


def test_the_gtids_up_to_a_transaction(mysql8: MySqlServer, mariadb: MySqlServer) -> None:
    """In GTID mode the header's `gtid` is the executed set with this transaction; without it it is empty."""
    for server in (mysql8, mariadb):
        with server.database() as database:
            server.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY)", f"INSERT INTO {database}.t VALUES (1)")
            before = executed_gtids(server).replace("\n", "")
            slices, registry = annotated(server, capture(server, f"DELETE FROM {database}.t WHERE id = 1"))
            after = executed_gtids(server).replace("\n", "")
        encoder = Encoder(registry, DdlReader(lambda *_: True), Options(gtid=True))
        found = parse_gtids(before, "mariadb" if server.version == "mariadb" else "mysql")
        assert before != after
        assert {entry.header.gtid for entry in entries_of(encoder.pieces(slices, found))} == {after}
        assert {entry.header.gtid for entry in entries_of(encoder.pieces(slices))} == {""}
        plain = Encoder(registry, DdlReader(lambda *_: True), Options())
        assert {entry.header.gtid for entry in entries_of(plain.pieces(slices, found))} == {""}


def test_updates_show_what_changed(mysql8: MySqlServer) -> None:
    """Before and after, NULL and not, and which columns are updated; a deleted row is shown before."""
    with mysql8.database() as database:
        mysql8.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY, a INT, b VARCHAR(9), c INT)")
        mysql8.execute(f"INSERT INTO {database}.t VALUES (1, NULL, 'x', 5), (2, 7, '', NULL)")
        entries = encoded(
            mysql8,
            [
                f"UPDATE {database}.t SET a = 7, b = CONCAT(b, 'y') WHERE id = 1",
                f"DELETE FROM {database}.t WHERE id = 2",
            ],
        )
    update, delete = (store_of(entry) for entry in rows(entries))
    assert values(update.rowDatas[0].beforeColumns) == {"id": "1", "a": None, "b": "x", "c": "5"}
    assert values(update.rowDatas[0].afterColumns) == {"id": "1", "a": "7", "b": "xy", "c": "5"}
    assert [column.name for column in update.rowDatas[0].afterColumns if column.updated] == ["a", "b"]
    assert values(delete.rowDatas[0].beforeColumns) == {"id": "2", "a": "7", "b": "", "c": None}
    assert not delete.rowDatas[0].afterColumns


def test_images_of_minimal_show_what_they_have(mysql8: MySqlServer) -> None:
    """With binlog_row_image=MINIMAL the key stands before an update, and what it set after it."""
    with mysql8.database() as database:
        mysql8.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY, a INT, b INT)")
        mysql8.execute(f"INSERT INTO {database}.t VALUES (1, 2, 3)")
        entries = encoded(mysql8, ["SET binlog_row_image=MINIMAL", f"UPDATE {database}.t SET b = 4 WHERE id = 1"])
    row = store_of(rows(entries)[0]).rowDatas[0]
    assert values(row.beforeColumns) == {"id": "1"}
    assert values(row.afterColumns) == {"b": "4"}


def test_large_transactions_keep_one_begin_and_one_end(mysql8: MySqlServer) -> None:
    """A transaction of several windows, over two tables in turn, has its entries in the binlog's order."""
    with mysql8.database() as database:
        for table in "tu":
            mysql8.execute(f"CREATE TABLE {database}.{table} (id INT PRIMARY KEY, x VARCHAR(2000))")
        statements = ["BEGIN"]
        for number in range(40):
            table = "tu"[number % 2]
            rows_of = ", ".join(f"({number * 100 + row}, '{'x' * 1900}')" for row in range(100))
            statements.append(f"INSERT INTO {database}.{table} VALUES {rows_of}")
        entries = encoded(mysql8, [*statements, "COMMIT"], Options(gtid=True))
    assert [entry.entryType for entry in entries].count(1) == [entry.entryType for entry in entries].count(3) == 1
    offsets = [entry.header.logfileOffset for entry in entries]
    assert offsets == sorted(offsets)
    ids = [values(row.afterColumns)["id"] for entry in rows(entries) for row in store_of(entry).rowDatas]
    assert ids == [str(number) for number in range(4000)]
    assert len({props(entry.header)["curtGtid"] for entry in entries}) == 1


def test_parts_of_a_transaction_are_the_whole(mysql8: MySqlServer) -> None:
    """However it is cut into claims, and whichever of its tables the client gets."""
    with mysql8.database() as database:
        mysql8.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY)", f"CREATE TABLE {database}.u (id INT)")
        texts = ["SET binlog_rows_query_log_events = ON", "BEGIN"]
        texts += [f"INSERT INTO {database}.{table} VALUES ({number})" for number, table in enumerate("utut")]
        (whole,), registry = annotated(mysql8, capture(mysql8, *texts, "COMMIT"))
    assert len(whole.index) > 12
    for wanted in ("t", "u", "tu"):
        options = Options(gtid=True, wanted=lambda _, table, wanted=wanted: table in wanted)  # type: ignore[misc]
        reader = DdlReader(lambda *_: True)
        expected = entries_of(Encoder(registry, reader, options).pieces([whole]))
        assert [one.entryType for one in expected].count(2) == 4 * len(wanted)
        for cut in range(1, len(whole.index)):
            encoder = Encoder(registry, reader, options)
            first, rest = BlockSlice(whole.block, 0, cut), BlockSlice(whole.block, cut, len(whole.index))
            entries_of(encoder.pieces([first]))
            found = [*entries_of(encoder.pieces([first])), *entries_of(encoder.pieces([rest]))]
            assert found == expected


STATEMENTS = [
    ("CREATE TABLE a (id INT PRIMARY KEY, x INT)", "CREATE a"),
    ("CREATE TABLE b LIKE a", "CREATE b"),
    ("ALTER TABLE a ADD y INT", "ALTER a"),
    ("CREATE INDEX i ON a (x)", "CINDEX a"),
    ("/* of y */ ALTER TABLE a ADD INDEX k (y), ALGORITHM=INPLACE", "CINDEX a"),
    ("ALTER TABLE a DROP INDEX k, ADD UNIQUE KEY u (y)", "DINDEX a"),
    ("ALTER TABLE a ADD z INT, ADD INDEX k (z)", "ALTER a"),
    ("ALTER TABLE a DROP KEY k, DROP COLUMN z", "DINDEX a"),
    ("ALTER TABLE a DROP PRIMARY KEY", "ALTER a"),
    ("ALTER TABLE a ADD CONSTRAINT PRIMARY KEY (id)", "CINDEX a"),
    ("ALTER TABLE a ADD CONSTRAINT c UNIQUE (x), RENAME TO d", "CINDEX a"),
    ("ALTER TABLE d RENAME a", "RENAME a"),
    ("/* of i */ DROP INDEX i ON a", "DINDEX a"),
    ("RENAME TABLE a TO c", "RENAME c"),
    ("TRUNCATE c", "TRUNCATE c"),
    ("RENAME TABLE c TO d, b TO c", "RENAME d"),
    ("DROP TABLE c, d", "ERASE c"),
    ("FLUSH PRIVILEGES", ""),
]


def test_statements_are_entries_with_canals_type_and_first_table(mysql8: MySqlServer) -> None:
    """One for each statement, with the statement and its database; those on databases are QUERY. With `ddl_by_table`
    each table has one. Comments before a statement are no matter."""
    with mysql8.database() as database:
        texts = [text for text, _ in STATEMENTS]
        more = [f"/* a new one */ CREATE DATABASE {database}_x", f"DROP DATABASE {database}_x"]
        entries = encoded(mysql8, [f"USE {database}", *texts, *more])
        several = encoded(mysql8, [f"USE {database}", *texts[:2], *texts[-5:]], Options(ddl_by_table=True))
    found = [f"{CanalEventType(entry.header.eventType).name} {entry.header.tableName}" for entry in entries]
    assert found == [expected for _, expected in STATEMENTS if expected] + ["QUERY ", "QUERY "]
    alter = store_of(entries[2])
    assert (alter.isDdl, alter.sql, alter.ddlSchemaName) == (True, "ALTER TABLE a ADD y INT", database)
    assert [entry.header.schemaName for entry in entries] == [database] * 17 + [f"{database}_x"] * 2
    assert [entry.header.tableName for entry in several] == ["a", "b", "c", "c", "d", "c", "c", "d"]


def test_one_of_a_statements_tables_is_enough(mysql8: MySqlServer) -> None:
    """A client that gets one of them gets the statement's only entry, under the first table's name."""
    with mysql8.database() as database:
        texts = [f"USE {database}", "CREATE TABLE a (id INT)", "CREATE TABLE b (id INT)", "DROP TABLE a, b"]
        entries = encoded(mysql8, texts, Options(wanted=lambda _, table: table == "b"))
    assert [entry.header.tableName for entry in entries] == ["b", "a"]


def test_filters_of_statements_leave_databases_out(mysql8: MySqlServer) -> None:
    """`filter.query.ddl` all of them, `filter.query.dcl` those on databases, with captured tables and without."""
    with mysql8.database() as database:
        other = f"{database}_x"
        texts = [f"CREATE DATABASE {other}", f"CREATE TABLE {other}.a (id INT)", f"DROP DATABASE {other}"]
        assert len(encoded(mysql8, texts)) == 3
        assert [one.header.tableName for one in encoded(mysql8, texts, Options(query_dcl=True))] == ["a"]
        assert encoded(mysql8, texts, Options(query_ddl=True)) == []


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (Options(), [1, 2, 2, 2, 2, 2, 2, 3]),
        (Options(query_dml=True), [1, 2, 2, 2, 3]),
        (Options(rows=True), [1, 2, 2, 2, 3]),
        (Options(rows=True, query_dml=True), []),
    ],
    ids=["all", "no statements", "no rows", "neither"],
)
def test_statements_of_changes_have_their_tables_name(
    mysql8: MySqlServer, options: Options, expected: list[int]
) -> None:
    """And no database's. Without rows a transaction has them alone; without either it has no entries."""
    with mysql8.database() as database:
        texts = [
            f"USE {database}",
            "CREATE TABLE `od``d` (id INT PRIMARY KEY, a INT)",
            "SET binlog_rows_query_log_events = ON",
            "BEGIN",
            f"/* one */ INSERT IGNORE INTO {database}.`od``d` VALUES (1, 1)",
            "UPDATE `od``d` AS o SET a = 2",
            "DELETE FROM `od``d`",
            "COMMIT",
        ]
        entries = encoded(mysql8, texts, options)[1:]
    assert [entry.entryType for entry in entries] == expected
    texts_of = [entry for entry in entries if entry.header.eventType == CanalEventType.QUERY]
    assert {entry.header.tableName for entry in texts_of} <= {"od`d"}
    assert [entry.header.schemaName for entry in texts_of] == [""] * len(texts_of)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (Options(), [1, 2, 2, 2, 3]),
        (Options(transaction_entry=True), [2, 2, 2]),
        (Options(dml_update=True), [1, 2, 2, 3]),
        (Options(wanted=lambda _, table: table == "nobody"), []),
        (Options(dml_insert=True, dml_update=True, dml_delete=True), []),
    ],
    ids=["all", "no transactions", "no updates", "no table", "no rows"],
)
def test_filters_leave_entries_out(mysql8: MySqlServer, options: Options, expected: list[int]) -> None:
    """A transaction without any entry of a row has none at all."""
    with mysql8.database() as database:
        mysql8.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY, a INT)")
        entries = encoded(
            mysql8,
            [
                "BEGIN",
                f"INSERT INTO {database}.t VALUES (1, 1)",
                f"UPDATE {database}.t SET a = 2",
                f"DELETE FROM {database}.t",
                "COMMIT",
            ],
            options,
        )
    assert [entry.entryType for entry in entries] == expected


def test_columns_are_chosen_by_name(mysql8: MySqlServer) -> None:
    """`filter.field` shows only some columns, which keep their numbers."""
    with mysql8.database() as database:
        mysql8.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY, a INT, secret INT)")
        options = Options(black_fields={f"{database}.T".upper(): frozenset({"SECRET", "A"})})
        entries = encoded(mysql8, [f"INSERT INTO {database}.t VALUES (1, 2, 3)"], options)
        only = Options(fields={f"{database}.T".upper(): frozenset({"A"})})
        shown = encoded(mysql8, [f"INSERT INTO {database}.t VALUES (2, 2, 3)"], only)
    assert values(store_of(rows(entries)[0]).rowDatas[0].afterColumns) == {"id": "1"}
    columns = store_of(rows(shown)[0]).rowDatas[0].afterColumns
    assert [(column.index, column.name) for column in columns] == [(1, "a")]
