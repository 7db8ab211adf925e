"""Foreign keys that changed since: a run that is behind reads the present ones, but its rows had others.

A claim's statements show the changes. If a table or its columns were renamed, the rows that reference nothing are
looked up. If a foreign key is gone, its references are unknown: the table is copied, unless no table was written since,
so that every earlier run has seen the key.
"""

from __future__ import annotations

import re

from deltalake.exceptions import DeltaError

from cdc_core.contract.claim import Claim
from cdc_core.errors import SluiceError
from cdc_core.schema.ddl import Ddl, EffectKind
from cdc_core.schema.names import split_name
from cdc_core.schema.sql_text import shown
from spark_jobs.lake.tables import Lake

_CLOCKS = 10_000  # milliseconds that the clocks of source and lake may differ
_COMMENT = re.compile(r"/\*!?\d*|\*/")
_DROPS = re.compile(r"\bDROP\s+(?:FOREIGN\s+KEY|CONSTRAINT)\b", re.IGNORECASE)


def renamed(claim: Claim) -> set[tuple[str, str]]:
    """The tables that have another name, or columns with other names, since a statement of the claim."""
    effects = [effect for ddl in claim.ddl for effect in ddl.effects]
    tables = {effect.to for effect in effects if effect.kind is EffectKind.RENAME and effect.to}
    return tables | {
        (effect.database, effect.table) for effect in effects if any(change.to is not None for change in effect.changes)
    }


def released(claim: Claim) -> list[tuple[str, Ddl]]:
    """The tables that lost a constraint, each with the statement."""
    return [
        (effect.name, ddl)
        for ddl in claim.ddl
        if _DROPS.search(_COMMENT.sub(" ", ddl.text))
        for effect in ddl.effects
        if effect.kind is EffectKind.ALTER
    ]


def written_since(lake: Lake, destination: str, table: str, ddl: Ddl) -> bool:
    """Whether another table was written after the statement: by a run that may not have seen the dropped key."""
    since = ddl.position.timestamp
    others = [lake.path(*split_name(name)) for name in lake.live_tables(destination) if name != table]
    return bool(others) and (since is None or any(_written(lake, path, since - _CLOCKS) for path in others))


def _written(lake: Lake, path: str, since: int) -> bool:
    try:
        return lake.written_at(path) > since
    except (SluiceError, DeltaError, OSError):
        return True  # its log is damaged


def why_released(table: str, ddl: Ddl) -> str:
    return (
        f"{shown(ddl.text, 200)!r} dropped a constraint of {table}, and the lake was behind: what a "
        "foreign key did to its rows until then is in no binlog"
    )
