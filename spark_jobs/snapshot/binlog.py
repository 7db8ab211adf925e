"""Asks the server for its binlog's end, and for the events between two places."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pymysql
from pymysql.constants import ER

from cdc_core.errors import SourceError
from cdc_core.position import EntryPosition
from cdc_core.schema.sql_text import defines_no_table

_NO_ROWS = ("Format_desc", "Previous_gtids", "Rotate", "Stop", "Gtid_list", "Binlog_checkpoint", "Start_encryption")
_PURGED = "purged"  # stands for the events of files that the server has no more
_OPAQUE = ("Transaction_payload", "XA_prepare", "Incident", _PURGED)
_EVENTS = 5_000  # asked for at once
_TRIES = 30  # to be shown events, 0.1 s apart: a server may write a large event for so long
_WHOLE = ("drop database", "drop schema")  # name no table
_WITH_TEXT = ("Query", "Table_map", _PURGED)  # events whose text counts
_DEFAULT = re.compile(r"use `(?:[^`]|``)*`; ")  # the default database, which the server shows before a statement
_UNKNOWN = ("\N{REPLACEMENT CHARACTER}", "?")  # for bytes of another character set: MySQL shows them, MariaDB `?`

Event = tuple[str, str]
"""Type and text, as the server shows them."""


def position(connection: pymysql.Connection[Any]) -> EntryPosition:
    """Returns the end of the binlog. MySQL 8.4 renamed the statement. Raises SourceError for a server without a
    binlog."""
    with connection.cursor() as cursor:
        for statement in ("SHOW BINARY LOG STATUS", "SHOW MASTER STATUS"):
            try:
                cursor.execute(statement)
            except pymysql.err.ProgrammingError:
                continue
            row = cursor.fetchone()
            if row:
                return EntryPosition(str(row[0]), int(row[1]))
    hint = "Set log_bin and restart the server; GRANT REPLICATION CLIENT to the account."
    raise SourceError("the server reports no binlog position", place="SHOW MASTER STATUS", hint=hint)


def reaches(connection: pymysql.Connection[Any], cursor: EntryPosition, end: EntryPosition) -> bool:
    """Whether every row before `end` is before the cursor: no cursor moves past headers and ends of files."""
    nothing = (*_NO_ROWS, _PURGED)
    return cursor >= end or all(kind in nothing for kind, _ in _events(connection, cursor, end, at_once=8))


def ddl_on(
    connection: pymysql.Connection[Any], database: str, table: str, low: EntryPosition, high: EntryPosition
) -> str | None:
    """Returns a statement between two positions that may have changed the table's definition, or None.

    In doubt any statement counts that has the table's name in it, and a file that was purged. Statements about views
    and programs of the server do not count."""
    return _ddl_among(_events(connection, low, high, at_once=_EVENTS), database, table)


def changes(
    connection: pymysql.Connection[Any], database: str, table: str, low: EntryPosition, high: EntryPosition
) -> bool:
    """Whether rows of a table may have changed between two positions. A compressed transaction counts as a change, and
    an XA transaction, whose rows are before its commit."""
    return _changes_among(_events(connection, low, high, at_once=_EVENTS), database, table)


@dataclass(frozen=True, slots=True)
class Between:
    """The distinct relevant events between two places, for questions about many tables."""

    events: tuple[Event, ...]

    def ddl_on(self, database: str, table: str) -> str | None:
        """As the function of that name."""
        return _ddl_among(self.events, database, table)

    def changes(self, database: str, table: str) -> bool:
        """As the function of that name."""
        return _changes_among(self.events, database, table)


def between(connection: pymysql.Connection[Any], low: EntryPosition, high: EntryPosition) -> Between:
    """Returns the events between two positions."""
    events = _events(connection, low, high, at_once=_EVENTS)
    found = ((kind, text if kind.startswith(_WITH_TEXT) else "") for kind, text in events)
    return Between(tuple(dict.fromkeys(one for one in found if one[1] or one[0] in _OPAQUE)))


def _ddl_among(events: Iterable[Event], database: str, table: str) -> str | None:
    for kind, text in events:
        if kind == _PURGED:
            return text
        if not kind.startswith("Query"):
            continue
        if _names(text, table) or (_names(text, database) and any(word in text.lower() for word in _WHOLE)):
            return text
    return None


def _changes_among(events: Iterable[Event], database: str, table: str) -> bool:
    mapped = f"({database}.{table})".lower()
    for kind, text in events:
        if kind.startswith("Table_map") and mapped in text.lower():
            return True
        if kind.startswith("Query") and (_names(text, table) or text.lower().startswith("xa ")):
            return True
        if kind in _OPAQUE:
            return True
    return False


def _names(text: str, name: str) -> bool:
    """Whether a statement has the name in it, as a word of its own. BEGIN and COMMIT name nothing, nor does a statement
    about a view or a program of the server. A name that is not ASCII may be in any other statement with a character
    that is not shown."""
    plain = text.lower().replace("``", "`").replace('""', '"')
    if plain in ("begin", "commit"):
        return False
    hidden = not name.isascii() and any(one in text for one in _UNKNOWN)
    if not hidden and not re.search(rf"(?<![\w$]){re.escape(name.lower())}(?![\w$])", plain):
        return False
    return not defines_no_table(_DEFAULT.sub("", text, count=1))


def _events(
    connection: pymysql.Connection[Any], low: EntryPosition, high: EntryPosition, at_once: int
) -> Iterator[Event]:
    """The events from one position to another."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW BINARY LOGS")
        names = [str(name) for (name, *_) in cursor.fetchall()]
        if low.journal_name not in names:
            yield _PURGED, f"the server has purged {low.journal_name}, which may have had statements"
        for name in names:
            if not low.order[0] <= EntryPosition(name, 0).order[0] <= high.order[0]:
                continue
            start = low.position if name == low.journal_name else 4
            while EntryPosition(name, start) < high:
                events = _shown(cursor, f"SHOW BINLOG EVENTS IN '{name}' FROM {int(start)} LIMIT {int(at_once)}")
                for _, at, kind, _, end, text in events:
                    if EntryPosition(name, int(at)) >= high:
                        return
                    yield str(kind), str(text)
                    start = int(end)
                if len(events) < at_once:
                    break


def _shown(cursor: Any, statement: str) -> Sequence[tuple[Any, ...]]:
    """Returns the rows of the statement. The server reads its file while it writes to it, and may find half an event:
    that is an error, which another try a moment later does not meet."""
    for _ in range(_TRIES - 1):
        try:
            return _rows(cursor, statement)
        except pymysql.err.OperationalError as error:
            if error.args[0] != ER.ERROR_WHEN_EXECUTING_COMMAND:
                raise
            time.sleep(0.1)
    return _rows(cursor, statement)


def _rows(cursor: Any, statement: str) -> Sequence[tuple[Any, ...]]:
    """Returns the rows of one try. The server shows a statement's bytes as they are, and says that they are UTF-8."""
    cursor.connection.use_unicode = False
    try:
        cursor.execute(statement)
    finally:
        cursor.connection.use_unicode = True
    return [tuple(_text(value) if isinstance(value, bytes) else value for value in row) for row in cursor.fetchall()]


def _text(shown: bytes) -> str:
    return shown.decode("utf-8", "replace")
