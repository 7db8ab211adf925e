"""The elements of a table in CREATE TABLE and ADD: columns with their definitions, and the primary key.

Source: MySQL manual, "CREATE TABLE Statement"; MariaDB, "CREATE TABLE".
"""

from __future__ import annotations

from cdc_core.schema.ddl import ChangeKind, ColumnChange
from cdc_core.schema.ddl_words import NotUnderstood, Reader

_CONSTRAINTS = ("PRIMARY", "UNIQUE", "FULLTEXT", "SPATIAL", "FOREIGN", "INDEX", "KEY", "CHECK", "CONSTRAINT")


def elements(reader: Reader) -> list[ColumnChange]:
    """The columns and the key of a list in parentheses, of which the opening one is read already."""
    found: list[ColumnChange] = []
    while True:
        found += element(reader)
        if not reader.take(","):
            reader.expect(")")
            return found


def element(reader: Reader) -> list[ColumnChange]:
    """One column, with the key that its definition makes; or one constraint, which is empty unless it is the key."""
    if _is_constraint(reader):
        return _constraint(reader)
    conditional = reader.take("IF", "NOT", "EXISTS")
    name = reader.name()
    definition, after, is_key = column_definition(reader)
    column = ColumnChange(ChangeKind.ADD_COLUMN, name, None, definition, after, conditional=conditional)
    return [column, key(name)] if is_key else [column]


def key(*columns: str) -> ColumnChange:
    return ColumnChange(ChangeKind.KEY, columns=columns)


def column_definition(reader: Reader) -> tuple[str, str | None, bool]:
    """The definition's text, the column that it stands after (see `ColumnChange.after`), whether it makes the key."""
    first, is_key, before = reader.at, False, ""
    while not reader.done and not reader.sees_any(",", ")", "FIRST", "AFTER") and not at_partitions(reader):
        keyword = reader.words[reader.at].keyword
        is_key |= keyword == "PRIMARY" or (keyword == "KEY" and before not in ("UNIQUE", "PRIMARY"))
        before = keyword
        reader.skip()
    definition = reader.text(first, reader.at)
    if not definition:
        raise NotUnderstood("a column has no definition")
    after = "" if reader.take("FIRST") else reader.name() if reader.take("AFTER") else None
    return definition, after, is_key


def at_partitions(reader: Reader) -> bool:
    """Whether the clause of partitions follows: no comma stands before it."""
    return reader.sees("PARTITION", "BY") or reader.sees("REMOVE", "PARTITIONING")


def _is_constraint(reader: Reader) -> bool:
    return (
        reader.sees_any(*_CONSTRAINTS)
        or reader.sees("PERIOD", "FOR")
        or reader.sees("VECTOR", "INDEX")
        or reader.sees("VECTOR", "KEY")
    )


def _constraint(reader: Reader) -> list[ColumnChange]:
    if reader.take("CONSTRAINT") and not reader.sees_any(*_CONSTRAINTS):
        reader.name()
    columns = None
    if reader.take("PRIMARY", "KEY"):
        while not reader.sees_any("("):
            reader.word()  # USING BTREE, and a name that has no meaning
        columns = _key_columns(reader)
    while not reader.done and not reader.sees_any(",", ")") and not at_partitions(reader):
        reader.skip()
    return [] if columns is None else [key(*columns)]


def _key_columns(reader: Reader) -> list[str]:
    """The names in parentheses, without lengths and directions."""
    reader.expect("(")
    names = [reader.name()]
    while not reader.take(")"):
        if reader.take(","):
            names.append(reader.name())
        else:
            reader.skip()
    return names
