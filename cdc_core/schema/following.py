"""How a DDL statement continues the history of definitions, and what the history says about its effects.

Pure. A table of which nothing is known is not followed, unless the statement makes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from cdc_core.schema.agreement import with_defaults_of
from cdc_core.schema.conventions import Conventions, in_session
from cdc_core.schema.databases import database_after
from cdc_core.schema.ddl import Ddl, Effect, EffectKind
from cdc_core.schema.history import Name, SchemaHistory, Version
from cdc_core.schema.interpreter import definition_after
from cdc_core.schema.table import TableSchema

_CREATES = (EffectKind.CREATE, EffectKind.CREATE_FILLED)


@dataclass(slots=True)
class _Statement:
    """One statement at work: `made` are the versions that its effects so far leave."""

    history: SchemaHistory
    position: int
    time: int
    conventions: Conventions
    made: dict[Name, Version] = field(default_factory=dict)

    def current(self, name: Name) -> Version | None:
        return self.made.get(name) or self.history.before(name, self.position)

    def known(self, name: Name) -> TableSchema | None:
        """The definition in front of the next effect; None where this statement may be in it already."""
        version = self.current(name)
        return version.schema if version and (version.sure <= self.position or name in self.made) else None

    def surely_there(self, name: Name) -> bool:
        version = self.current(name)
        return version is not None and not version.dropped and version.sure <= self.position

    def leave(self, name: Name, schema: TableSchema | None, *, dropped: bool = False) -> None:
        self.made[name] = Version(self.position, schema, 0, dropped, self.time)

    def follow(self, effect: Effect) -> None:
        name = (effect.database, effect.table)
        current = self.current(name)
        there = current is not None and not current.dropped
        if effect.kind in _CREATES:
            if not (effect.conditional and there):
                base = self.known(effect.like or (effect.database, ""))
                if effect.like is None and base is None:
                    base = TableSchema(effect.database, "", ())
                self.leave(name, definition_after(base, effect, self.conventions))
        elif effect.kind is EffectKind.DROP_DATABASE:
            for one in {*self.history.names(effect.database), *self.made}:
                if one[0] == effect.database:
                    self.leave(one, None, dropped=True)
        elif not there:
            if effect.kind is EffectKind.RENAME and effect.to is not None and not effect.conditional:
                self.leave(effect.to, None)
        elif effect.kind is EffectKind.DROP:
            self.leave(name, None, dropped=True)
        elif effect.kind is EffectKind.RENAME and effect.to is not None:
            self.leave(effect.to, definition_after(self.known(name), effect, self.conventions))
            self.leave(name, None, dropped=True)
        elif effect.kind is EffectKind.ALTER and effect.defines:
            self.leave(name, definition_after(self.known(name), effect, self.conventions))


def versions_after(history: SchemaHistory, ddl: Ddl, time: int, conventions: Conventions) -> dict[Name, Version]:
    """The versions that begin with a statement, whose effects are those on all tables. One that was not understood
    leaves every table that its text may name without a known definition."""
    conventions = in_session(conventions, ddl.session)
    work = _Statement(history, ddl.position.version(), time, conventions)
    for effect in ddl.effects:
        work.follow(effect)
    if not ddl.understood:
        for name in _named(history, ddl.text):
            if name not in work.made:
                work.leave(name, None)
    for database, collation in database_after(ddl, conventions).items():
        known = TableSchema(database, "", (), (), "", collation) if collation else None
        work.leave((database, ""), known)
    return work.made


def filled(history: SchemaHistory, ddl: Ddl, conventions: Conventions) -> Ddl:
    """The statement with `before` and `schema` in its effects, where they are known exactly; without the effects of
    CREATE ... IF NOT EXISTS on a table that was there."""
    position, last = ddl.position.version(), _last(ddl.effects)
    work = _Statement(history, position, 0, in_session(conventions, ddl.session))
    effects = []
    for number, effect in enumerate(ddl.effects):
        name, to = (effect.database, effect.table), effect.to or (effect.database, effect.table)
        before = work.known(name)
        if effect.kind in _CREATES and effect.conditional and work.surely_there(name):
            continue
        work.follow(effect)
        after = work.known(to)
        if last[to] == number:
            version = history.at(to, position)
            after = version.schema if version and version.sure <= position else None
        exact = None if effect.kind in (EffectKind.DROP, EffectKind.DROP_DATABASE) else after
        effects.append(replace(effect, before=_told(before), schema=_told(exact)))
    return replace(ddl, effects=tuple(effects))


def _told(schema: TableSchema | None) -> TableSchema | None:
    """A definition for others, to whom a default is known or an expression."""
    return schema and with_defaults_of(schema, None)


def _last(effects: Sequence[Effect]) -> dict[Name, int]:
    """The number of the last effect on each table."""
    last = {}
    for number, effect in enumerate(effects):
        last[effect.database, effect.table] = number
        if effect.to is not None:
            last[effect.to] = number
    return last


def _named(history: SchemaHistory, text: str) -> list[Name]:
    """The tables whose name occurs in a text; all of them where its letters cannot be compared."""
    plain = text.lower()
    if not plain.isascii():
        return list(history.tables)
    return [name for name in history.tables if name[1] and (name[1].lower() in plain or not name[1].isascii())]
