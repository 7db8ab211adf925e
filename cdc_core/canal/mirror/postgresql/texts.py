"""Character sets of a table's texts. A definition without one has the table's; what that is, the text of a statement
does not say, so a column whose character set is not known any more is marked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cdc_core.canal.mirror.postgresql.changes import is_generated
from cdc_core.canal.mirror.postgresql.clauses import check_charset, definition_comment
from cdc_core.canal.mirror.postgresql.types import TEXTS, charset_of, read
from cdc_core.canal.mirror.sql import Untranslatable
from cdc_core.schema.ddl import ColumnChange

_UNKNOWN = "unknown"
Definitions = Mapping[str, str | None]


def converted(change: ColumnChange, definitions: Definitions, table: str) -> Iterator[str]:
    """CONVERT TO: all texts have the table's character set then, and a TEXT may be a larger one. Raises
    Untranslatable."""
    check_charset(change)
    if any(map(is_generated, filter(None, definitions.values()))):
        raise Untranslatable("values of a generated column may change with the character set")
    yield from _marked(definitions, table, own=True)


def without_charset(definitions: Definitions, table: str) -> Iterator[str]:
    """The table's character set is another one for columns to come: those that are there keep theirs."""
    yield from _marked(definitions, table, own=False)


def _marked(definitions: Definitions, table: str, *, own: bool) -> Iterator[str]:
    """`own`: those with their own character set, and TEXT; else those without one."""
    for name, definition in definitions.items():
        parts = read(definition) if definition else None
        if parts is None or parts.kind not in ("char", "varchar", "enum", "set", *TEXTS):
            continue
        has_own = charset_of(parts) not in ("", _UNKNOWN)
        if has_own or parts.kind in TEXTS if own else not charset_of(parts):
            yield definition_comment(table, name, f"{definition} CHARACTER SET {_UNKNOWN}")
