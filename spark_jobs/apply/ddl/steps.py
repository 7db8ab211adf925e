"""Splits one statement into steps, each with its own version: pure.

A statement may do several things to one table (ALTER ... RENAME). Each needs its own version, so that a replay
knows which are done. The last has the statement's own version, and the ones before count down from it. No other event
ends there: an event has more bytes than a statement has such steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from cdc_core.errors import TableStopped
from cdc_core.schema.ddl import Ddl, Effect, EffectKind
from cdc_core.schema.names import full_name

_ANEW = (
    EffectKind.CREATE,
    EffectKind.CREATE_FILLED,
    EffectKind.DROP,
    EffectKind.DROP_DATABASE,
    EffectKind.TRUNCATE,
)


@dataclass(frozen=True, slots=True)
class Step:
    """Effects that happen at once: one, or all renames that follow each other. `version` is Delta's txnVersion."""

    ddl: Ddl
    effects: tuple[Effect, ...]
    version: int

    @property
    def kind(self) -> EffectKind:
        return self.effects[0].kind

    @property
    def begins_anew(self) -> bool:
        """Whether the old rows of its table do not matter after it. A conditional CREATE may have done nothing; after a
        conditional DROP the table is gone in either case."""
        (effect, *others) = self.effects
        made = effect.kind in (EffectKind.CREATE, EffectKind.CREATE_FILLED)
        return not others and effect.kind in _ANEW and not (made and effect.conditional)

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that it touches, `database.table`."""
        return tuple(dict.fromkeys(name for effect in self.effects for name in tables_of(effect)))

    def check_seen(self, table: str) -> None:
        """Raises TableStopped for a table that the lake cannot have after the step: a rule does not fit it, or hid what
        no rule hides any more."""
        named = (effect for effect in reversed(self.effects) if tables_of(effect)[-1] == table)
        if (effect := next(named, None)) and effect.schema and effect.schema.defect:
            raise TableStopped(effect.schema.defect.reason, place=table, hint=effect.schema.defect.hint)


def tables_of(effect: Effect) -> tuple[str, ...]:
    """The tables that an effect touches."""
    return (effect.name, *((full_name(*effect.to),) if effect.to else ()))


def independent(statements: Sequence[Ddl]) -> list[list[Ddl]]:
    """The statements in groups without a common table, each in order. One that drops a database may be on any table."""
    if any(effect.kind is EffectKind.DROP_DATABASE for ddl in statements for effect in ddl.effects):
        return [list(statements)]
    above: dict[str, str] = {}  # by table, another one of its group; a table alone is its own

    def first(table: str) -> str:
        while above.setdefault(table, table) != table:
            above[table] = table = above[above[table]]
        return table

    named = [sorted({name.lower() for effect in ddl.effects for name in tables_of(effect)}) for ddl in statements]
    for names in named:
        for name in names:
            above[first(name)] = first(names[0])
    groups: dict[str, list[Ddl]] = {}
    for ddl, names in zip(statements, named, strict=True):
        groups.setdefault(first(names[0]) if names else "", []).append(ddl)
    return list(groups.values())


def steps(ddl: Ddl) -> list[Step]:
    """The statement's steps in order."""
    groups: list[tuple[Effect, ...]] = []
    for renames, group in groupby(ddl.effects, lambda effect: effect.kind is EffectKind.RENAME):
        effects = tuple(group)
        groups += [effects] if renames else [(effect,) for effect in effects]
    last, found, later = ddl.position.version(), list[Step](), dict[str, int]()
    for effects in reversed(groups):
        names = {name for effect in effects for name in tables_of(effect)}
        rank = max((later[name] + 1 for name in names if name in later), default=0)
        later |= dict.fromkeys(names, rank)
        found.append(Step(ddl, effects, last - rank))
    return found[::-1]


def origins(effects: tuple[Effect, ...]) -> dict[str, str | None]:
    """Returns for each name the table whose rows it has after the renames; None if it has no rows any more.

    A swap through a third name that existed neither before nor after gives two tables, each with the other's rows.
    """
    now: dict[str, str | None] = {}
    for effect in effects:
        source, target = tables_of(effect)
        now[target] = now.get(source, source)
        now[source] = None
    return {name: origin for name, origin in now.items() if origin != name}
