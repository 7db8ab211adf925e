"""Statements as entries: one for each table that a DDL statement changes, and one for each on a database (QUERY). Canal
knows no others.

Source: Canal 1.1.8, `LogEventConvert.parseQueryEvent` and `processFilter`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from cdc_core.binlog import query_event
from cdc_core.binlog.block import Kind
from cdc_core.binlog.events import EventType
from cdc_core.binlog.query_event import Query
from cdc_core.binlog.statements import Meaning, meaning, of_database
from cdc_core.entries.options import Options
from cdc_core.entries.window import Window
from cdc_core.entries.wire import number, text
from cdc_core.schema.ddl import Ddl, EffectKind
from cdc_core.stream.ddl_events import DdlReader
from cdc_core.stream.group import body_at

_CREATE, _ALTER, _ERASE, _QUERY, _TRUNCATE, _RENAME, _CINDEX, _DINDEX = range(4, 12)  # Canal's EventType
_TYPES = {
    EffectKind.CREATE: _CREATE,
    EffectKind.CREATE_FILLED: _CREATE,
    EffectKind.DROP: _ERASE,
    EffectKind.DROP_DATABASE: _QUERY,
    EffectKind.TRUNCATE: _TRUNCATE,
    EffectKind.RENAME: _RENAME,
    EffectKind.ALTER: _ALTER,
    EffectKind.REWRITE: _ALTER,
}
_INDEX = re.compile(r"\s*(CREATE|DROP)\s+(?:\w+\s+){0,3}?INDEX\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Statement:
    """One entry: `event` of the window, the header's event type and table, the store value."""

    event: int
    event_type: int
    database: str
    table: str
    store: bytes


def statements(window: Window, event: int, reader: DdlReader, options: Options) -> Iterator[Statement]:
    """The entries of one event that is not a row's."""
    part = window.part(event)
    if window.index["type"][event] in (EventType.ROWS_QUERY, EventType.MARIA_ANNOTATE_ROWS):
        if not options.query_dml:
            yield _of_rows(event, body_at(part.block, part.low), mariadb=reader.mariadb)
        return
    query = query_event.parse(body_at(part.block, part.low), load=False, mariadb=reader.mariadb)
    if window.index["kind"][event] in (Kind.DDL, Kind.DDL_WITHIN):
        if not options.query_ddl:
            for ddl in reader.statements([part]):
                yield from _of_ddl(event, ddl, query, options)
        return
    if meaning(query.text, query.dialect) is not Meaning.DDL:
        return
    if of_database(query.text):
        if not options.query_dcl:
            yield Statement(event, _QUERY, query.database, "", _store(_QUERY, query))
    elif not options.query_ddl:
        for effect in reader.unshown(query, part.block.position(part.low)):
            if options.wanted(effect.database, effect.table):
                kind = _kind(query.text)
                yield Statement(event, kind, effect.database, effect.table, _store(kind, query))


def _kind(sql: str) -> int:
    """Canal tells the making and the dropping of an index from other changes of a table."""
    found = _INDEX.match(sql)
    if found is None:
        return _ALTER
    return _CINDEX if found[1].upper() == "CREATE" else _DINDEX


def _of_rows(event: int, body: bytes, *, mariadb: bool) -> Statement:
    """The statement that caused rows events (`binlog_rows_query_log_events`); MySQL writes a byte of length first."""
    sql = body if mariadb else body[1:]
    store = number(2, _QUERY) + text(11, sql.decode(errors="replace"))
    return Statement(event, _QUERY, "", "", store)


def _of_ddl(event: int, ddl: Ddl, query: Query, options: Options) -> Iterator[Statement]:
    for effect in ddl.effects:
        database, table = effect.to or (effect.database, effect.table)
        if table and not (options.wanted(database, table) or options.wanted(effect.database, effect.table)):
            continue
        kind = _TYPES[effect.kind]
        yield Statement(event, kind, database, table, _store(kind, query))


def _store(kind: int, query: Query) -> bytes:
    head = number(2, kind, always=True) + number(10, 1, always=True)
    return head + text(11, query.text) + text(14, query.database)
