"""Finds the tables that the rules of a destination see in another way than their rows were made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cdc_core.errors import SluiceError
from cdc_core.rules.rules import Rules
from cdc_core.schema.table import TableSchema
from spark_jobs.check.findings import Finding
from spark_jobs.lake.remedy import copy_hint
from spark_jobs.lake.seen_columns import changed_rules, noted_rules
from spark_jobs.lake.tables import Lake

_WHAT = "the rules"


def ruled(lake: Lake, destination: str, rules: Rules, tables: Iterable[TableSchema]) -> Iterator[Finding]:
    """Yields a finding for each table to which the rules do not fit, and for each that must be copied because its rules
    changed. `tables` are the source's definitions; a table that the lake does not have needs nothing."""
    for schema in tables:
        seen = rules.view(schema)
        if seen.defect and not schema.defect:
            yield Finding(_WHAT, (schema.name,), f"its next rows stop it: {seen.defect.reason}", seen.defect.hint)
        elif not seen.defect and (why := _changed(lake, seen)):
            yield Finding(
                _WHAT, (schema.name,), f"its next rows need a copy: {why}", copy_hint(destination, schema.name)
            )


def _changed(lake: Lake, seen: TableSchema) -> str:
    """How the rules of a table changed since its rows were made, or "". A table that cannot be read has other trouble,
    which runs report."""
    try:
        state = lake.state(lake.path(seen.database, seen.table), "")
    except SluiceError:
        return ""
    if state is None or state.dropped:
        return ""
    return changed_rules(noted_rules(state), {column.name for column in state.columns}, seen)
