"""The numbers of java.sql.Types that Canal gives to values, and the names of MySQL's types.

Source: Canal 1.1.8, what `RowsLogBuffer.mysqlToJavaType` and `LogEventConvert.parseOneRow` do.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from cdc_core.charsets import charsets
from cdc_core.schema.column_type import ColumnType as Type
from cdc_core.schema.table import Column


class JavaType(IntEnum):
    """java.sql.Types."""

    BIT = -7
    TINYINT = -6
    BIGINT = -5
    CHAR = 1
    DECIMAL = 3
    INTEGER = 4
    SMALLINT = 5
    REAL = 7
    DOUBLE = 8
    VARCHAR = 12
    DATE = 91
    TIME = 92
    TIMESTAMP = 93
    OTHER = 1111
    BLOB = 2004
    CLOB = 2005


@dataclass(frozen=True, slots=True)
class JavaTypes:
    """The types of a column's values, of its NULLs, and of its unsigned numbers beyond the signed range."""

    value: JavaType
    null: JavaType
    beyond: JavaType


_INTEGERS = {  # signed, and what an unsigned number takes beyond the signed range
    Type.TINY: (JavaType.TINYINT, JavaType.SMALLINT),
    Type.SHORT: (JavaType.SMALLINT, JavaType.INTEGER),
    Type.INT24: (JavaType.INTEGER, JavaType.INTEGER),
    Type.LONG: (JavaType.INTEGER, JavaType.BIGINT),
    Type.LONGLONG: (JavaType.BIGINT, JavaType.DECIMAL),
}
_OTHERS = {
    Type.FLOAT: JavaType.REAL,
    Type.DOUBLE: JavaType.DOUBLE,
    Type.NEWDECIMAL: JavaType.DECIMAL,
    Type.BIT: JavaType.BIT,
    Type.YEAR: JavaType.VARCHAR,
    Type.DATE: JavaType.DATE,
    Type.NEWDATE: JavaType.DATE,
    Type.TIME: JavaType.TIME,
    Type.TIME2: JavaType.TIME,
    Type.DATETIME: JavaType.TIMESTAMP,
    Type.DATETIME2: JavaType.TIMESTAMP,
    Type.TIMESTAMP: JavaType.TIMESTAMP,
    Type.TIMESTAMP2: JavaType.TIMESTAMP,
    Type.ENUM: JavaType.INTEGER,
    Type.GEOMETRY: JavaType.BLOB,
    Type.VECTOR: JavaType.BLOB,
}
_SHORT_TEXTS = {
    Type.STRING: JavaType.CHAR,
    Type.VAR_STRING: JavaType.VARCHAR,
    Type.VARCHAR: JavaType.VARCHAR,
    Type.MARIA_VARCHAR_COMPRESSED: JavaType.VARCHAR,
}
_NAMES = {  # where the type's own name is another one
    Type.TINY: "tinyint",
    Type.SHORT: "smallint",
    Type.INT24: "mediumint",
    Type.LONG: "int",
    Type.LONGLONG: "bigint",
    Type.NEWDECIMAL: "decimal",
    Type.NEWDATE: "date",
    Type.TIMESTAMP2: "timestamp",
    Type.DATETIME2: "datetime",
    Type.TIME2: "time",
    Type.STRING: "char",
    Type.VAR_STRING: "varchar",
    Type.TINY_BLOB: "tinyblob",
    Type.MEDIUM_BLOB: "mediumblob",
    Type.LONG_BLOB: "longblob",
}


def java_types(column: Column) -> JavaTypes:
    """The types of a column."""
    code = column.type_code
    if code in _INTEGERS:
        value, beyond = _INTEGERS[Type(code)]
        return JavaTypes(value, value, beyond)
    if code == Type.SET:
        return JavaTypes(JavaType.BIT, JavaType.BLOB, JavaType.BIT)
    if code == Type.JSON:
        return JavaTypes(JavaType.VARCHAR, JavaType.OTHER, JavaType.VARCHAR)
    only = _OTHERS.get(Type(code)) or _of_text(column)
    return JavaTypes(only, only, only)


def mysql_type(column: Column) -> str:
    """The declared type, or the type's name if only the binlog describes the column."""
    code = Type(column.type_code)
    return column.column_type or _NAMES.get(code, code.name.lower()) + (" unsigned" if column.unsigned else "")


def _of_text(column: Column) -> JavaType:
    short = _SHORT_TEXTS.get(Type(column.type_code))
    if column.is_address:
        return JavaType.CHAR
    if charsets.charset(column).is_binary:
        return JavaType.BLOB
    return short or JavaType.CLOB
