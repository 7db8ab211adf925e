"""The facts of a table that its log does not have, as text: its stamp. When the stamp changes, the history must be
compared with the table.

Some commits change rows but neither place nor properties: a repair's rows are written after its note, as are the values
of an added column, and a foreign key's cascade has an app id of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from spark_jobs.lake.record import Marks, said
from spark_jobs.lake.state import SCHEMA_VERSION, UNFILLED, TableState, cascade_id
from spark_jobs.lake.tables import Lake


@dataclass(frozen=True, slots=True)
class EpochVersion:
    """How far a table or a history is: the last epoch of which it has changes, and the version there."""

    epoch: int
    version: int

    def is_behind(self, other: EpochVersion) -> bool:
        return (self.epoch, self.version) < (other.epoch, other.version)


class Tables(Protocol):
    """The paths of tables, and the app ids of their commits."""

    @property
    def lake(self) -> Lake: ...

    def table_path(self, table: str, /) -> str: ...

    def table_app(self, table: str, epoch: int, /) -> str: ...


def stamp_of(
    tables: Tables, table: str, merged: TableState | None, there: EpochVersion | None, end: int, epochs: Iterable[int]
) -> str:
    """Returns the stamp of a table whose state is `merged` and whose place is `there`. `end`: its log's in that epoch.
    `epochs`: the epochs of which it may have changes, the last one first."""
    if merged is None:
        return json.dumps({})
    says = said(merged.properties) | {SCHEMA_VERSION: merged.properties.get(SCHEMA_VERSION, "")}
    if there is not None:
        beyond = there.version > end and there.version not in merged.property_versions
        says |= {"epoch": str(there.epoch), "beyond": str(there.version) if beyond else ""}
    if UNFILLED in merged.properties:
        says["unfilled"] = merged.properties[UNFILLED]
    delta = tables.lake.open(tables.table_path(table), merged.version)
    for epoch, mark in Marks.of(merged.properties).by_epoch.items():
        if (delta.transaction_version(tables.table_app(table, epoch)) or 0) < mark.upto:
            says["unrepaired"] = str(mark.upto)
    for epoch in epochs:
        if cascaded := delta.transaction_version(cascade_id(tables.table_app(table, epoch))):
            says["cascaded"] = f"{epoch}:{cascaded}"
            break
    return json.dumps(says)
