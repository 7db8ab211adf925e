"""The clauses of ALTER TABLE, of MySQL 5.7 to 9 and MariaDB, as effects.

Source: MySQL manual, "ALTER TABLE Statement", "ALTER TABLE Partition Operations"; MariaDB, "ALTER TABLE".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from cdc_core.schema.ddl import ChangeKind, ColumnChange, Effect, EffectKind
from cdc_core.schema.ddl_columns import column_definition, element, elements, key
from cdc_core.schema.ddl_options import change_of, collation, option
from cdc_core.schema.ddl_words import NotUnderstood, Reader

_PARTITION_UPKEEP = ("ANALYZE", "CHECK", "COALESCE", "OPTIMIZE", "REBUILD", "REORGANIZE", "REPAIR")
_PRIMARY = "PRIMARY"  # the name that the primary key has as an index


@dataclass(slots=True)
class Alteration:
    """What the clauses read so far come to. `others` come after `changes`; a RENAME is the last of all."""

    database: str
    table: tuple[str, str]
    changes: list[ColumnChange] = field(default_factory=list)
    others: list[Effect] = field(default_factory=list)
    renamed: tuple[str, str] | None = None

    def change(self, kind: ChangeKind, name: str = "", to: str | None = None, *, conditional: bool = False) -> None:
        self.changes.append(ColumnChange(kind, name, to, conditional=conditional))

    def foreign_key(self) -> None:
        found = ColumnChange(ChangeKind.FOREIGN_KEY)
        if found not in self.changes:
            self.changes.append(found)

    def effect(self, kind: EffectKind, table: tuple[str, str] | None = None) -> None:
        self.others.append(Effect(kind, *(table or self.table)))

    def effects(self, conditional: bool) -> tuple[Effect, ...]:
        found = list(self.others)
        renamed = None if self.renamed == self.table else self.renamed  # a table may keep its name
        if self.changes or not (found or renamed):
            found.insert(0, Effect(EffectKind.ALTER, *self.table, changes=tuple(self.changes)))
        if renamed:
            found.append(Effect(EffectKind.RENAME, *self.table, to=renamed))
        return tuple(replace(effect, conditional=conditional) for effect in found)


def alter_table(reader: Reader, database: str, *, ignore: bool = False) -> tuple[tuple[Effect, ...], bool]:
    """The effects of what follows ALTER TABLE, and whether all of its clauses were understood. `ignore`: rows that are
    double under a new key were dropped."""
    conditional, understood = reader.take("IF", "EXISTS"), True
    made = Alteration(database, reader.table(database))
    if reader.take("WAIT"):
        reader.word()
    while not reader.done:
        first = reader.at
        try:
            _clause(reader, made)
        except NotUnderstood:
            reader.at = first
            reader.skip()
            reader.skip_until(",")
            unknown = reader.text(first, reader.at)
            made.changes.append(ColumnChange(ChangeKind.UNKNOWN, definition=unknown))
            understood = False
        reader.take(",")
    if ignore:
        made.effect(EffectKind.REWRITE)
    return made.effects(conditional), understood


def _clause(reader: Reader, made: Alteration) -> None:
    first = reader.at
    keyword = reader.take_any(*_CLAUSES, *_PARTITION_UPKEEP)
    if keyword in _CLAUSES:
        _CLAUSES[keyword](reader, made)
    elif keyword and reader.take("PARTITION"):
        _to_the_end(reader)
    else:
        reader.at = first
        _option(reader, made)


def _option(reader: Reader, made: Alteration) -> None:
    name, value = option(reader)
    made.changes += change_of(name, value)
    if name == "ENGINE" and value.upper() == "BLACKHOLE":
        made.effect(EffectKind.TRUNCATE)


def _to_the_end(reader: Reader) -> None:
    reader.at = len(reader.words)


def _add(reader: Reader, made: Alteration) -> None:
    if reader.take("PARTITION"):
        _to_the_end(reader)
    elif reader.sees("SYSTEM", "VERSIONING"):
        raise NotUnderstood("the server adds columns of its own")
    else:
        reader.take("COLUMN")
        first = reader.at
        made.changes += elements(reader) if reader.take("(") else element(reader)
        if any(word.keyword == "FOREIGN" for word in reader.words[first : reader.at]):
            made.foreign_key()


def _drop(reader: Reader, made: Alteration) -> None:
    if reader.take("PARTITION"):
        made.effect(EffectKind.REWRITE)
        _to_the_end(reader)
    elif reader.take("PRIMARY", "KEY"):
        made.changes.append(key())
    elif reader.take("FOREIGN", "KEY"):
        reader.take("IF", "EXISTS")
        reader.name()
        made.foreign_key()
    elif reader.take("CHECK"):
        reader.take("IF", "EXISTS")
        reader.name()
    elif keyword := reader.take_any("INDEX", "KEY", "CONSTRAINT"):
        reader.take("IF", "EXISTS")
        if reader.name().upper() == _PRIMARY:
            made.changes.append(key())
        elif keyword == "CONSTRAINT":
            made.foreign_key()
    elif reader.take("PERIOD", "FOR"):
        reader.name()
    elif reader.sees("SYSTEM", "VERSIONING"):
        raise NotUnderstood("the server drops columns of its own")
    else:
        reader.take("COLUMN")
        conditional = reader.take("IF", "EXISTS")
        made.change(ChangeKind.DROP_COLUMN, reader.name(), conditional=conditional)
        reader.take_any("RESTRICT", "CASCADE")


def _modify(reader: Reader, made: Alteration) -> None:
    _redefine(reader, made, renames=False)


def _redefine(reader: Reader, made: Alteration, *, renames: bool = True) -> None:
    """MODIFY; CHANGE has the new name too."""
    reader.take("COLUMN")
    conditional = reader.take("IF", "EXISTS")
    name = reader.name()
    to = reader.name() if renames else name
    definition, after, is_key = column_definition(reader)
    new_name = None if to == name else to
    made.changes.append(
        ColumnChange(ChangeKind.MODIFY_COLUMN, name, new_name, definition, after, conditional=conditional)
    )
    if is_key:
        made.changes.append(key(to))


def _rename(reader: Reader, made: Alteration) -> None:
    if reader.take_any("INDEX", "KEY"):
        reader.take("IF", "EXISTS")
        _pair(reader)
    elif reader.take("COLUMN"):
        conditional = reader.take("IF", "EXISTS")
        made.change(ChangeKind.RENAME_COLUMN, *_pair(reader), conditional=conditional)
    else:
        reader.take_any("TO", "AS", "=")
        made.renamed = reader.table(made.database)


def _pair(reader: Reader) -> tuple[str, str]:
    name = reader.name()
    reader.expect("TO")
    return name, reader.name()


def _alter(reader: Reader, made: Alteration) -> None:
    if reader.take_any("INDEX", "KEY", "CHECK", "CONSTRAINT"):
        reader.skip_until(",")
        return
    reader.take("COLUMN")
    conditional = reader.take("IF", "EXISTS")
    name = reader.name()
    if reader.take("DROP", "DEFAULT"):
        made.change(ChangeKind.DROP_DEFAULT, name, conditional=conditional)
    elif reader.take("SET", "DEFAULT"):
        value = reader.skip_until(",")
        made.changes.append(ColumnChange(ChangeKind.SET_DEFAULT, name, definition=value, conditional=conditional))
    else:
        reader.expect("SET")
        if not reader.take_any("VISIBLE", "INVISIBLE"):
            raise NotUnderstood(f"ALTER COLUMN {name}")


def _convert(reader: Reader, made: Alteration) -> None:
    """Of a character set; MariaDB also makes tables of partitions, and partitions of tables."""
    if reader.take("PARTITION"):
        reader.name()
        reader.expect("TO", "TABLE")
        table = reader.table(made.database)
        made.effect(EffectKind.REWRITE)
        made.effect(EffectKind.CREATE, table)
        made.effect(EffectKind.REWRITE, table)
        _to_the_end(reader)
    elif reader.take("TABLE"):
        made.effect(EffectKind.DROP, reader.table(made.database))
        made.effect(EffectKind.REWRITE)
        _to_the_end(reader)
    else:
        reader.expect("TO")
        if not (reader.take("CHARACTER", "SET") or reader.take("CHAR", "SET")):
            reader.expect("CHARSET")
        made.changes.append(ColumnChange(ChangeKind.CHARSET, definition=collation(reader)))


def _exchange(reader: Reader, made: Alteration) -> None:
    reader.expect("PARTITION")
    reader.name()
    reader.expect("WITH", "TABLE")
    other = reader.table(made.database)
    made.effect(EffectKind.REWRITE)
    made.effect(EffectKind.REWRITE, other)
    _to_the_end(reader)


def _replace_rows(reader: Reader, made: Alteration) -> None:
    """TRUNCATE PARTITION; DISCARD and IMPORT of a table's or partition's tablespace."""
    if not reader.sees_any("PARTITION", "TABLESPACE"):
        raise NotUnderstood("neither a partition nor a tablespace")
    made.effect(EffectKind.REWRITE)
    _to_the_end(reader)


def _nothing(reader: Reader, _: Alteration) -> None:
    """Clauses of one or two words that change nothing that a row shows."""
    reader.take_any("KEYS", "VALIDATION", "PARTITIONING")


def _last(reader: Reader, _: Alteration) -> None:
    """ORDER BY and PARTITION BY are the last clauses, and may contain commas."""
    reader.expect("BY")
    _to_the_end(reader)


_CLAUSES: dict[str, Callable[[Reader, Alteration], None]] = {
    "ADD": _add, "DROP": _drop, "MODIFY": _modify, "CHANGE": _redefine, "RENAME": _rename, "ALTER": _alter,
    "CONVERT": _convert, "EXCHANGE": _exchange, "TRUNCATE": _replace_rows, "DISCARD": _replace_rows,
    "IMPORT": _replace_rows, "ORDER": _last, "PARTITION": _last, "ENABLE": _nothing, "DISABLE": _nothing,
    "FORCE": _nothing, "WITH": _nothing, "WITHOUT": _nothing, "REMOVE": _nothing, "UPGRADE": _nothing,
    "NOWAIT": _nothing, "SECONDARY_LOAD": _nothing, "SECONDARY_UNLOAD": _nothing,
}  # fmt: skip
