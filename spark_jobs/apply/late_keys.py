"""Foreign keys that changed since: a run that is behind reads the present ones, but its rows had others.

A claim's statements show the changes. If a table or its columns were renamed, the rows that reference nothing are
looked up. If a foreign key is gone, its references are unknown: the table is copied, unless no other table lost keys
since, so that every earlier run that had to follow the key has seen it.
"""

from __future__ import annotations

import re

from deltalake.exceptions import DeltaError

from cdc_core.contract.claim import Claim
from cdc_core.errors import SluiceError
from cdc_core.schema.ddl import Ddl, EffectKind
from cdc_core.schema.names import split_name
from cdc_core.schema.sql_text import shown
from spark_jobs.lake.state import DeltaCommit
from spark_jobs.lake.tables import Lake

_CLOCKS = 10_000  # milliseconds that the clocks of source and lake may differ
_ALTERS = ("SET", "UNSET", "ADD", "CHANGE", "RENAME", "DROP", "UPGRADE")  # how operations without rows begin
_OF_METADATA = ("CREATE TABLE", "UPDATE TABLE METADATA", "UPDATE FIELD METADATA")
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
    """Whether another table may have lost keys in the lake after the statement: by a run that may not have seen the
    dropped key."""
    since = ddl.position.timestamp
    others = [lake.path(*split_name(name)) for name in lake.live_tables(destination) if name != table]
    return bool(others) and (since is None or any(_lost_keys(lake, path, since - _CLOCKS) for path in others))


def _lost_keys(lake: Lake, path: str, since: int) -> bool:
    """Whether rows were updated or deleted since then. A copy, and rows of a change log, may have done so."""
    try:
        if lake.written_at(path) <= since:
            return False
        return any(_may_lose_keys(one) for one in lake.commits_since(path, since))
    except (SluiceError, DeltaError, OSError):
        return True  # its log is damaged


def _may_lose_keys(commit: DeltaCommit) -> bool:
    """Whether the commit may have updated or deleted rows of a parent. No statement on a parent has a cascade."""
    note, operation = commit.note, commit.operation
    if counts := note.get("counts"):
        return bool(counts["updates"] or counts["deletes"])
    return "ddl" not in note and operation not in _OF_METADATA and operation.partition(" ")[0] not in _ALTERS


def why_released(table: str, ddl: Ddl) -> str:
    return (
        f"{shown(ddl.text, 200)!r} dropped a constraint of {table}, and the lake was behind: what a "
        "foreign key did to its rows until then is in no binlog"
    )
