"""Whether a DDL statement that is run twice does harm: one that exchanges names or rows undoes itself. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cdc_core.schema.ddl import ChangeKind, ColumnChange, Effect, EffectKind

_EXCHANGES = re.compile(r"\bEXCHANGE\s+PARTITION\b", re.IGNORECASE)
_RENAMES = (ChangeKind.RENAME_COLUMN, ChangeKind.MODIFY_COLUMN)


def undoes_itself(sql: str, effects: Sequence[Effect]) -> bool:
    """All others fail the second time, or change nothing."""
    tables = [((one.database, one.table), one.to) for one in effects if one.kind is EffectKind.RENAME and one.to]
    columns = any(_is_exchange(_renamed(one.changes)) for one in effects)
    return columns or _is_exchange(_followed(tables)) or bool(_EXCHANGES.search(sql))


def _renamed(changes: Iterable[ColumnChange]) -> dict[str, str]:
    """Names of columns are all as they were before the statement."""
    return {one.name.lower(): one.to.lower() for one in changes if one.kind in _RENAMES and one.to}


def _followed(renames: Sequence[tuple[tuple[str, str], tuple[str, str]]]) -> dict[tuple[str, str], tuple[str, str]]:
    """The first name of each table and its last: renames of tables happen in order."""
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for old, new in renames:
        first = next((first for first, last in found.items() if last == old), old)
        found[first] = new
    return found


def _is_exchange(names: Mapping[Any, Any]) -> bool:
    """Whether the same names are there afterwards, for others."""
    moved = {old: new for old, new in names.items() if old != new}
    return bool(moved) and set(moved) == set(moved.values())
