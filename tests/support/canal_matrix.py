"""Rows of every type, and statements of every kind, whose entries are compared with those of a Java Canal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cdc_core.canal.entries.kinds import CanalEventType, EntryType
from tests.support.entries import store_of

SETTINGS = ("SET sql_mode = ''", "SET time_zone = '+00:00'", "SET NAMES utf8mb4")
TYPES = [
    ("TINYINT", ["-128", "127"]),
    ("TINYINT UNSIGNED", ["0", "127", "200", "255"]),
    ("SMALLINT UNSIGNED", ["65535", "1"]),
    ("MEDIUMINT", ["-8388608"]),
    ("MEDIUMINT UNSIGNED", ["16777215"]),
    ("INT UNSIGNED", ["4294967295", "7"]),
    ("BIGINT", ["-9223372036854775808"]),
    ("BIGINT UNSIGNED", ["18446744073709551615", "5"]),
    (
        "FLOAT",
        ["1.1", "1e10", "-0.001", "123456.789", "1e-5", "0", "3.4028235e38", "16777216", "100", "9999999", "1e7"],
    ),
    ("DOUBLE", ["1.1", "1e10", "0.001", "0.0001", "-1e300", "1e7", "9999999.9", "123456789012", "0", "1e21", "2e-3"]),
    ("DECIMAL(12,2)", ["-12.5", "0", "12", "0.05", "9999999999.99"]),
    ("DECIMAL(65,30)", ["1.5", "-0.000000000000000000000000000001"]),
    ("DECIMAL(20,9)", ["1.5", "3"]),
    ("DECIMAL(5,0)", ["7"]),
    ("DATE", ["'2024-02-29'", "'0000-00-00'", "'1000-01-01'", "'2024-00-05'"]),
    ("TIME", ["'-838:59:59'", "'00:00:00'", "'12:34:56'", "'100:00:00'"]),
    ("TIME(1)", ["'-00:00:01.5'"]),
    ("TIME(3)", ["'-01:02:03.45'", "'-00:00:00.100'", "'00:00:00.001'"]),
    ("TIME(6)", ["'-01:02:03.456789'", "'838:59:58.999999'"]),
    ("DATETIME", ["'2024-02-29 01:02:03'", "'0000-00-00 00:00:00'", "'9999-12-31 23:59:59'"]),
    ("DATETIME(1)", ["'2024-02-29 01:02:03.5'"]),
    ("DATETIME(6)", ["'2024-02-29 01:02:03.000045'", "'0000-00-00 00:00:00'"]),
    ("TIMESTAMP NULL", ["'2024-02-29 01:02:03'", "'0000-00-00 00:00:00'", "'2038-01-19 03:14:07'"]),
    ("TIMESTAMP(4) NULL", ["'2024-02-29 01:02:03.1234'", "'1970-01-01 00:00:01'"]),
    ("YEAR", ["1901", "2155", "0"]),
    ("CHAR(5)", ["'ab'", "''", "'漢 '"]),
    ("VARCHAR(300)", ["'Zoë 漢😀'", "''"]),
    ("BINARY(4)", ["0x4100", "0x00000000", "0xFF"]),
    ("VARBINARY(20)", ["0x00FF417F80", "''"]),
    ("TINYTEXT", ["'x'"]),
    ("TEXT", ["'long é'"]),
    ("LONGTEXT", ["'l'"]),
    ("TINYBLOB", ["0x80"]),
    ("BLOB", ["0x00C3A9FF"]),
    ("LONGBLOB", ["0x01"]),
    ("ENUM('a','b')", ["'b'", "'a'"]),
    ("SET('a','b','c')", ["'a,c'", "''"]),
    ("BIT(1)", ["1", "0"]),
    ("BIT(10)", ["513"]),
    ("BIT(20)", ["70000"]),
    ("BIT(64)", ["18446744073709551615"]),
    ("JSON", ['\'{"a": [1, 2.5, null, true], "b": "x\\\\"y"}\'', "'[]'", "'1.0'", "'\"s\"'", "'{\"k\": {}}'"]),
    ("GEOMETRY", ["ST_GeomFromText('POINT(1 2)')"]),
]
STATEMENTS = [
    "CREATE TABLE o (id INT PRIMARY KEY, a INT, b VARCHAR(9), UNIQUE KEY (a))",
    "INSERT INTO o VALUES (1, 2, 'x'), (3, 4, 'w')",
    "UPDATE o SET b = 'y' WHERE id = 1",
    "UPDATE o SET a = NULL, b = ''",
    "SET binlog_row_image = MINIMAL",
    "UPDATE o SET b = 'z'",
    "DELETE FROM o WHERE id = 1",
    "SET binlog_row_image = FULL",
    "CREATE TABLE nokey (a INT NOT NULL, UNIQUE KEY (a))",
    "INSERT INTO nokey VALUES (1)",
    "CREATE TABLE p (id INT PRIMARY KEY, b INT)",
    "ALTER TABLE p ADD c INT, ADD INDEX k (b)",
    "CREATE INDEX i ON p (c)",
    "DROP INDEX i ON p",
    "TRUNCATE TABLE p",
    "CREATE TABLE q LIKE p",
    "RENAME TABLE q TO r",
    "ALTER TABLE r RENAME TO s",
    "DROP TABLE s",
    "CREATE DATABASE {database}_2",
    "DROP DATABASE {database}_2",
    "CREATE VIEW v AS SELECT 1",
    "GRANT SELECT ON *.* TO root@localhost",
]


def statements(database: str, *, types_only: bool = False) -> list[str]:
    """All of it, for one connection."""
    made = [*SETTINGS, f"USE {database}"]
    for number, (declared, values) in enumerate(TYPES):
        made.append(f"CREATE TABLE t{number} (id INT PRIMARY KEY AUTO_INCREMENT, v {declared}) CHARACTER SET utf8mb4")
        rows = ", ".join(f"({value})" for value in [*values, "NULL"])
        made.append(f"INSERT INTO t{number} (v) VALUES {rows}")
    return made if types_only else [*made, *(one.format(database=database) for one in STATEMENTS)]


def comparable(entries: Iterable[Any], database: str) -> list[Any]:
    """What does not depend on the server's state: all but places, times, numbers of tables and of transactions."""
    return [_entry(entry, database) for entry in entries]


def _entry(entry: Any, database: str) -> list[Any]:
    header, store = entry.header, store_of(entry)
    named = [header.schemaName.replace(database, "DB"), header.tableName]
    named += [header.version, header.serverenCode, header.sourceType]
    kind = CanalEventType(header.eventType).name if header.HasField("eventType") else None
    head = [EntryType(entry.entryType).name, kind, *named, {pair.key: pair.value for pair in header.props}]
    if entry.entryType != EntryType.ROWDATA:
        return head
    sql = [store.sql.replace(database, "DB"), store.ddlSchemaName.replace(database, "DB"), store.isDdl]
    rows = [[_columns(row.beforeColumns), _columns(row.afterColumns)] for row in store.rowDatas]
    return [*head, CanalEventType(store.eventType).name, *sql, rows]


def _columns(columns: Iterable[Any]) -> list[Any]:
    return [
        [one.index, one.sqlType, one.name, one.isKey, one.updated, one.isNull, one.value, one.length, one.mysqlType]
        for one in columns
    ]
