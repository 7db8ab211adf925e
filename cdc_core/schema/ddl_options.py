"""The options of a table, as CREATE TABLE and ALTER TABLE give them: `name [=] value`.

Source: MySQL manual, "CREATE TABLE Statement"; MariaDB, "CREATE TABLE", where engines may have options of their own.
"""

from __future__ import annotations

from cdc_core.schema.ddl import ChangeKind, ColumnChange
from cdc_core.schema.ddl_words import NotUnderstood, Reader

_KNOWN = """
    ALGORITHM AUTOEXTEND_SIZE AUTO_INCREMENT AVG_ROW_LENGTH CHARSET CHECKSUM COLLATE COMMENT COMPRESSION CONNECTION
    DELAY_KEY_WRITE DIRECTORY ENCRYPTION ENGINE ENGINE_ATTRIBUTE INSERT_METHOD KEY_BLOCK_SIZE LOCK MAX_ROWS MIN_ROWS
    PACK_KEYS PAGE_CHECKSUM PASSWORD ROW_FORMAT SECONDARY_ENGINE SECONDARY_ENGINE_ATTRIBUTE SEQUENCE START
    STATS_AUTO_RECALC STATS_PERSISTENT STATS_SAMPLE_PAGES STORAGE TABLESPACE TABLE_CHECKSUM TRANSACTIONAL TYPE UNION
"""
_WITHOUT_EQUALS = frozenset(_KNOWN.split())


def option(reader: Reader) -> tuple[str, str]:
    """The next option's name in capitals and its value. Raises NotUnderstood where none follows."""
    reader.take("DEFAULT")
    if reader.take("CHARACTER", "SET") or reader.take("CHAR", "SET"):
        name = "CHARSET"
    elif reader.take("DATA", "DIRECTORY") or reader.take("INDEX", "DIRECTORY"):
        name = "DIRECTORY"
    else:
        name = reader.name().upper()
    if not reader.take("=") and name not in _WITHOUT_EQUALS:
        raise NotUnderstood(f"{name[:40]} is not a table option")
    first = reader.at
    reader.skip()
    value = reader.words[first]
    return name, value.text if value.string or value.quoted else reader.text(first, reader.at)


def change_of(name: str, value: str) -> list[ColumnChange]:
    """What an option changes for columns: the table's comment, the character set of columns to come."""
    match name:
        case "COMMENT":
            return [ColumnChange(ChangeKind.COMMENT, definition=value)]
        case "CHARSET":
            return [ColumnChange(ChangeKind.DEFAULT_CHARSET, definition=value)]
        case "COLLATE":
            return [ColumnChange(ChangeKind.DEFAULT_CHARSET, definition=f"COLLATE {value}")]
    return []


def collation(reader: Reader) -> str:
    """The name of a character set, with its collation where one follows."""
    charset = reader.word().text
    return f"{charset} COLLATE {reader.word().text}" if reader.take("COLLATE") else charset
