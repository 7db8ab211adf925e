"""What a DDL statement does to tables: values that the stream makes, a claim carries and the lake follows.

One statement has effects in order, each on one table. `schema.ddl_parser` reads them from the statement's text.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from cdc_core.position import EntryPosition
from cdc_core.schema.names import full_name
from cdc_core.schema.session_state import SessionState
from cdc_core.schema.table import TableSchema


class EffectKind(StrEnum):
    """What happens to one table."""

    CREATE = "create"  # it is there, without rows; one of the same name was dropped before
    CREATE_FILLED = "create_filled"  # CREATE ... SELECT: it is there; its rows follow in the binlog
    DROP = "drop"
    DROP_DATABASE = "drop_database"  # every table of `database` is dropped; `table` is empty
    TRUNCATE = "truncate"  # all rows are gone
    RENAME = "rename"  # it is `to` from here on; renames of one statement happen in order
    ALTER = "alter"  # columns or key are others; `changes` says which
    REWRITE = "rewrite"  # rows changed in a way that the text does not say: partitions dropped or exchanged


_OF_NAMED_TABLES = {
    EffectKind.CREATE,
    EffectKind.DROP,
    EffectKind.TRUNCATE,
    EffectKind.RENAME,
    EffectKind.ALTER,
    EffectKind.REWRITE,
}
_OF_FOREIGN_KEYS = re.compile(r"\b(?:FOREIGN|REFERENCES|CONSTRAINT)\b", re.IGNORECASE)


class ChangeKind(StrEnum):
    """One clause of an ALTER that matters to columns, keys, comments or values."""

    ADD_COLUMN = "add_column"
    DROP_COLUMN = "drop_column"
    RENAME_COLUMN = "rename_column"  # name only
    MODIFY_COLUMN = "modify_column"  # another definition under the same name; CHANGE with another name: `to` is set
    SET_DEFAULT = "set_default"  # for later rows only
    DROP_DEFAULT = "drop_default"
    KEY = "key"  # the primary key is another one
    COMMENT = "comment"  # of the table
    DEFAULT_CHARSET = "default_charset"  # of text columns that come later without one; no value changes
    CHARSET = "charset"  # CONVERT TO: of the table's text columns
    FOREIGN_KEY = "foreign_key"  # one may have come or gone: which rows others change is another question then
    UNKNOWN = "unknown"  # a clause that was not understood


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """One clause. The clauses of a statement happen at once: `name` is a column's name before it, `to` after it.

    `definition` is the column's definition as MySQL's SQL, without the name; of SET_DEFAULT the default, of COMMENT the
    comment itself, of CHARSET and DEFAULT_CHARSET the character set and collation, of UNKNOWN the clause. `after`: the
    column that it stands after, "" for FIRST, None where the clause does not say. `columns`: the primary key of KEY,
    () without one.
    `conditional`: IF EXISTS or IF NOT EXISTS, which may have done nothing.
    """

    kind: ChangeKind
    name: str = ""
    to: str | None = None
    definition: str = ""
    after: str | None = None
    columns: tuple[str, ...] = ()
    conditional: bool = False


@dataclass(frozen=True, slots=True)
class Effect:
    """What one statement does to one table. `to`: database and table after a RENAME. `changes`: the clauses of an ALTER
    that matter to the lake; none of them: no change in the lake changed (indexes, engine, partitions by range).
    Of a CREATE they are its columns, key and comment; `like` is the table whose definition it copies.
    `conditional`: IF NOT EXISTS or IF EXISTS, which is logged also where it did nothing. A table that is there stays,
    with its rows; one that is not there stays away.
    `before` and `schema`: the definition before and after the statement, None where they are not known exactly."""

    kind: EffectKind
    database: str
    table: str
    to: tuple[str, str] | None = None
    changes: tuple[ColumnChange, ...] = ()
    before: TableSchema | None = None
    schema: TableSchema | None = None
    like: tuple[str, str] | None = None
    conditional: bool = False

    @property
    def name(self) -> str:
        return full_name(self.database, self.table)

    @property
    def defines(self) -> bool:
        """Whether the clauses may change the table's definition."""
        return any(change.kind is not ChangeKind.FOREIGN_KEY for change in self.changes)


@dataclass(frozen=True, slots=True)
class Ddl:
    """A statement at its place in the stream. `position` is the end of its event. `understood` is False where its text
    could not be parsed; its effects are then those that the definitions show, or an ALTER with one UNKNOWN change.
    `session` is known where the statement is read from its event, and not sent on."""

    position: EntryPosition
    database: str
    text: str
    effects: tuple[Effect, ...]
    understood: bool = True
    session: SessionState | None = field(default=None, compare=False)

    @property
    def concerned(self) -> tuple[tuple[str, str], ...]:
        """Returns database and name of each table that the statement concerns, so that rows of all other tables may
        come before it or after it. Empty if nobody knows: it names a database, was not understood, or is about a
        foreign key."""
        named = [one for effect in self.effects for one in ((effect.database, effect.table), effect.to) if one]
        kinds = {effect.kind for effect in self.effects}
        unknown = any(change.kind is ChangeKind.UNKNOWN for effect in self.effects for change in effect.changes)
        if unknown or not (self.understood and kinds <= _OF_NAMED_TABLES):
            return ()
        if EffectKind.CREATE not in kinds and _OF_FOREIGN_KEYS.search(self.text):
            return ()
        return tuple(dict.fromkeys(named))

    def to_dict(self) -> dict[str, Any]:
        fields = asdict(self)
        del fields["session"]
        return fields | {
            "position": self.position.to_dict(),
            "effects": [
                asdict(effect)
                | {
                    "before": None if effect.before is None else effect.before.to_dict(),
                    "schema": None if effect.schema is None else effect.schema.to_dict(),
                }
                for effect in self.effects
            ],
        }

    @classmethod
    def from_dict(cls, node: dict[str, Any]) -> Ddl:
        return cls(
            EntryPosition.from_dict(node["position"]),
            node["database"],
            node["text"],
            tuple(_effect(one) for one in node["effects"]),
            node["understood"],
        )


def _effect(node: dict[str, Any]) -> Effect:
    before, schema = node["before"], node["schema"]
    return Effect(
        EffectKind(node["kind"]),
        node["database"],
        node["table"],
        _pair(node["to"]),
        tuple(_change(one) for one in node["changes"]),
        None if before is None else TableSchema.from_dict(before),
        None if schema is None else TableSchema.from_dict(schema),
        _pair(node.get("like")),
        node.get("conditional", False),
    )


def _pair(node: list[str] | None) -> tuple[str, str] | None:
    return None if node is None else (node[0], node[1])


def _change(node: dict[str, Any]) -> ColumnChange:
    return ColumnChange(**{**node, "kind": ChangeKind(node["kind"]), "columns": tuple(node.get("columns", ()))})
