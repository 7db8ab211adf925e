"""What Dagster gets about an acked batch: a materialization for each table with changes, and lines in the run's log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import dagster as dg

from cdc_core.contract.claim import Claim
from cdc_core.schema.names import split_name
from orchestration.assets.explained import Budget, Explanation
from orchestration.assets.landed import landed_metadata
from orchestration.assets.metadata import batch_metadata, ddl_metadata, union_metadata
from orchestration.assets.reports import EXPLAIN, Reports
from orchestration.assets.row_count import ROW_COUNT, CountTime, RowCount
from orchestration.assets.run import DrainRun
from orchestration.names import PLACE, Names, place_text
from spark_jobs.apply.result import BatchResult
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.client_tables import ClientTables

Report = tuple[dg.AssetKey, dict[str, Any]]
"""An asset that changed, and the metadata of its materialization."""


@dataclass(frozen=True, slots=True)
class BatchReport:
    """Reports the batches of one run, `of`. `counts` and `budget` bound what the run spends on counting the rows of
    tables and on showing rows."""

    of: DrainRun
    names: Names
    lake: Lake
    counts: CountTime
    budget: Budget

    def write(self, claim: Claim, batch: BatchResult, reports: Reports, acked_at: float) -> None:
        """Adds a report for each asset that the batch changed, and logs what it did besides writing rows."""
        self._log(batch)
        placed = {PLACE: place_text(claim.epoch, claim.end.version())}
        for key, metadata in self._assets(claim, batch, acked_at):
            reports.add(key, metadata | placed)

    def _log(self, batch: BatchResult) -> None:
        log = self.of.log
        for table, reason in batch.instead.items():
            log.warning(f"{table} is merged in this run and not landed: {reason}")
        if batch.followed:  # in one event: a claim may have hundreds of them
            lines = (f"{one.table}: {one.outcome}, by {one.position}: {one.text}" for one in batch.followed)
            log.info("\n".join(lines))
        for done in batch.cascaded:
            log.info(
                f"{done.table}: {done.deleted} rows deleted and {done.updated} changed, "
                f"as its foreign key to {done.parent} did at the source"
            )

    def _assets(self, claim: Claim, batch: BatchResult, acked_at: float) -> Iterator[Report]:
        """Yields the tables with changes or statements, then the change logs, then the unions."""
        statements, run_id = ddl_metadata(batch.followed), self.of.run_id
        applied = {
            result.table: batch_metadata(claim, result, run_id, self.names.source(result.table), acked_at)
            for result in batch.applied
        }
        for table in dict.fromkeys((*statements, *applied)):
            metadata: Mapping[str, Any] = statements.get(table, {}) | applied.get(table, {})
            if table in batch.instead:
                metadata = {**metadata, "merged_because": batch.instead[table]}
            shown = self._shown(claim, table, metadata.get("rows", 0), self.lake.path)
            yield self.names.delta(table), {**metadata, **shown}
        for landed in batch.landed:
            shown = self._shown(claim, landed.table, landed.images, self.lake.log_path)
            yield self.names.log(landed.table), {**landed_metadata(claim, landed, run_id, acked_at), **shown}
        for union in batch.published:
            if union.changed:
                yield self.names.delta(union.union), {**union_metadata(union, run_id)}

    def _shown(self, claim: Claim, table: str, rows: int, path: Callable[[str, str], str]) -> dict[str, Any]:
        """Returns what is computed only if the report is written: the rows before and after, and their number."""
        tables = ClientTables(self.lake, claim.destination, claim.client_id)
        return {
            EXPLAIN: Explanation.of(claim, tables, table, rows, self.budget),
            ROW_COUNT: RowCount(self.lake, partial(path, *split_name(table)), self.counts),
        }
