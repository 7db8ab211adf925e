"""A claim and its DDL statements as the lake sees them: pure.

Clauses of a statement about columns that the lake does not have are left out, and names of columns are those of the
lake. The text stays the source's, but of a table with hidden columns it has no values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from cdc_core.contract.claim import Claim
from cdc_core.errors import LakeError
from cdc_core.rules.rules import Rules, other_salts
from cdc_core.rules.table_rule import TableRule
from cdc_core.schema.ddl import ChangeKind, ColumnChange, Ddl, Effect, EffectKind
from cdc_core.schema.names import full_name
from cdc_core.schema.sql_text import Dialect, without_values
from cdc_core.schema.table import Column, Defect, TableSchema

_OF_COLUMNS = (
    ChangeKind.ADD_COLUMN, ChangeKind.DROP_COLUMN, ChangeKind.RENAME_COLUMN, ChangeKind.MODIFY_COLUMN,
    ChangeKind.SET_DEFAULT, ChangeKind.DROP_DEFAULT,
)  # fmt: skip
_BLIND = (EffectKind.REWRITE, EffectKind.ALTER)  # what does not always say where a column's values went
_ANEW = "AS ()"  # the definition of a generated column
HIDING = "it could show what a rule hides: "
"""Prefix of the reason of a table that stops because the source gave hidden columns or rows another name."""
_NAME_IT = "Put the new name into `rules` in defs.yaml; then reload the table from the source (sluice copy)."


def seen_claim(claim: Claim, rules: Rules) -> Claim:
    """The claim with the definitions that the lake sees, and the fingerprint of the rules."""
    if not rules:
        return claim
    tables = tuple(replace(table, schema=rules.view(table.schema)) for table in claim.tables)
    ddl = tuple(seen_ddl(one, rules) for one in claim.ddl)
    return replace(claim, tables=tables, ddl=ddl, rules=rules.fingerprint)


def check_seen(claim: Claim, rules: Rules, read: Callable[[str], str | None]) -> None:
    """Raises LakeError for a claim that is seen by other rules than the run's, or by another salt: the tables that the
    run copies would need a copy again with their next rows. `read` gives the value of an environment variable."""
    if claim.rules != rules.fingerprint:
        raise LakeError(
            "the service shows the tables by other rules than this run has",
            place=f"{claim.destination}, client {claim.client_id}",
            hint="Reload the code location, and let no other one write this lake; the next run sets its rules.",
        )
    if others := other_salts((table.schema for table in claim.tables), read):
        raise LakeError(
            "the service masks values by another salt than this run has",
            place=others[0],
            hint=f"Set {others[0]} where the service and Dagster run, to the same text; then start them again.",
        )


def seen_ddl(ddl: Ddl, rules: Rules) -> Ddl:
    """The statement with the effects that it has on tables of the lake."""
    origins = _origins(ddl.effects)
    effects = tuple(_effect(effect, origin, rules) for effect, origin in zip(ddl.effects, origins, strict=True))
    if not any(_hides(effect, rules) for effect in ddl.effects):
        return replace(ddl, effects=effects)
    dialect = _dialect(ddl)
    silent = tuple(_without_values(effect, dialect) for effect in effects)
    return replace(ddl, text=without_values(ddl.text, dialect), effects=silent)


def _hides(effect: Effect, rules: Rules) -> bool:
    """Whether the statement is about a table with hidden columns."""
    names = (effect.name, *(full_name(*one) for one in (effect.to, effect.like) if one))
    return any((rule := rules.of(name)) is not None and rule.hides_columns for name in names)


def _dialect(ddl: Ddl) -> Dialect | None:
    """How the statement's session read its text; None where the event does not say it."""
    mode = ddl.session.sql_mode if ddl.session else None
    return None if mode is None else Dialect.of(mode, mariadb=False)


def _without_values(effect: Effect, dialect: Dialect | None) -> Effect:
    """Comments are shown in the lake, and stay."""
    changes = (
        one if one.kind is ChangeKind.COMMENT else replace(one, definition=without_values(one.definition, dialect))
        for one in effect.changes
    )
    return replace(effect, changes=tuple(changes))


def _origins(effects: Sequence[Effect]) -> list[str]:
    """The name that each effect's table had before the statement: a swap goes through a third name."""
    now: dict[str, str] = {}
    found = []
    for effect in effects:
        found.append(now.get(effect.name, effect.name))
        if effect.to is not None:
            now[full_name(*effect.to)] = now.pop(effect.name, effect.name)
    return found


def _effect(effect: Effect, origin: str, rules: Rules) -> Effect:
    schema, before, changes = effect.schema and rules.view(effect.schema), effect.before, effect.changes
    reason = _renamed_away(effect, origin, rules)
    if (rule := rules.of(effect.name)) is not None:
        reason = next((why for change in changes if (why := _escape(change, rule))), reason)
        reason = reason or (None if rules.names(effect.name) else _replaced(effect, rule))
        before = before and rule.view(before)
        computed = tuple(one for change in effect.changes if (one := _computed(change, effect, rule)) is not None)
        changes = tuple(one for change in changes if (one := _change(change, rule)) is not None) + computed
    if reason:
        defect = Defect(f"{HIDING}{reason}", _NAME_IT)
        schema = TableSchema(*(effect.to or (effect.database, effect.table)), (), defect=defect)
    return replace(effect, before=before, schema=schema, changes=changes)


def _computed(change: ColumnChange, effect: Effect, rule: TableRule) -> ColumnChange | None:
    """The change of a generated column that another type of a column which the lake does not have may come to: the
    server computes its values anew. The first such column stands for all."""
    before, after = effect.before, effect.schema
    if change.kind is not ChangeKind.MODIFY_COLUMN or before is None or after is None:
        return None
    later = change.name if change.to is None else change.to
    was, now = _column(before, change.name), _column(after, later)
    hidden = rule.excludes(change.name) and rule.excludes(later)
    if not hidden or was is None or now is None or _keeps_values(was, now):
        return None
    shown = (column for column in after.shown if not rule.excludes(column.name))
    computed = next((one.name for one in shown if one.generated is not False or not one.column_type), None)
    return ColumnChange(ChangeKind.MODIFY_COLUMN, rule.renamed(computed), definition=_ANEW) if computed else None


def _column(schema: TableSchema, name: str) -> Column | None:
    return next((column for column in schema.columns if column.name.lower() == name.lower()), None)


def _keeps_values(was: Column, now: Column) -> bool:
    """Whether the column is of the same type, and no NULL of it got a value."""
    same = (was.type_code, was.meta, was.unsigned, was.charset, was.labels)
    return same == (now.type_code, now.meta, now.unsigned, now.charset, now.labels) and was.nullable <= now.nullable


def _renamed_away(effect: Effect, origin: str, rules: Rules) -> str | None:
    """Why a RENAME would show values that a rule hides: no rule hides them under the table's new name. One that names
    the table in full says what is wanted."""
    rule = rules.of(origin)
    if rule is None or effect.to is None or rules.names(new := full_name(*effect.to)):
        return None
    then = rules.of(new)
    known = [column.name for column in effect.before.shown] if effect.before else list(rule.columns)
    if rule.where and not (then and then.where == rule.where):
        return (
            f"the source renamed it from {origin}, where a rule leaves rows out, and the rule of the new name does not"
        )
    lost = [name for name in known if rule.hides(name) and not (then and then.hides(name))]
    if not lost and not (rule.include and effect.before is None and then != rule):
        return None
    what = f"its column {lost[0]!r}" if lost else "its columns"
    return f"the source renamed it from {origin}, where a rule hides {what}, and no rule does under the new name"


def _escape(change: ColumnChange, rule: TableRule) -> str | None:
    """Why the clause would show values that a rule hides: it gives their column a name that the rule does not have."""
    if change.to is None or change.to.lower() == change.name.lower():
        return None
    if not rule.hides(change.name) or rule.hides(change.to):
        return None
    return f"the source renamed the column {change.name!r}, which a rule hides, to {change.to!r}, which no rule names"


def _replaced(effect: Effect, rule: TableRule) -> str | None:
    """Why a statement that does not say what became of the columns could show values that a rule hides: a hidden column
    is gone, and one may have come that no rule hides, as when a helper of an online change is swapped in. A rule of
    the table's full name does not fit it then."""
    unknown = any(change.kind is ChangeKind.UNKNOWN for change in effect.changes)
    if effect.kind not in _BLIND or not (effect.kind is EffectKind.REWRITE or unknown):
        return None
    if effect.before is None and effect.kind is not EffectKind.REWRITE:
        return None  # whether there is such a table is not known
    was = [column.name for column in effect.before.shown] if effect.before else list(rule.columns)
    now = [column.name for column in effect.schema.shown] if effect.schema else []
    before, after = ({name.lower() for name in names} for names in (was, now))
    lost = [name for name in was if rule.hides(name) and name.lower() not in after]
    come = [name for name in now if not rule.hides(name) and name.lower() not in before]
    if not lost or (effect.before and effect.schema and not come):
        return None
    other = f"which may be {come[0]!r} now" if effect.schema and come else "which may have another name now"
    return f"the source replaced its columns, and a rule hides {lost[0]!r}, {other}"


def _change(change: ColumnChange, rule: TableRule) -> ColumnChange | None:
    """The clause in the lake's names; None where it changes nothing that the lake has."""
    after = rule.renamed(change.after) if change.after else change.after
    if change.kind is ChangeKind.KEY:
        return replace(change, columns=tuple(map(rule.renamed, change.columns)))
    if change.kind not in _OF_COLUMNS:
        return change
    later = change.name if change.to is None else change.to
    if rule.excludes(change.name) and rule.excludes(later):
        return None
    name, to = rule.renamed(change.name), rule.renamed(later)
    if change.kind is ChangeKind.RENAME_COLUMN and name == to:
        return None
    return replace(change, name=name, to=None if change.to is None or name == to else to, after=after)
