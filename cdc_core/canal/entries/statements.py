"""Statements as entries: one for each DDL statement that changes captured tables, or one for each of its tables, and
one for each on a database (QUERY). Canal knows no others.

Source: Canal 1.1.9, `LogEventConvert.parseQueryEvent`, `parseRowsQueryEvent` and `processFilter`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cdc_core.binlog import query_event
from cdc_core.binlog.block import Kind
from cdc_core.binlog.events import EventType
from cdc_core.binlog.query_event import Query
from cdc_core.binlog.statements import Meaning, meaning, of_database
from cdc_core.canal.entries.kinds import CanalEventType
from cdc_core.canal.entries.options import Options
from cdc_core.canal.entries.results import Result, first_result, of_effect, written_table
from cdc_core.canal.entries.window import Window
from cdc_core.canal.entries.wire import number, text
from cdc_core.schema.ddl import Effect
from cdc_core.stream.ddl_events import DdlReader
from cdc_core.stream.group import body_at


@dataclass(frozen=True, slots=True)
class StatementEntry:
    """One entry: `event` of the window, the header's event type and table, the store value."""

    event: int
    event_type: int
    database: str
    table: str
    store: bytes


def statements(window: Window, event: int, reader: DdlReader, options: Options) -> Iterator[StatementEntry]:
    """The entries of one event that is not a row's."""
    part = window.part(event)
    body = body_at(part.block, part.low)
    if window.index["type"][event] == EventType.MARIA_ANNOTATE_ROWS:
        yield _of_rows(event, body, "")
        return
    if window.index["type"][event] == EventType.ROWS_QUERY:
        yield _of_rows(event, body[1:], written_table(body[1:].decode(errors="replace")))  # a byte of length first
        return
    query = query_event.parse(body, load=False, mariadb=reader.mariadb)
    if options.query_ddl or meaning(query.text, query.dialect) is not Meaning.DDL:
        return
    if of_database(query.text):
        results = [] if options.query_dcl else [Result(CanalEventType.QUERY, query.database, "")]
    elif window.index["kind"][event] in (Kind.DDL, Kind.DDL_WITHIN):
        found = [effect for ddl in reader.statements([part]) for effect in ddl.effects]
        results = _results(found, query, reader, options)
    else:
        results = _results(reader.unshown(query, part.block.position(part.low)), query, reader, options)
    for result in results:
        yield StatementEntry(event, *result, _store(result.kind, query))


def _results(effects: Iterable[Effect], query: Query, reader: DdlReader, options: Options) -> list[Result]:
    """By statement or by table, if the client gets any of its tables."""
    found = [
        of_effect(effect)
        for effect in effects
        if options.wanted(effect.database, effect.table) or (effect.to and options.wanted(*effect.to))
    ]
    first = first_result(query.text, query.database, reader.dialect(query)) if found else None
    if first is None:
        return found
    if not options.ddl_by_table:
        return [first]
    kind = first.kind if first.kind in (CanalEventType.CINDEX, CanalEventType.DINDEX) else CanalEventType.ALTER
    return [one._replace(kind=kind) if one.kind == CanalEventType.ALTER else one for one in found]


def _of_rows(event: int, sql: bytes, table: str) -> StatementEntry:
    """The statement that caused rows events (`binlog_rows_query_log_events`)."""
    store = number(2, CanalEventType.QUERY) + text(11, sql.decode(errors="replace"))
    return StatementEntry(event, CanalEventType.QUERY, "", table, store)


def _store(kind: int, query: Query) -> bytes:
    head = number(2, kind, always=True) + number(10, 1, always=True)
    return head + text(11, query.text) + text(14, query.database)
