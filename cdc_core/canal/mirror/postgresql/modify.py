"""MODIFY and CHANGE of a column: another type and another default, if all values stay as they are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from cdc_core.canal.mirror.postgresql.changes import is_generated, keeps, reads
from cdc_core.canal.mirror.postgresql.clauses import definition_comment, named, new_default
from cdc_core.canal.mirror.postgresql.defaults import default_of
from cdc_core.canal.mirror.postgresql.sql import stops_where
from cdc_core.canal.mirror.postgresql.types import declared, read, type_of
from cdc_core.canal.mirror.sql import Untranslatable
from cdc_core.schema.column_text import ColumnParts
from cdc_core.schema.ddl import ColumnChange

_REAL = re.compile(r"\s*REAL\b", re.IGNORECASE)
_NUMBERED = re.compile(r"\bAUTO_INCREMENT\b", re.IGNORECASE)


def modified(change: ColumnChange, name: str, definitions: Mapping[str, str | None], table: str) -> Iterator[str]:
    """`name`: the column's at the target; `definitions`: the source's of all columns, where they are known. Raises
    Untranslatable."""
    column, to = named(name), change.to or change.name  # MODIFY gives a column the spelling that it has there
    before = definitions.get(name)
    if before is None:
        raise Untranslatable(f"the source's definition of {column} is not known: the mirror did not make the column")
    old, new = read(before), read(change.definition)
    _check(before, change.definition, old, new)
    if reads((one for one in definitions.values() if one), name):
        raise Untranslatable(f"a generated column uses {column}, and its values may change")
    yield from _stops(old, new, change.definition, column, table)
    alter = f"ALTER TABLE {table} ALTER COLUMN {column}"
    if type_of(old) != type_of(new):
        yield f"{alter} DROP DEFAULT"
        yield f"{alter} TYPE {type_of(new)}"
    yield f"{alter} {new_default(default_of(new, change.definition))}"
    if to != name:
        yield f"ALTER TABLE {table} RENAME COLUMN {column} TO {named(to)}"
    yield definition_comment(table, to, change.definition)


def _check(before: str, after: str, old: ColumnParts, new: ColumnParts) -> None:
    if before != after and (is_generated(before) or is_generated(after)):
        raise Untranslatable("values of a generated column may change")
    if any(map(_REAL.match, (before, after))):
        raise Untranslatable("REAL is FLOAT or DOUBLE, as the SQL mode says")
    if not keeps(old, new):
        raise Untranslatable(f"values of {declared(old)} may change as {declared(new)}")


def _stops(old: ColumnParts, new: ColumnParts, definition: str, column: str, table: str) -> Iterator[str]:
    """Checks of the rows that are there: MySQL replaces their values, as its SQL mode says."""
    nulls_go = new.nullable is False or (new.nullable is None and new.kind == "timestamp")
    if nulls_go and old.nullable is not False:
        yield stops_where(f"EXISTS (SELECT FROM {table} WHERE {column} IS NULL)", f"there are NULLs in {column}")
    if _NUMBERED.search(definition):
        yield stops_where(
            f"EXISTS (SELECT FROM {table} WHERE {column} = 0)", f"there is a 0 in {column}, which gets another number"
        )
