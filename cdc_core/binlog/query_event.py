"""The body of a QUERY or EXECUTE_LOAD_QUERY event: the statement, and the session's state that it was read with.

Sources: MySQL source documentation, "Query_event", "Status variables"; MariaDB, "QUERY_EVENT".
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cdc_core.charsets.charsets import text_of
from cdc_core.schema.session_state import SessionState
from cdc_core.schema.sql_text import Dialect

_FIXED = 13  # bytes before the status variables; at 8 the length of the database's name, 9 the error, 11 the variables
_LOAD_FIXED = 26  # the same of EXECUTE_LOAD_QUERY
_FLAGS2, _SQL_MODE, _CHARSET, _EXPLICIT_TIMESTAMPS, _UTF8MB4 = 0, 1, 4, 16, 18
_MARIADB_COLLATIONS = 131
_SIZES = {
    _FLAGS2: 4, _SQL_MODE: 8, 3: 4, _CHARSET: 6, 7: 2, 8: 2, 9: 8, 10: 4, 13: 3, _EXPLICIT_TIMESTAMPS: 1, 17: 8,
    _UTF8MB4: 2, 19: 1, 20: 1, 128: 3, 129: 8,
}  # fmt: skip
_LENGTHS = {2: 2, 5: 1, 6: 1}  # a byte with the text's length, and as many bytes besides: catalog, time zone
_MANY_DATABASES = 254
_ALTER_SEQUENCE = 4 | 8  # MariaDB: flags of the second half of an ALTER in two halves, which has a number
_EXPLICIT_FLAG = 1 << 24  # MariaDB, in the flags: OPTION_EXPLICIT_DEF_TIMESTAMP, seen in the events of 10.11


@dataclass(frozen=True, slots=True)
class Query:
    """A statement with its default database. Bytes that are not text in the client's character set become U+FFFD.
    `error` is the server's code for a statement that failed, and did something all the same."""

    database: str
    text: str
    dialect: Dialect
    error: int = 0
    session: SessionState = field(default_factory=SessionState)


def parse(body: bytes, *, load: bool, mariadb: bool) -> Query:
    """The statement of an event's body. `load`: the event is an EXECUTE_LOAD_QUERY."""
    start = _LOAD_FIXED if load else _FIXED
    at = start + int.from_bytes(body[11:13], "little")
    stop = at + body[8]
    session = session_of(body[start:at], mariadb=mariadb)
    dialect = Dialect.of(session.sql_mode or 0, mariadb=mariadb)
    text = _decoded(body[stop + 1 :], session.client)
    error = int.from_bytes(body[9:11], "little")
    return Query(body[at:stop].decode(errors="replace"), text, dialect, error, session)


def session_of(data: bytes, *, mariadb: bool) -> SessionState:
    """The session's state by an event's status variables."""
    values, complete = _variables(data)
    number = {code: int.from_bytes(value, "little") for code, value in values.items() if len(value) <= 8}
    explicit = number.get(_EXPLICIT_TIMESTAMPS)
    if mariadb:  # older servers do not log it: a flag that is not set says nothing
        explicit = 1 if number.get(_FLAGS2, 0) & _EXPLICIT_FLAG else None
    collations = values.get(_CHARSET, b"")
    client, connection, server = (int.from_bytes(collations[i : i + 2], "little") for i in (0, 2, 4))
    return SessionState(
        number.get(_SQL_MODE), client, connection, server, number.get(_UTF8MB4, 0),
        None if explicit is None else bool(explicit), complete and _MARIADB_COLLATIONS not in values,
    )  # fmt: skip


def _variables(data: bytes) -> tuple[dict[int, bytes], bool]:
    """The values of the variables up to the first that is not known, and whether that is all of them."""
    values: dict[int, bytes] = {}
    at = 0
    while at < len(data):
        code = data[at]
        size = _size(code, data[at + 1 :])
        if size is None or at + 1 + size > len(data):
            return values, False
        values[code] = data[at + 1 : at + 1 + size]
        at += 1 + size
    return values, True


def _size(code: int, rest: bytes) -> int | None:
    """How many bytes a variable has; None for one that is not known."""
    if code in _SIZES:
        return _SIZES[code]
    if not rest:
        return None
    if code in _LENGTHS:
        return rest[0] + _LENGTHS[code]
    match code:
        case 11:  # the invoker's user and host
            user = rest[0] + 1
            return user + 1 + rest[user] if user < len(rest) else None
        case 12:  # databases, each with a zero after it
            ends = [i + 1 for i, byte in enumerate(rest) if byte == 0 and i]
            count = rest[0]
            if count == _MANY_DATABASES or not count:
                return 1
            return ends[count - 1] if len(ends) >= count else None
        case 130:
            return 10 if rest[0] & _ALTER_SEQUENCE else 2
        case 131:
            return 1 + 4 * rest[0]
    return None


def _decoded(raw: bytes, collation: int) -> str:
    try:
        return text_of(raw, collation)
    except ValueError:
        return raw.decode(errors="replace")
