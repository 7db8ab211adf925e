"""Online schema changes: gh-ost and pt-online-schema-change fill a helper table and swap it in by RENAME.

The helpers are unseen, and the swap is one change of the real table: its rows are now the helper's. A table with such a
name is seen until the table that it would help is there; it is dropped then. It is seen again, with rows that nobody
knows, when that table goes. Sources: gh-ost,
"Table naming"; pt-online-schema-change, `--new-table-name`; MySQL manual, "Online DDL": `#sql-` tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from cdc_core.schema.ddl import Effect, EffectKind

Tables = Callable[[str, str], bool]  # by database and name
Names = Callable[[str], Collection[str]]  # by database

_CREATES = (EffectKind.CREATE, EffectKind.CREATE_FILLED)
_HELPER = re.compile(r"(?P<lead>_+)(?P<base>.+?)(?:_\d{14})?_(?:gho|ghc|del|new|old)", re.DOTALL)


def is_helper(database: str, table: str, there: Tables) -> bool:
    """Whether a table is a helper of one that is `there`. The server's own `#sql-` tables always are."""
    if table.startswith(("#sql-", "#sql2-")):
        return True
    found = _HELPER.fullmatch(table)
    if found is None:
        return False
    return any(there(database, found["lead"][at:] + found["base"]) for at in range(1, len(found["lead"]) + 1))


def base_of(table: str) -> str:
    """The part of a helper's name that the name of its table contains too; of another name all."""
    found = _HELPER.fullmatch(table)
    return found["base"] if found else table


def effects_seen(effects: Iterable[Effect], captured: Tables, there: Tables) -> tuple[Effect, ...]:
    """The effects on `captured` tables that are no helpers, without those of an ALTER that changes nothing. `there`
    says which captured tables there were before; of a database (the name is empty) whether it had any.

    A table that is renamed to a name outside the filter is dropped; one that comes from outside is there with rows that
    nobody saw: a REWRITE. So is one whose name goes to a helper and is taken by another helper, in one statement or in
    two: between them the helper is no helper, but its earlier rows were unseen.
    """
    found: list[Effect] = []

    def seen(database: str, table: str) -> bool:
        return captured(database, table) and not is_helper(database, table, there)

    for effect in effects:
        table = (effect.database, effect.table)
        if effect.kind is EffectKind.DROP_DATABASE:
            found += [effect] if there(*table) else []
        elif effect.kind is EffectKind.RENAME and effect.to is not None and not seen(*table):
            if seen(*effect.to):
                _come_in(found, effect, effect.to, there)
        elif effect.kind is EffectKind.RENAME and effect.to is not None and _is_helper_of(effect.to, table):
            gone = replace(effect, kind=EffectKind.DROP, to=None, before=None, schema=None)
            found += [
                gone,
                replace(gone, table=f"_{effect.to[1]}_del"),
            ]  # the table between two steps
            _come_in(found, effect, effect.to, there)
        elif effect.kind is EffectKind.RENAME and effect.to is not None:
            stays = seen(*effect.to) or is_helper(*effect.to, there)
            found.append(effect if stays else replace(effect, kind=EffectKind.DROP, to=None, schema=None))
        elif seen(*table) and (effect.kind is not EffectKind.ALTER or effect.changes):
            found.append(effect)
    return tuple(found)


def without_helpers(
    seen: Sequence[Effect], effects: Iterable[Effect], captured: Tables, before: Names
) -> tuple[Effect, ...]:
    """The `seen` ones of a statement's effects, and a DROP of each table of which nothing is seen after the statement:
    it has become a helper, or its name was one in between. A REWRITE of each one that was a helper until then: its rows
    were unseen. `before` lists the captured tables that were there."""
    statement = tuple(effects)
    moves = [one for one in statement if one.kind in (*_CREATES, EffectKind.RENAME, EffectKind.DROP)]
    databases = dict.fromkeys(one for move in moves for one in (move.database, *(move.to or ())[:1]))
    old = {database: {*before(database)} for database in databases}
    new = _tables_after(statement, captured, old)
    stays = {
        (database, table)
        for database, tables in new.items()
        for table in tables
        if not is_helper(database, table, lambda *one: one[1] in new.get(one[0], ()))
    }
    found: list[Effect] = []
    for number, effect in enumerate(seen):
        on = {(one.database, one.table) for one in seen[number + 1 :] if one.kind is EffectKind.RENAME}
        leads_on = effect.to is None or effect.to in stays or effect.to in on
        found.append(effect if leads_on else replace(effect, kind=EffectKind.DROP, to=None, schema=None))
    touched = {name for one in seen for name in ((one.database, one.table), one.to)}
    for database in databases:
        for table in sorted(old[database] & new[database]):
            name = (database, table)
            was_seen = not is_helper(*name, lambda *one: one[1] in old.get(one[0], ()))
            if name not in touched and was_seen != (name in stays):
                found.append(Effect(EffectKind.DROP if was_seen else EffectKind.REWRITE, *name))
    return tuple(found)


def _tables_after(
    statement: Iterable[Effect], captured: Tables, before: Mapping[str, Collection[str]]
) -> dict[str, set[str]]:
    """The captured tables of these databases after a statement."""
    found = {database: {*tables} for database, tables in before.items()}
    for effect in statement:
        there = found.get(effect.database, set())
        if effect.kind in _CREATES and captured(effect.database, effect.table):
            there.add(effect.table)
        elif effect.kind in (EffectKind.DROP, EffectKind.RENAME):
            there.discard(effect.table)
        if effect.to is not None and captured(*effect.to):
            found[effect.to[0]].add(effect.to[1])
    return found


def _is_helper_of(table: tuple[str, str], helper: tuple[str, str]) -> bool:
    return is_helper(*helper, lambda *one: one == table)


def _come_in(found: list[Effect], effect: Effect, to: tuple[str, str], there: Tables) -> None:
    """A table that was not seen takes a name. A rename that gave that name to a helper is the other half of a swap."""
    database, table = to
    other = _given_away(found, to, there)
    before = None if other is None else found.pop(other).before
    found.append(replace(effect, kind=EffectKind.REWRITE, database=database, table=table, to=None, before=before))


def _given_away(found: Sequence[Effect], name: tuple[str, str], there: Tables) -> int | None:
    """The number of the effect that renames a table of this name to a helper."""
    for number, effect in enumerate(found):
        if effect.to is not None and (effect.database, effect.table) == name and is_helper(*effect.to, there):
            return number
    return None
