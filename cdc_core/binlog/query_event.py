"""The body of a QUERY or EXECUTE_LOAD_QUERY event: the statement, and the session's settings that it was read with.

Source: MySQL source documentation, "Query_event", "Status variables".
"""

from __future__ import annotations

from dataclasses import dataclass

from cdc_core.charsets.charsets import text_of
from cdc_core.schema.sql_text import Dialect

_FIXED = (
    13  # bytes before the status variables; at 8 the length of the database's name, at 9 the error, at 11 the variables
)
_LOAD_FIXED = 26  # the same of EXECUTE_LOAD_QUERY
_FLAGS2, _SQL_MODE, _INCREMENT, _CHARSET, _CATALOG = 0, 1, 3, 4, 6  # variables that come first, in any order
_SIZES = {_FLAGS2: 4, _SQL_MODE: 8, _INCREMENT: 4, _CHARSET: 6}


@dataclass(frozen=True, slots=True)
class Query:
    """A statement with its default database. Bytes that are not text in the client's character set become U+FFFD.
    `error` is the server's code for a statement that failed, and did something all the same."""

    database: str
    text: str
    dialect: Dialect
    error: int = 0


def parse(body: bytes, *, load: bool, mariadb: bool) -> Query:
    """The statement of an event's body. `load`: the event is an EXECUTE_LOAD_QUERY."""
    start = _LOAD_FIXED if load else _FIXED
    at = start + int.from_bytes(body[11:13], "little")
    stop = at + body[8]
    variables = _variables(body[start:at])
    sql_mode = int.from_bytes(variables.get(_SQL_MODE, b""), "little")
    collation = int.from_bytes(variables.get(_CHARSET, b"")[:2], "little")
    text = _decoded(body[stop + 1 :], collation)
    error = int.from_bytes(body[9:11], "little")
    return Query(body[at:stop].decode(errors="replace"), text, Dialect.of(sql_mode, mariadb=mariadb), error)


def _variables(data: bytes) -> dict[int, bytes]:
    """The values of the variables up to the first that is not known."""
    values, at = {}, 0
    while at < len(data):
        code = data[at]
        size = data[at + 1] + 1 if code == _CATALOG and at + 1 < len(data) else _SIZES.get(code)
        if size is None:
            break
        values[code] = data[at + 1 : at + 1 + size]
        at += 1 + size
    return values


def _decoded(raw: bytes, collation: int) -> str:
    try:
        return text_of(raw, collation)
    except ValueError:
        return raw.decode(errors="replace")
