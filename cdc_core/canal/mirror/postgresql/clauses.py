"""The parts of which PostgreSQL's DDL statements are made: checked names, defaults, keys, comments."""

from __future__ import annotations

from collections.abc import Mapping

from cdc_core.canal.mirror.postgresql.sql import literal, quoted
from cdc_core.canal.mirror.postgresql.types import Value
from cdc_core.canal.mirror.sql import Untranslatable
from cdc_core.schema.ddl import ChangeKind, ColumnChange

_LONGEST = 63  # bytes of a name; PostgreSQL cuts longer ones
_MARK = "MySQL: "  # of a comment that is a definition


def named(*names: str) -> str:
    """A name, or schema and table. Raises Untranslatable for one that PostgreSQL would cut."""
    for name in names:
        if len(name.encode()) > _LONGEST:
            raise Untranslatable(f"the name {name} has more than {_LONGEST} bytes")
    return ".".join(map(quoted, names))


def default(value: Value | None) -> str:
    return "" if value is None else f" DEFAULT {literal(value)}"


def new_default(value: Value | None) -> str:
    return "DROP DEFAULT" if value is None else f"SET{default(value)}"


def key(change: ColumnChange, names: Mapping[str, str]) -> str:
    """`names`: the columns as they are spelled, by their names in lower case."""
    return f"PRIMARY KEY ({', '.join(named(names.get(name.lower(), name)) for name in change.columns)})"


def table_comment(table: str, change: ColumnChange) -> str:
    return f"COMMENT ON TABLE {table} IS {literal(change.definition)}"


def definition_comment(table: str, column: str, definition: str) -> str:
    return f"COMMENT ON COLUMN {table}.{named(column)} IS {literal(_MARK + definition)}"


def definition_in(comment: str | None) -> str | None:
    return comment.removeprefix(_MARK) if comment and comment.startswith(_MARK) else None


def check_charset(change: ColumnChange) -> None:
    """Raises Untranslatable for one that may change values, or make texts bytes."""
    charset = change.definition.lower().removeprefix("collate ").split()[0].partition("_")[0]
    if charset == "binary" or (change.kind is ChangeKind.CHARSET and charset != "utf8mb4"):
        raise Untranslatable(f"texts may change in the character set {charset}")
