"""What rules made of a table's columns, as its properties record it: `{"email": {...}}` by the column's name at the
source. Rows that other rules made are not continued: the table is copied.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from cdc_core.errors import UNNAMED, TableStopped
from cdc_core.rules.claims import HIDING
from cdc_core.schema.column_rule import UTC, ColumnRule
from cdc_core.schema.table import Column, TableSchema
from spark_jobs.lake.copying import CopyNeeded
from spark_jobs.lake.remedy import copy_hint
from spark_jobs.lake.state import RULES, SCHEMA_VERSION, TableState

_ROWS, _COMPUTED = "", "\n"  # the name of no column; what no name of a column at the source begins with


def definition_properties(schema: TableSchema) -> dict[str, str]:
    """Returns the properties that name a definition, with what rules make of its columns."""
    ruled = ruled_columns(schema)
    return {SCHEMA_VERSION: schema.version} | ({RULES: json.dumps(ruled)} if ruled else {})


def check_rules(schema: TableSchema, state: TableState) -> None:
    """Raises CopyNeeded if other rules made the table's rows. A column that the table has not had yet may have any."""
    if reason := changed_rules(noted_rules(state), {column.name for column in state.columns}, schema):
        raise CopyNeeded(reason, schema.name)


def check_added(noted: Mapping[str, Any], added: Collection[str], schema: TableSchema) -> None:
    """Raises TableStopped if columns that came without a statement may be hidden ones under other names: one that rules
    hid is gone. `noted` is what rules made of columns before, `added` are the lake's names of those that came."""
    there = {column.source_name.lower() for column in schema.columns}
    lost = [name for name, facts in noted.items() if _is_hidden(facts) and name.lower() not in there]
    come = [column.name for column in schema.shown if column.name in added and not column.mask]
    if lost and come:
        reason = f"{HIDING}the source's column {lost[0]!r} is gone, and {come[0]!r} came without a statement"
        hint = f"Put the new name into `rules` in defs.yaml if it is the same. {copy_hint(UNNAMED, schema.name)}"
        raise TableStopped(reason, place=schema.name, hint=hint)


def noted_rules(state: TableState) -> dict[str, Any]:
    """Returns what rules made of the table, as `ruled_columns`."""
    found: dict[str, Any] = json.loads(state.properties.get(RULES, "{}"))
    return found


def changed_rules(noted: Mapping[str, Any], there: Collection[str], schema: TableSchema) -> str:
    """Returns how the rules of a column changed, or "". `noted` is what rules made of columns before, and `there` are
    the names that rows have by then."""
    now = ruled_columns(schema)
    if noted == now:
        return ""
    was_where, where = (facts.get(_ROWS, {}).get("where", "") for facts in (noted, now))
    if was_where != where:
        return f"its rules changed: it had {_said_rows(was_where)}, and has {_said_rows(where)} now"
    if reason := _changed_computed(noted, now):
        return reason
    for column in schema.stored:
        name = column.source_name
        before, after = noted.get(name), now.get(name)
        if before != after and (before or name in there):
            was, now_is = _said(before), _said(after)
            reason = f"its rules changed: the source's column {name!r} was {was} and is {now_is} now"
            return reason if was != now_is else f"{reason}, with another salt"
    return ""


def made_otherwise(then: TableState, now: TableState) -> bool:
    """Whether rules made rows of an earlier version in another way than those of now. A column that came since may have
    any rule."""
    was, rules = noted_rules(then), noted_rules(now)
    there = {_ROWS, *was, *(column.name for column in then.columns)}
    return any(was.get(name) != rules.get(name) for name in there)


def ruled_columns(schema: TableSchema) -> dict[str, Any]:
    """Returns what rules make of a definition's columns, by their names at the source, and of its rows."""
    rows = {_ROWS: {"where": schema.where}} if schema.where else {}
    ruled = {column.source_name: _facts(column) for column in schema.stored if _is_ruled(column)}
    return (
        ruled | {_COMPUTED + column.name: _computed(column) for column in schema.columns if column.is_computed} | rows
    )


def _changed_computed(noted: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """How the computed columns changed, or "". The lake cannot know what old rows have."""
    names = dict.fromkeys(name for name in (*noted, *now) if name.startswith(_COMPUTED))
    for name in names:
        before, after = noted.get(name), now.get(name)
        if before != after:
            was, is_now = (_said_computed(facts) for facts in (before, after))
            return f"its rules changed: the column {name[len(_COMPUTED) :]!r} was {was} and is {is_now} now"
    return ""


def _computed(column: Column) -> dict[str, str]:
    assert column.rule is not None
    return {"expression": column.rule.expression, "type": column.column_type}


def _said_computed(facts: Mapping[str, str] | None) -> str:
    return f"computed as {facts['expression']} ({facts['type']})" if facts else "not computed"


def _is_hidden(facts: dict[str, Any]) -> bool:
    """Whether they are those of a column of the source that is left out or masked."""
    return "mask" in facts and (not facts["name"] or facts["mask"] is not None)


def _is_ruled(column: Column) -> bool:
    """Whether a rule says more of the column than what zero dates do: that counts for the rows to come, and where it is
    another type, that is noticed."""
    return column.rule is not None and replace(column.rule, zero_dates=None) != ColumnRule(column.name)


def _said_rows(where: str) -> str:
    return f"the rows where {where}" if where else "all rows"


def _facts(column: Column) -> dict[str, Any]:
    assert column.rule is not None
    facts = {"name": column.name, "mask": column.mask.to_dict() if column.mask else None}
    zone = {"zone": column.rule.zone} if column.rule.zone != UTC else {}
    return facts | ({"cast": column.cast.value} if column.cast else {}) | zone


def _said(facts: dict[str, Any] | None) -> str:
    if facts is None:
        return "shown as it is"
    if not facts["name"]:
        return "left out"
    mask = facts["mask"]
    details = {"truncate": "length", "keep_last": "length", "constant": "constant"}
    size = f" {mask[details[mask['kind']]]}" if mask and mask["kind"] in details else ""
    zone = f" in {facts['zone']}" if facts.get("zone") else ""
    kind = f", of another type ({facts['cast']}{zone})" if facts.get("cast") else ""
    return f"shown as {facts['name']!r}{kind}" + (f", masked by {mask['kind']}{size}" if mask else "")
