"""Random tables and changes on real servers: our changes equal those of mysql-replication, except where it is known to
be wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

from cdc_core.charsets.charsets import charset
from cdc_core.rows.net import plan_changes, read
from cdc_core.schema.table import Column
from orchestration.stack.mysql.server import MySqlServer
from tests.support.binlog_stream import packets
from tests.support.decoding import decoded, events_of
from tests.support.random_tables import table
from tests.support.server_text import selected, shown

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

SEED, TABLES = 20261, 120
Change = tuple[str, tuple[Any, ...]]


@dataclass(frozen=True)
class Wrong:
    """Where mysql-replication is known to be wrong: which values, why, and one of them."""

    what: str
    applies: Callable[[Column, str], bool]  # to a column and our text of a value
    reason: str
    declared: str
    value: str
    before: str = "DO 0"  # run in the session


def _of(*names: str) -> Callable[[Column, str], bool]:
    return lambda column, _: column.charset > 0 and column.type_code < 255 and charset(column).name in names


KNOWN = (
    Wrong(
        "negative TIME with a fraction",
        lambda column, text: column.type_code == 19 and column.meta > 0 and text.startswith("-"),
        "the fraction is read apart from the whole, which alone is turned from two's complement",
        "TIME(2)",
        "'-00:00:01.10'",
    ),
    Wrong("YEAR 0000", lambda c, text: c.type_code == 13 and text == "0000", "1900 is added to it", "YEAR", "0"),
    Wrong(
        "BINARY that ends in zero bytes",
        lambda column, text: column.type_code == 254 and column.charset == 63 and text.endswith("00"),
        "the log leaves them out and they are not put back",
        "BINARY(3)",
        "x'610000'",
    ),
    Wrong(
        "empty SET",
        lambda column, text: column.type_code == 248 and text == "",
        "it is given as NULL",
        "SET('a','b')",
        "''",
    ),
    Wrong(
        "UTF-16, UCS-2 and UTF-32",
        _of("utf16", "ucs2", "utf32"),
        "Python's codecs of these names expect a mark of the byte order and are little-endian without; no ucs2 there",
        "VARCHAR(9) CHARACTER SET utf16",
        "_utf8mb4 'é漢'",
    ),
    Wrong(
        "character sets that Python lacks, or has under another name",
        _of("armscii8", "dec8", "eucjpms", "geostd8", "hp8", "keybcs2", "macce", "swe7"),
        "their bytes are given as they are",
        "VARCHAR(9) CHARACTER SET swe7",
        "'Å'",
    ),
    Wrong(
        "compressed transactions",
        lambda *_: False,  # there is nothing to compare
        "TRANSACTION_PAYLOAD is not in its list of events, and what is not there is left out",
        "INT",
        "1",
        before="SET binlog_transaction_compression = ON",
    ),
)


def captured(server: MySqlServer, database: str, statements: list[str]) -> tuple[str, bytes]:
    """What they leave in a binlog file of their own: its name and bytes."""
    server.execute("FLUSH BINARY LOGS")
    journal, _ = server.position()
    with server.root(database) as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00', sql_mode = '', foreign_key_checks = 0")
        for statement in statements:
            cursor.execute(statement)
    return journal, (Path(server.log).parent / "data" / journal).read_bytes()


def ours(journal: str, raw: bytes, database: str) -> dict[str, tuple[tuple[Column, ...], list[Change]]]:
    """Each table's columns and changes."""
    found = decoded(packets(events_of(raw)), lambda schema, _: schema, journal=journal)
    (slices, *rest), result = found.segments(), {}
    slices = [piece for segment in (slices, *rest) for piece in segment]
    for name in found.tables(slices):
        plan = plan_changes(slices, found.registry, name)
        texts, changes = [shown(column) for column in plan.schema.columns], []
        for batch in read(plan):
            columns = [column.to_pylist() for column in batch.columns[: len(texts) + 1]]
            for *row, operation in zip(*columns, strict=True):
                changes.append((operation, tuple(text(v) for text, v in zip(texts, row, strict=True))))
        result[name.removeprefix(f"{database}.")] = plan.schema.columns, changes
    return result


def theirs(server: MySqlServer, journal: str) -> dict[str, list[Change]]:
    """Each table's changes by mysql-replication, values as it gives them."""
    settings = {"host": server.host, "port": server.port, "user": server.user, "passwd": server.password}
    stream = BinLogStreamReader(
        connection_settings=settings, server_id=9_002, log_file=journal, log_pos=4, resume_stream=True, blocking=False,
        only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent], enable_logging=False,
    )  # fmt: skip
    changes: dict[str, list[Change]] = {}
    try:
        for event in stream:
            into = changes.setdefault(event.table, [])
            for row in event.rows:
                if isinstance(event, UpdateRowsEvent):
                    into.append(("update_before", tuple(row["before_values"].values())))
                    into.append(("update_after", tuple(row["after_values"].values())))
                else:
                    into.append(
                        ("insert" if isinstance(event, WriteRowsEvent) else "delete", tuple(row["values"].values()))
                    )
    finally:
        stream.close()
    return changes


def one_value(server: MySqlServer, journal: str) -> list[Any]:
    """The only value of the journal by mysql-replication, if it has one."""
    try:
        return [value for changes in theirs(server, journal).values() for _, (value,) in changes]
    except UnicodeError:
        return []


def told(column: Column, value: Any) -> str | None:
    """A value of mysql-replication in the words of `server_text`."""
    match value:
        case None:
            return None
        case set():
            return shown(column)(",".join(label for label in column.labels if label in value))
        case timedelta():
            return shown(column)(value // timedelta(microseconds=1))
        case str() if column.type_code == 16:
            return str(int(value, 2))
        case datetime() | date() | bytes() | str() | float() | int():
            return shown(column)(value)
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def same(column: Column, text: str | None, value: Any) -> bool:
    """JSON is compared as what it says."""
    if column.type_code == 245 and text is not None:
        return bool(json.loads(bytes.fromhex(text)) == _plain(value))
    return text == told(column, value)


def _plain(value: Any) -> Any:
    """JSON with its keys as text."""
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.decode() if isinstance(value, bytes) else value


def _compare(server: MySqlServer, *, json_type: bool) -> None:
    rng = Random(SEED)
    tables = [table(rng, f"t{number}", json_type=json_type) for number in range(TABLES)]
    with server.database() as database:
        journal, raw = captured(server, database, [sql for t in tables for sql in (t.create, *t.changes)])
        left, right = ours(journal, raw, database), theirs(server, journal)
    compared = 0
    for one in tables:
        columns, changes = left[one.name]
        assert len(changes) == len(right[one.name]) > 0
        for (operation, row), (other, values) in zip(changes, right[one.name], strict=True):
            assert operation == other, one.create
            for column, text, value in zip(columns, row, values, strict=True):
                known = text is not None and any(wrong.applies(column, text) for wrong in KNOWN)
                assert known or same(column, text, value), (SEED, one.create, operation, column.name, text, value)
                compared += not known
    print(f"seed {SEED}: {compared} values of {TABLES} tables")
    assert compared > 5000


def test_mysql8(mysql8: MySqlServer) -> None:
    """Both images of every change agree, in the order of the server."""
    _compare(mysql8, json_type=True)


def test_mariadb(mariadb: MySqlServer) -> None:
    """Both images agree; JSON is text there."""
    _compare(mariadb, json_type=False)


@pytest.mark.parametrize("wrong", KNOWN, ids=lambda wrong: wrong.what)
def test_where_it_is_wrong(mysql8: MySqlServer, wrong: Wrong) -> None:
    """mysql-replication is still wrong here, so the exception is still due; ours is what the server selects."""
    with mysql8.database() as database:
        statements = [wrong.before, f"CREATE TABLE t (a {wrong.declared})", f"INSERT INTO t VALUES ({wrong.value})"]
        journal, raw = captured(mysql8, database, statements)
        ((column,), ((_, (text,)),)) = ours(journal, raw, database)["t"]
        with mysql8.root(database) as connection:
            _, rows = selected(connection, database, "t")

        assert rows == [(text,)]
        assert text is not None
        assert wrong.applies(column, text) or wrong.before != "DO 0"
        assert not any(same(column, text, value) for value in one_value(mysql8, journal)), wrong.reason
