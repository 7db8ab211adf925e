"""What a DDL statement does to tables, read from its text: `effects`.

Knows the statements of MySQL 5.7 to 9 and MariaDB 10.11. It promises no effect too few for those: a clause that it does
not know is an UNKNOWN change of its table. Source: MySQL manual, "Data Definition Statements".
"""

from __future__ import annotations

from cdc_core.schema.ddl import ChangeKind, ColumnChange, Effect, EffectKind
from cdc_core.schema.ddl_alter import alter_table
from cdc_core.schema.ddl_columns import elements, key
from cdc_core.schema.ddl_options import change_of, option
from cdc_core.schema.ddl_words import NotUnderstood, Reader
from cdc_core.schema.sql_text import LARGE, PLAIN, Dialect, defines_no_table

_OBJECTS = """
    USER ROLE VIEW TRIGGER PROCEDURE FUNCTION EVENT SERVER TABLESPACE LOGFILE UNDO SPATIAL RESOURCE INSTANCE PACKAGE
    SEQUENCE ALGORITHM DEFINER SQL AGGREGATE LIBRARY PREPARE JSON MATERIALIZED
"""
_OTHERS = frozenset(_OBJECTS.split())  # what a statement may be about besides tables, or the word before it
_QUERY = ("SELECT", "TABLE", "VALUES", "WITH", "AS", "IGNORE", "REPLACE", "(")
_MOST = 1 << 20

Parsed = tuple[tuple[Effect, ...], bool]


def effects(text: str, database: str, dialect: Dialect = PLAIN) -> Parsed:
    """The effects in order, and whether the text was understood. `database` is the default one.

    No effects and True: it is about no table, or about temporary ones. What was not understood is an ALTER with an
    UNKNOWN change of the tables that could be read, perhaps of none. A statement of more than a million characters is
    not understood, unless it is about no table: its words would need hundreds of times as many bytes.
    """
    if len(text) >= LARGE and defines_no_table(text, dialect):
        return (), True
    if len(text) > _MOST:
        return (), False
    try:
        reader = Reader(text, dialect)
        return _statement(reader, reader.folded(database))
    except NotUnderstood:
        return (), False


def _statement(reader: Reader, database: str) -> Parsed:
    if reader.take("SET", "STATEMENT"):  # MariaDB: variables for one statement
        reader.skip_until("FOR")
        reader.expect("FOR")
    verb = reader.take_any("CREATE", "ALTER", "DROP", "RENAME", "TRUNCATE", "DELETE")
    match verb:
        case "CREATE":
            return _create(reader, database)
        case "ALTER":
            return _alter(reader, database)
        case "DROP":
            return _drop(reader, database)
        case "RENAME":
            return _rename(reader, database)
        case "TRUNCATE" | "DELETE":  # a DELETE of all rows: see `binlog.statements`
            reader.take_any("TABLE", "FROM")
            return (Effect(EffectKind.TRUNCATE, *reader.table(database)),), True
    return (), False


def _is_other(reader: Reader) -> bool:
    """Whether the statement is about something else than tables and databases."""
    reader.take("OR", "REPLACE")
    reader.take("IF", "NOT", "EXISTS")
    return reader.sees_any(*_OTHERS)


def _alter(reader: Reader, database: str) -> Parsed:
    reader.take("ONLINE")
    ignore = reader.take("IGNORE")
    if reader.take_any("TABLE"):
        return alter_table(reader, database, ignore=ignore)
    return (), _is_other(reader) or reader.sees_any("DATABASE", "SCHEMA")


def _drop(reader: Reader, database: str) -> Parsed:
    temporary = reader.take("TEMPORARY")
    if reader.take_any("TABLE", "TABLES"):
        conditional = reader.take("IF", "EXISTS")
        names = [reader.table(database)]
        while reader.take(","):
            names.append(reader.table(database))
        found = (Effect(EffectKind.DROP, *name, conditional=conditional) for name in names)
        return () if temporary else tuple(found), True
    if reader.take_any("DATABASE", "SCHEMA"):
        conditional = reader.take("IF", "EXISTS")
        name = reader.folded(reader.name())
        return (Effect(EffectKind.DROP_DATABASE, name, "", conditional=conditional),), True
    reader.take("ONLINE")
    if reader.take("INDEX"):
        conditional = reader.take("IF", "EXISTS")
        changes = (key(),) if reader.name().upper() == "PRIMARY" else ()
        reader.expect("ON")
        return (_altered(reader, database, *changes, conditional=conditional),), True
    return (), _is_other(reader)


def _altered(reader: Reader, database: str, *changes: ColumnChange, conditional: bool = False) -> Effect:
    return Effect(EffectKind.ALTER, *reader.table(database), changes=changes, conditional=conditional)


def _rename(reader: Reader, database: str) -> Parsed:
    if reader.take("USER"):
        return (), True
    if not reader.take_any("TABLE", "TABLES"):
        return (), False
    conditional = reader.take("IF", "EXISTS")
    found: list[Effect] = []
    while not found or reader.take(","):
        old = reader.table(database)
        if reader.take("WAIT"):
            reader.word()
        reader.take("NOWAIT")
        reader.expect("TO")
        found.append(Effect(EffectKind.RENAME, *old, to=reader.table(database), conditional=conditional))
    return tuple(found), True


def _create(reader: Reader, database: str) -> Parsed:
    reader.take("OR", "REPLACE")
    if reader.take("TEMPORARY"):
        return (), True
    if reader.take("TABLE"):
        return _create_table(reader, database)
    if reader.take_any("DATABASE", "SCHEMA"):
        return (), True
    first = reader.at
    while reader.take_any("ONLINE", "UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR"):
        pass
    if reader.take("INDEX"):
        while not reader.take("ON"):  # the name, and how it is stored
            reader.skip()
        return (_altered(reader, database),), True
    reader.at = first
    return (), _is_other(reader)


def _create_table(reader: Reader, database: str) -> Parsed:
    conditional = reader.take("IF", "NOT", "EXISTS")
    name = reader.table(database)
    if reader.take("LIKE") or reader.take("(", "LIKE"):
        like = reader.table(database)
        return (Effect(EffectKind.CREATE, *name, like=like, conditional=conditional),), True
    kind, changes, understood, body = EffectKind.CREATE, [], True, reader.rest()
    try:
        if reader.sees("(") and not _query_in_parentheses(reader):
            reader.take("(")
            changes = elements(reader)
        kind = _options(reader, changes)
    except NotUnderstood:
        changes, understood = [ColumnChange(ChangeKind.UNKNOWN, definition=body)], False
    return (Effect(kind, *name, changes=tuple(changes), conditional=conditional),), understood


def _query_in_parentheses(reader: Reader) -> bool:
    return any(reader.sees("(", word) for word in _QUERY)


def _options(reader: Reader, changes: list[ColumnChange]) -> EffectKind:
    """Adds the table's comment to its changes. The kind of the CREATE: whether rows of a query follow."""
    while not reader.done and not reader.sees_any(*_QUERY):
        if reader.take("PARTITION", "BY"):
            reader.skip_until(*_QUERY[:-1])
            continue
        name, value = option(reader)
        changes += change_of(name, value)
        if name == "START":  # TRANSACTION: how MySQL logs CREATE ... SELECT
            return EffectKind.CREATE_FILLED
        reader.take(",")
    if reader.take("WITH", "SYSTEM", "VERSIONING"):
        raise NotUnderstood("the server adds columns of its own")
    return EffectKind.CREATE if reader.done else EffectKind.CREATE_FILLED
