"""The lake's ledger: a Delta table with one row a batch, noted after the tables' commits and before the ack.

It says what the lake has, independent of any cursor. A batch is noted once: a second note of the same end is left out.
Written with delta-rs, without Spark. It does not say that nothing was lost before its first row.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, QueryBuilder, Transaction, write_deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError

from cdc_core.errors import LakeError
from cdc_core.position import EntryPosition
from cdc_core.session.claim import Claim
from spark_jobs.checks import TableResult
from spark_jobs.lake import Lake

_COMPACT_EVERY = 200  # batches: each leaves a small file
_SCHEMA = pa.schema(
    [
        ("epoch", pa.int64()),
        ("batch_id", pa.int64()),
        ("start_journal", pa.string()),
        ("start_position", pa.int64()),
        ("end_journal", pa.string()),
        ("end_position", pa.int64()),
        ("end_version", pa.int64()),
        ("gtid", pa.string()),
        ("run_id", pa.string()),
        ("rows", pa.int64()),
        ("transactions", pa.int64()),
        ("tables", pa.string()),
        ("committed_at", pa.timestamp("us", "UTC")),
    ]
)


@dataclass(frozen=True, slots=True)
class Ledger:
    """The batches of one destination and client."""

    lake: Lake
    destination: str
    client_id: int

    @property
    def path(self) -> str:
        return self.lake.ledger_path(self.destination, self.client_id)

    def version(self, epoch: int) -> int | None:
        """The version of the last end noted in an epoch, None when there is none."""
        table = self._open()
        return None if table is None else table.transaction_version(self._app(epoch))

    def last(self, epoch: int) -> EntryPosition | None:
        """Where the lake stands in an epoch."""
        table = self._open()
        if table is None or table.transaction_version(self._app(epoch)) is None:
            return None
        question = (
            "SELECT end_journal, end_position, gtid FROM batches "  # noqa: S608
            f"WHERE epoch = {int(epoch)} ORDER BY end_version DESC LIMIT 1"
        )
        found = pa.table(QueryBuilder().register("batches", table).execute(question).read_all()).to_pylist()
        if not found:
            return None
        return EntryPosition(found[0]["end_journal"], found[0]["end_position"], gtid=found[0]["gtid"])

    def starts(self) -> dict[int, int]:
        """The version at which the first noted batch of each epoch began."""
        table = self._open()
        if table is None:
            return {}
        first = "SELECT epoch AS e, min(end_version) AS first FROM batches GROUP BY epoch"
        question = (
            "SELECT epoch, start_journal, start_position FROM batches "  # noqa: S608
            f"JOIN ({first}) ON epoch = e AND end_version = first"
        )
        found = pa.table(QueryBuilder().register("batches", table).execute(question).read_all()).to_pylist()
        return {one["epoch"]: EntryPosition(one["start_journal"], one["start_position"]).version() for one in found}

    def note(self, claim: Claim, results: Sequence[TableResult], run_id: str, now: float) -> bool:
        """Notes a batch whose tables are committed. False when its end was noted before."""
        noted, end = self.version(claim.epoch), claim.end.version()
        if noted is not None and noted >= end:
            return False
        row = pa.RecordBatch.from_pylist([_row(claim, results, run_id, now)], _SCHEMA)
        transaction = CommitProperties(app_transactions=[Transaction(self._app(claim.epoch), end)])
        options = self.lake.storage or None
        try:
            write_deltalake(self.path, row, mode="append", commit_properties=transaction, storage_options=options)
            table = DeltaTable(self.path, storage_options=options)
            if table.version() % _COMPACT_EVERY == _COMPACT_EVERY - 1:
                table.optimize.compact()
        except (DeltaError, OSError) as error:
            hint = "Make the lake writable and give it room; the batch stays claimable and is replayed as nothing."
            raise LakeError(f"the ledger cannot be written: {error}", place=self.path, hint=hint) from error
        return True

    def _open(self) -> DeltaTable | None:
        try:
            return DeltaTable(self.path, storage_options=self.lake.storage or None)
        except TableNotFoundError:
            return None
        except (DeltaError, OSError) as error:
            hint = "Restore the ledger's directory from a copy; without it the lake cannot be compared with the cursor."
            raise LakeError(f"the ledger cannot be read: {error}", place=self.path, hint=hint) from error

    def _app(self, epoch: int) -> str:
        return f"sluice:{self.destination}:{self.client_id}:ledger:{epoch}"


def check_cursor(acked: EntryPosition | None, epoch: int, ledger: Ledger) -> None:
    """Raises LakeError when the service acked a batch with rows that this lake does not have.

    `acked` is the service's note of the end of the last acked batch that had rows, in the present epoch; the cursor
    itself may be further on, over ranges without rows. None means that nothing was acked yet, whatever the lake has.
    """
    if acked is None:
        return
    last = ledger.last(epoch)
    if last is None or acked > last:
        stands = f"ends at {last}" if last else f"has no batch of epoch {epoch}"
        hint = (
            "Name the lake that the batches went to, or restore it; else rewind the destination to what the lake has."
        )
        raise LakeError(f"batches are acked to {acked}, but the lake's ledger {stands}", place=ledger.path, hint=hint)


def _row(claim: Claim, results: Sequence[TableResult], run_id: str, now: float) -> dict[str, Any]:
    return {
        "epoch": claim.epoch,
        "batch_id": claim.batch_id,
        "start_journal": claim.start.journal_name,
        "start_position": claim.start.position,
        "end_journal": claim.end.journal_name,
        "end_position": claim.end.position,
        "end_version": claim.end.version(),
        "gtid": claim.end.gtid,
        "run_id": run_id,
        "rows": claim.rows,
        "transactions": claim.transactions,
        "tables": json.dumps({result.table: _counts(result) for result in results}),
        "committed_at": datetime.fromtimestamp(now, UTC),
    }


def _counts(result: TableResult) -> dict[str, Any]:
    counts = {name: getattr(result, name) for name in ("inserts", "updates", "deletes", "net_rows", "replayed")}
    return counts | {"delta_version": result.delta_version, "stopped": result.stop is not None}
