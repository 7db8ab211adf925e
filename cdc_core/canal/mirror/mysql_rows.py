"""Rows as MySQL's SQL, and what the server has to say about them.

The server's modes let in every value that a source can have, so values that do not fit are cut with a warning: each
statement's warnings are looked at, and one that says so is a refusal. Source: MySQL manual, "Server SQL Modes", "Type
Conversion in Expression Evaluation".
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from pymysql.err import IntegrityError

from cdc_core.canal.mirror.columns import EntryImages, Values
from cdc_core.canal.mirror.mysql_tuples import tuples
from cdc_core.canal.mirror.sql import NO_ROW, Kinds, TargetDialect, Unfit
from cdc_core.canal.mirror.work import RowGroup

GENERATED = "generated"  # the kind of a column that takes no value
_TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext")
_DUPLICATE = 1062
_OUT_OF_RANGE, _CUT = 1264, 1265
_GREATEST = "3.4028235E38"  # as Java has it
_CHANGED = (1048, 1263, _OUT_OF_RANGE, _CUT, 1292, 1300, 1366, 1406, 1411, 1441)  # another value was written
_WHERE = re.compile(r"column '(.*)' at row (\d+)$", re.DOTALL)
_NUMBER = re.compile(r"-?\d+(\.\d+)?")


def write(cursor: Any, group: RowGroup, kinds: Kinds) -> None:
    """Runs a group. Raises Unfit, and what the driver raises."""
    group = _without_generated(group, kinds)
    if group.kind == "move":
        _move(cursor, group, kinds)
        return
    if group.columns or group.kind == "delete":
        found = _run(cursor, group, kinds)
        if not (found or group.key or group.kind == "insert"):
            raise Unfit(NO_ROW)


def _run(cursor: Any, group: RowGroup, kinds: Kinds) -> int:
    """How many rows the condition found, or were written."""
    cursor.execute(dialect_of(cursor.connection.server_version).statement(group, kinds))
    found: int = cursor.rowcount
    if cursor.warning_count:
        cursor.execute("SHOW WARNINGS")
        for _, code, message in cursor.fetchall():
            if code in _CHANGED and not _is_known(group, kinds, code, message):
                raise Unfit(message)
    return found


def _move(cursor: Any, group: RowGroup, kinds: Kinds) -> None:
    """What the image leaves out goes with the row. One that comes again may be there already."""
    try:
        if _run(cursor, group, kinds):
            return
    except IntegrityError as error:
        if error.args[0] != _DUPLICATE:
            raise
    _run(cursor, group.where_it_was, kinds)
    if (rest := group.where_it_goes) is not None:
        _run(cursor, rest, kinds)


def _is_known(group: RowGroup, kinds: Kinds, code: int, message: str) -> bool:
    """The empty value of an ENUM, number 0, is always said to be cut; the greatest FLOAT, as its text, to be out of
    range."""
    found = _WHERE.search(message)
    if code not in (_CUT, _OUT_OF_RANGE) or found is None:
        return False
    kind, at = kinds.get(found[1].lower()), [name.lower() for name in group.columns].index(found[1].lower())
    value = group.rows[min(int(found[2]), len(group.rows)) - 1][at]
    return (kind == "enum" and value == 0) or (kind == "float" and str(value).lstrip("-") == _GREATEST)


def _without_generated(group: RowGroup, kinds: Kinds) -> RowGroup:
    """Without the columns that the server computes."""
    if group.kind == "delete" and group.key:
        return group
    before = {name: value for name, value in group.before.items() if kinds.get(name.lower()) != GENERATED}
    kept = [at for at, name in enumerate(group.columns) if kinds.get(name.lower()) != GENERATED]
    if len(kept) == len(group.columns) and len(before) == len(group.before):
        return group
    columns = tuple(group.columns[at] for at in kept)
    images = group.rows
    rows = images.only(kept) if isinstance(images, EntryImages) else [tuple(row[at] for at in kept) for row in images]
    return replace(group, columns=columns, rows=rows, before=before)


def literal(value: str | bytes | int | None) -> str:
    """A value as SQL has it."""
    if isinstance(value, str):
        return f"'{value.translate(_ESCAPES)}'"
    if value is None:
        return "NULL"
    return f"x'{value.hex()}'" if isinstance(value, bytes) else str(value)


def _tuples(rows: Sequence[Values]) -> str:
    """Rows of entries come from a kernel; those with odd values, and others, are written one by one."""
    text = tuples(rows) if isinstance(rows, EntryImages) else None
    return text or ", ".join([f"({', '.join(map(literal, row))})" for row in rows])


_ESCAPES = str.maketrans({"\\": "\\\\", "'": "\\'", "\0": "\\0", "\n": "\\n", "\r": "\\r", "\x1a": "\\Z"})


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _constant(value: Any, kind: str) -> str:
    """Exactly the column's value: a text would be compared as DOUBLE."""
    if not isinstance(value, str):
        return literal(value)
    if kind == "float":
        return repr(struct.unpack("f", struct.pack("f", float(value)))[0])
    if kind == "json":
        return f"CAST({literal(value)} AS JSON)"
    return value if kind == "decimal" and _NUMBER.fullmatch(value) else literal(value)


def _same(name: str, value: Any, kind: str) -> str:
    """Texts are compared by their bytes too: to a collation, others are the same."""
    column = quoted(name)
    found = f"{column} <=> {_constant(value, kind)}"
    if kind in _TEXTS and isinstance(value, str):
        found += f" AND CAST(CONVERT({column} USING utf8mb4) AS BINARY) <=> x'{value.encode().hex()}'"
    return found


def _replaces(_key: tuple[str, ...], columns: tuple[str, ...]) -> str:
    return "ON DUPLICATE KEY UPDATE " + ", ".join(f"{quoted(name)} = VALUES({quoted(name)})" for name in columns)


def _replaces_by_alias(_key: tuple[str, ...], columns: tuple[str, ...]) -> str:
    sets = ", ".join(f"{quoted(name)} = {_NEW}.{quoted(name)}" for name in columns)
    return f"AS {_NEW} ON DUPLICATE KEY UPDATE {sets}"


_NEW = "_sluice_new"
_BY_VALUES = TargetDialect(
    quoted,
    literal,
    _tuples,
    _constant,
    _replaces,
    lambda group: group.rows,
    _same,
    lambda _table, where: f"{where} LIMIT 1",
)
_BY_ALIAS = replace(_BY_VALUES, replaces=_replaces_by_alias)


@cache
def dialect_of(version: str) -> TargetDialect:
    """That of a server of this version. MySQL 8.0.20 and later warn of each VALUES(), and know an alias for the new row
    since 8.0.19; MariaDB does not know it."""
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    return _BY_ALIAS if numbers >= (8, 0, 20) and "mariadb" not in version.lower() else _BY_VALUES
