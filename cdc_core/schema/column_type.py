"""The codes of column types in TABLE_MAP events: MySQL's `enum_field_types`, and MariaDB's own."""

from __future__ import annotations

from enum import IntEnum


class ColumnType(IntEnum):
    """MySQL's names without MYSQL_TYPE_."""

    DECIMAL = 0  # of before MySQL 5.0
    TINY = 1
    SHORT = 2
    LONG = 3  # INT
    FLOAT = 4
    DOUBLE = 5
    NULL = 6
    TIMESTAMP = 7  # this, TIME and DATETIME: the forms before MySQL 5.6, without a fraction
    LONGLONG = 8  # BIGINT
    INT24 = 9  # MEDIUMINT
    DATE = 10
    TIME = 11
    DATETIME = 12
    YEAR = 13
    NEWDATE = 14
    VARCHAR = 15
    BIT = 16
    TIMESTAMP2 = 17
    DATETIME2 = 18
    TIME2 = 19
    MARIA_BLOB_COMPRESSED = 140
    MARIA_VARCHAR_COMPRESSED = 141
    VECTOR = 242
    JSON = 245
    NEWDECIMAL = 246
    ENUM = 247
    SET = 248
    TINY_BLOB = 249
    MEDIUM_BLOB = 250
    LONG_BLOB = 251
    BLOB = 252
    VAR_STRING = 253
    STRING = 254  # CHAR and BINARY
    GEOMETRY = 255
