"""What Canal's parser makes of a statement: the event type and the table of its entry, read from the text alone.

Source: Canal 1.1.9, `DruidDdlParser.parse`, of whose results the first counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from cdc_core.canal.entries.kinds import CanalEventType
from cdc_core.schema.ddl import Effect, EffectKind
from cdc_core.schema.ddl_parser import effects
from cdc_core.schema.ddl_words import NotUnderstood, Reader
from cdc_core.schema.sql_text import PLAIN, Dialect, readings

_TYPES = {
    EffectKind.CREATE: CanalEventType.CREATE,
    EffectKind.CREATE_FILLED: CanalEventType.CREATE,
    EffectKind.DROP: CanalEventType.ERASE,
    EffectKind.DROP_DATABASE: CanalEventType.QUERY,
    EffectKind.TRUNCATE: CanalEventType.TRUNCATE,
    EffectKind.RENAME: CanalEventType.RENAME,
    EffectKind.ALTER: CanalEventType.ALTER,
    EffectKind.REWRITE: CanalEventType.ALTER,
}
_INDEX = re.compile(r"\s*(CREATE|DROP)\s+(?:\w+\s+){0,3}?INDEX\b", re.IGNORECASE)
_KEYS = ("PRIMARY", "UNIQUE", "INDEX", "KEY", "FULLTEXT", "SPATIAL", "VECTOR")
_HEAD = 4096  # characters of a change in which its table is looked for
_PART = r"(?:`(?:[^`]|``)+`|[\w$]+)"
_NAME = rf"(?:{_PART}\s*\.\s*)?({_PART})"
_MODIFIERS = r"\s+(?:(?:LOW_PRIORITY|DELAYED|HIGH_PRIORITY|QUICK|IGNORE)\s+)*"
_WRITES_TO = re.compile(
    rf"INSERT{_MODIFIERS}(?:INTO\s+)?{_NAME}"
    rf"|UPDATE{_MODIFIERS}{_NAME}\s+(?:(?:AS\s+)?(?!SET\b){_PART}\s+)?SET\b"
    rf"|DELETE{_MODIFIERS}FROM\s+{_NAME}\s*(?:(?:AS\s+)?{_PART}\s+)??(?:$|;|\b(?:WHERE|ORDER|LIMIT|USING|PARTITION)\b)"
    rf"|DELETE{_MODIFIERS}(?!FROM\b){_NAME}(?:\s*\.\s*\*)?\s+FROM\b"
    rf"|CREATE\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?{_NAME}",
    re.IGNORECASE,
)


class Result(NamedTuple):
    """An event type of Canal's and a table."""

    kind: CanalEventType
    database: str
    table: str


def of_effect(effect: Effect) -> Result:
    """What an effect alone would be."""
    return Result(_TYPES[effect.kind], *(effect.to or (effect.database, effect.table)))


def first_result(text: str, database: str, dialect: Dialect) -> Result | None:
    """The first result of a DDL statement; None where the text does not say."""
    try:
        reader = Reader(text, dialect)
        altered = _of_alter(reader, database)
    except NotUnderstood:
        return None
    if altered is not None:
        return altered
    found, _ = effects(text, database, dialect)
    if not found:
        return None
    index = _INDEX.match(reader.sql) if found[0].kind is EffectKind.ALTER else None
    first = of_effect(found[0])
    if index is None:
        return first
    return first._replace(kind=CanalEventType.CINDEX if index[1].upper() == "CREATE" else CanalEventType.DINDEX)


def _of_alter(reader: Reader, database: str) -> Result | None:
    """The first result of an ALTER TABLE, ALTER itself where none of its clauses has one; None of another statement."""
    if not reader.take("ALTER"):
        return None
    reader.take("ONLINE")
    reader.take("IGNORE")
    if not reader.take("TABLE"):
        return None
    reader.take("IF", "EXISTS")
    table = reader.table(reader.folded(database))
    if reader.take("WAIT"):
        reader.word()
    reader.take("NOWAIT")
    return next(_clauses(reader, table, database), Result(CanalEventType.ALTER, *table))


def _clauses(reader: Reader, table: tuple[str, str], database: str) -> Iterator[Result]:
    while not reader.done:
        at = reader.at
        if reader.take("RENAME") and not reader.sees_any("INDEX", "KEY", "COLUMN"):
            reader.take_any("TO", "AS", "=")
            yield Result(CanalEventType.RENAME, *reader.table(reader.folded(database)))
        elif reader.take("DROP"):
            of_index = reader.sees_any("INDEX", "KEY", "CONSTRAINT")
            yield Result(CanalEventType.DINDEX if of_index else CanalEventType.ALTER, *table)
        elif not reader.take("ADD"):
            yield Result(CanalEventType.ALTER, *table)
        elif reader.sees_any(*_KEYS):
            yield Result(CanalEventType.CINDEX, *table)
        elif reader.take("CONSTRAINT"):
            if not reader.sees_any("PRIMARY", "UNIQUE", "FOREIGN", "CHECK"):
                reader.name()
            if reader.sees_any("PRIMARY", "UNIQUE"):
                yield Result(CanalEventType.CINDEX, *table)
        elif not reader.sees_any("FOREIGN", "CHECK"):
            yield Result(CanalEventType.ALTER, *table)
        reader.at = max(at, reader.at - 1)
        reader.skip_until(",")
        if not reader.take(","):
            return


def written_table(text: str) -> str:
    """The table that a change of rows writes to, without its database; empty where there may be several, or the text
    does not say."""
    found = _WRITES_TO.match(readings(text[:_HEAD], PLAIN)[0])
    name = next((one for one in found.groups() if one), "") if found else ""
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
