"""The DDL statements among a block's events, as what they do to captured tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import structlog

from cdc_core.binlog import query_event
from cdc_core.binlog.block import STATEMENTS, Block, BlockSlice
from cdc_core.binlog.query_event import Query
from cdc_core.binlog.statements import of_database
from cdc_core.position import EntryPosition
from cdc_core.schema.ddl import ChangeKind, ColumnChange, Ddl, Effect, EffectKind
from cdc_core.schema.ddl_parser import effects
from cdc_core.schema.sql_text import Dialect
from cdc_core.stream.group import body_at
from cdc_core.stream.online_ddl import effects_seen, is_helper, without_helpers

log = structlog.get_logger(__name__)
_NAME = r'`(?:[^`]|``)+`|"(?:[^"]|"")+"|[\w$]+'
_NAMES = re.compile(rf"({_NAME})(?:\s*\.\s*({_NAME}))?")  # a name, or two of them with a dot between


@dataclass(frozen=True, slots=True)
class Traits:
    """What the meaning of a server's statements depends on. `lower_case`: it keeps names of tables in lower case."""

    mariadb: bool = False
    lower_case: bool = False


class DdlFollower(Protocol):
    """The schema history. It gets statements with their effects on all tables."""

    def follow(self, ddl: Ddl) -> None:
        """Takes it in."""

    def filled(self, ddl: Ddl) -> Ddl:
        """The same with definitions in its effects."""

    def tables(self, database: str, position: EntryPosition) -> Collection[str]:
        """The tables that a database has in front of a position."""


class DdlReader:
    """`captured` is the filter, by database and table. `traits` are those of the server that is read."""

    def __init__(
        self,
        captured: Callable[[str, str], bool],
        traits: Callable[[], Traits] = Traits,
        definitions: DdlFollower | None = None,
    ) -> None:
        self._captured, self._traits, self._definitions = captured, traits, definitions
        self._left_out: set[tuple[str, str]] = set()  # helpers that the log names

    def __repr__(self) -> str:
        return f"<DdlReader {self._traits()}>"

    @property
    def mariadb(self) -> bool:
        """Whether the server is a MariaDB, as far as is known."""
        return self._traits().mariadb

    def dialect(self, query: Query) -> Dialect:
        """How the server read a statement, and wrote its names."""
        return replace(query.dialect, lower_case=self._traits().lower_case)

    def captures(self, database: str, table: str, position: EntryPosition) -> bool:
        """Whether a table is captured: by the filter, and no helper of a table that is there."""
        if not self._captured(database, table):
            return False
        if not is_helper(database, table, self._there(position)):
            return True
        if (database, table) not in self._left_out:
            self._left_out.add((database, table))
            why = "its name is that of a helper of an online schema change, and the table that it would help is there"
            log.warning("table left out", database=database, table=table, why=why)
        return False

    def met(self, query: Query, position: EntryPosition) -> Ddl:
        """A statement that comes from the source and ends at a position, with its effects on captured tables. The
        schema history takes it in."""
        ddl = self._ddl(query, position)
        if self._definitions is not None:
            self._definitions.follow(ddl)
        return self._seen(ddl)

    def statements(self, slices: Iterable[BlockSlice]) -> tuple[Ddl, ...]:
        """The statements of annotated blocks that have such effects, with the definitions before and after them."""
        places = ((part, np.flatnonzero(np.isin(part.index["kind"], STATEMENTS))) for part in slices)
        found = (self._at(part.block, part.low + row) for part, rows in places for row in rows.tolist())
        return tuple(ddl for ddl in found if ddl.effects)

    def unshown(self, query: Query, position: EntryPosition) -> tuple[Effect, ...]:
        """The changes of captured tables that the lake does not show: of indexes, engines, partitions by range."""
        found = self._ddl(query, position).effects
        quiet = (one for one in found if one.kind is EffectKind.ALTER and not one.changes)
        return tuple(one for one in quiet if self.captures(one.database, one.table, position))

    def tells(self, query: Query, position: EntryPosition) -> bool:
        """Whether Canal's clients get a DDL statement that has no effects in the lake."""
        return of_database(query.text) or bool(self.unshown(query, position))

    def _at(self, block: Block, row: int) -> Ddl:
        query = query_event.parse(body_at(block, row), load=False, mariadb=self._traits().mariadb)
        ddl = self._ddl(query, block.position(row))
        return self._seen(ddl if self._definitions is None else self._definitions.filled(ddl))

    def _ddl(self, query: Query, position: EntryPosition) -> Ddl:
        found, understood = effects(query.text, query.database, self.dialect(query))
        if not (understood or found):
            found = self._unknown(query, position)
        if query.error:
            found = tuple(after_failure(effect, query) for effect in found)
        return Ddl(position, query.database, query.text, found, understood, query.session)

    def _unknown(self, query: Query, position: EntryPosition) -> tuple[Effect, ...]:
        """What a statement of which nothing was understood does to the tables whose names it has. Without a schema
        history every word of it may be one: the lake knows which tables it has."""
        found = {(_name(one[1]), _name(one[2] or "")) for one in _NAMES.finditer(query.text)}
        if self._traits().lower_case:
            found = {(first.lower(), second.lower()) for first, second in found}
        names = {name for pair in found for name in pair if name}
        if self._definitions is None:
            tables = {pair if pair[1] else (query.database, pair[0]) for pair in found}
        else:
            known = {database: self._definitions.tables(database, position) for database in {query.database, *names}}
            tables = {(database, table) for database, there in known.items() for table in names.intersection(there)}
        unknown = (ColumnChange(ChangeKind.UNKNOWN, definition=query.text),)
        return tuple(Effect(EffectKind.ALTER, *table, changes=unknown) for table in sorted(tables))

    def _seen(self, ddl: Ddl) -> Ddl:
        seen, known = effects_seen(ddl.effects, self._captured, self._there(ddl.position)), self._definitions
        if known is None:
            return replace(ddl, effects=seen)

        def before(database: str) -> list[str]:
            return [one for one in known.tables(database, ddl.position) if self._captured(database, one)]

        return replace(ddl, effects=without_helpers(seen, ddl.effects, self._captured, before))

    def _there(self, position: EntryPosition) -> Callable[[str, str], bool]:
        """Which captured tables there are in front of a position, by database and name; without a name, whether there
        is any. Without a schema history they are taken to be there."""
        known = self._definitions

        def there(database: str, table: str) -> bool:
            tables = None if known is None else known.tables(database, position)
            if not table:
                return tables is None or any(self._captured(database, one) for one in tables)
            return self._captured(database, table) and (tables is None or table in tables)

        return there


def _name(text: str) -> str:
    """A name as it stands in a statement, without its quotes."""
    if text[:1] in ("`", '"'):
        return text[1:-1].replace(text[0] * 2, text[0])
    return text


def after_failure(effect: Effect, query: Query) -> Effect:
    """What an effect of a statement that failed comes to. MariaDB's CREATE OR REPLACE has dropped the table by then."""
    match effect.kind:
        case EffectKind.DROP | EffectKind.DROP_DATABASE:
            return effect
        case EffectKind.CREATE | EffectKind.CREATE_FILLED:
            return Effect(EffectKind.DROP, effect.database, effect.table, conditional=True)
        case _:
            text = f"{query.text} (error {query.error})"
            unknown = ColumnChange(ChangeKind.UNKNOWN, definition=text)
            return Effect(EffectKind.ALTER, *(effect.to or (effect.database, effect.table)), changes=(unknown,))
