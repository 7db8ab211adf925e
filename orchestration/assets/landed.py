"""The tables of a destination that land first: they have an asset for their change log, which the drain materializes.

A table that is known not to be landable has no such asset: the drain merges it, and reports that. A run does the same
for a table whose rows show it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import dagster as dg

from cdc_core.contract.claim import Claim
from cdc_core.schema.names import split_name
from cdc_core.schema.table import TableSchema
from orchestration.assets.batch_seconds import SECONDS, batch_seconds
from orchestration.assets.lineage import spec_of, stored
from orchestration.assets.metadata import lag_seconds
from orchestration.settings import Settings
from spark_jobs.expectations.expectation import Expectation
from spark_jobs.landing.append import Landed
from spark_jobs.landing.evolution import why_not
from spark_jobs.landing.modes import Mode, Modes

ROWS_LANDED = "rows_landed"
ROWS_LANDED_TEXT = "The change log got every row that the service counted, once."


@dataclass(frozen=True)
class LandedTables:
    """`schemas`: the declared tables; None if only the name is known. `expected`: what is expected of each."""

    modes: Modes
    schemas: Mapping[str, TableSchema | None]
    expected: Mapping[str, Sequence[Expectation]] = field(default_factory=dict)

    @cached_property
    def merged(self) -> list[str]:
        """The declared tables that a run merges when it claims."""
        return [table for table in self.schemas if not self.lands(table)]

    @cached_property
    def logs(self) -> list[str]:
        """The declared tables that a run lands when it claims."""
        return [table for table in self.schemas if self.lands(table)]

    @cached_property
    def followed(self) -> list[str]:
        """The declared tables that are merged from their logs."""
        return [table for table in self.logs if self.follows(table)]

    @cached_property
    def histories(self) -> list[str]:
        """The tables of `followed` that have a history."""
        return [table for table in self.followed if self.keeps(table)]

    def mode(self, table: str) -> Mode:
        """Returns what a run does with the table, as far as its definition shows."""
        mode = self.modes.of(table)
        if not mode.lands:
            return mode
        schema = self.schemas.get(table)
        if schema is not None and why_not(schema):
            return Mode.MERGE
        return Mode.LAND_FIRST if mode is Mode.HISTORY and schema is not None and not schema.primary_key else mode

    def lands(self, table: str) -> bool:
        return self.mode(table).lands

    def follows(self, table: str) -> bool:
        """Whether its Delta table is merged from its log, by its own run."""
        return self.mode(table).follows

    def keeps(self, table: str) -> bool:
        """Whether it has a history."""
        return self.mode(table) is Mode.HISTORY


def log_spec(settings: Settings, table: str) -> dg.AssetSpec:
    """One table's change log."""
    names = settings.names
    return spec_of(
        settings,
        names.log(table),
        {"delta"},
        f"Every change of {table} as of the last acked batch: a row for each image, appended exactly once.",
        stored(settings, f"{table}__log", settings.paths.log_path(*split_name(table))),
        table=table,
        deps=[names.store, names.source(table)],
        skippable=True,
    )


def landed_metadata(claim: Claim, landed: Landed, run_id: str, acked_at: float) -> dict[str, Any]:
    """The metadata of one log's materialization in one batch, which was acked at the second `acked_at` since the
    epoch. Dagster plots the numbers."""
    counts = landed.counts
    facts: dict[str, Any] = {
        "rows": counts.raw,
        "images": landed.images,
        "inserts": counts.raw_inserts,
        "updates": counts.raw_updates,
        "deletes": counts.raw_deletes,
        "start_position": str(claim.start),
        "end_position": str(claim.end),
        "batch_id": claim.batch_id,
        "epoch": claim.epoch,
        "land_seconds": round(landed.seconds, 3),
        "replayed": landed.replayed,
        "run_id": run_id,
        **lag_seconds(claim.execute_times, landed.landed_at),
    }
    if seconds := batch_seconds(claim, landed.landed_at - landed.seconds, landed.landed_at, acked_at):
        facts[SECONDS] = seconds
    known = {
        "gtid": str(claim.end.gtid or ""),
        "log_version": landed.log_version,
        "log_end": landed.end,
        "added_columns": list(landed.added_columns),
        "begun_anew": landed.begun_anew,
        "no_history": landed.no_history,
    }
    return facts | {name: value for name, value in known.items() if value not in ("", None, [])}
