"""Whether a mirror runs a DDL statement: one that changes tables of its databases, and no others. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cdc_core.canal.mirror.rules import MirrorRules
from cdc_core.canal.mirror.sql import Untranslatable
from cdc_core.schema.ddl import Effect
from cdc_core.schema.ddl_parser import effects
from cdc_core.schema.sql_text import Dialect


def effects_of(sql: str, database: str, table: str) -> tuple[Sequence[Effect], bool]:
    """What the statement does, and whether its text is understood. `table`: the name of one of its tables as the source
    has it, which shows whether it keeps names in lower case."""
    found, understood = effects(sql, database)
    names = {name for effect in found for _, name in tables_of(effect)}
    if table not in names and table in map(str.lower, names):
        return effects(sql, database, Dialect(lower_case=True))
    return found, understood


def tables_of(effect: Effect) -> Iterator[tuple[str, str]]:
    """Database and name of all that the effect names: the table, its new name, the table whose definition it copies."""
    yield effect.database, effect.table
    yield from (one for one in (effect.to, effect.like) if one is not None)


def is_mirrored(found: Sequence[Effect], rules: MirrorRules) -> bool:
    """Whether all tables are of mirrored databases, without own rules. Raises Untranslatable where some are."""
    tables = dict.fromkeys(table for effect in found for table in tables_of(effect))
    others = [table for table in tables if not _is_mirrored(rules, *table)]
    if others and len(others) < len(tables):
        names = ", ".join(f"{database}.{table}".rstrip(".") for database, table in others)
        raise Untranslatable(f"it changes mirrored tables together with {names}, which is not mirrored by its database")
    return not others


def _is_mirrored(rules: MirrorRules, database: str, table: str) -> bool:
    return any(rule.mirror_db for rule in rules.of(database, table))
