"""The change log of a snapshot: the table's changes since its registration, a Delta table in the lake's staging.

A run appends the changes of its claim before it acks, each once: the commit carries the claim's end, what is up to the
last one is left out, and delta-rs refuses a commit when another one came in between. So that this holds for the first
changes too, the log is made empty. The switch folds the log over the rows that were read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError

from cdc_core.client.changes import FlightRows, RowsDoor, TableRead
from cdc_core.contract.claim import Claim
from cdc_core.errors import LakeError, SluiceError, TableStopped
from cdc_core.rows.system_columns import CHANGES, is_before, versions
from spark_jobs.copy.files import numbered
from spark_jobs.lake.failures import first_line
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.types import RESERVED, delta_type, spark_type

VERSION, NTH, GONE = "_sluice_version", "_sluice_nth", "_sluice_gone"
_LAST = 1 << 62  # an `NTH` behind those of all changes
_SYSTEM = (pa.field(VERSION, pa.int64()), pa.field(NTH, pa.int64()), pa.field(GONE, pa.bool_()))


@dataclass(frozen=True, slots=True)
class ChangeLog:
    """The log of one snapshot. Its columns are the table's under numbers; `VERSION` and `NTH` order the changes, and
    `GONE` marks a row as it was before the change."""

    lake: Lake
    destination: str
    snapshot_id: str

    @property
    def path(self) -> str:
        return f"{self.lake.staging_path(self.destination, self.snapshot_id)}/changes"

    @property
    def app(self) -> str:
        return f"sluice:{self.destination}:{self.snapshot_id}:changes"

    def end(self) -> int | None:
        """The version up to which it has the table's changes, None for a log that has none."""
        return self._opened()[1]

    def types(self) -> list[str] | None:
        """The SQL types of the table's columns as the log has them, None for a log that has none."""
        table, _ = self._opened()
        return None if table is None else _types(table)

    def append(self, claim: Claim, table: str, door: RowsDoor) -> None:
        """The claim's changes of the table that the log does not have.

        Raises DecodeError for images that leave columns out, and what Flight raises; LakeError when the log cannot be
        written; TableStopped for one that is damaged, that has other columns, or that the end of its snapshot removed
        meanwhile.
        """
        (there, after), end = self._opened(), claim.end.version()
        if after is not None and after >= end:
            return
        with door.connect() as rows:
            read = rows.info(claim, table, mode=CHANGES, after=after)
            batches = _Numbered(rows, read)
            if there is not None and _types(there) != batches.types:
                hint = "Begin the snapshot anew."
                raise TableStopped("the table has other columns than before", place=self.path, hint=hint)
            stream = pa.RecordBatchReader.from_batches(batches.schema, iter(batches))
            noted = CommitProperties(app_transactions=[Transaction(self.app, end)])
            storage = self.lake.storage or None
            try:
                log = there or DeltaTable.create(self.path, batches.schema, storage_options=storage)
                write_deltalake(log, stream, mode="append", storage_options=storage, commit_properties=noted)
            except Exception as error:
                if batches.error is not None:
                    raise batches.error from None
                if self._opened()[0] is None and there is not None:
                    hint = "Begin the snapshot anew."
                    raise TableStopped("the log was removed", place=self.path, hint=hint) from error
                hint = "Make the lake writable and give it room; the batch stays claimable."
                raise LakeError(f"changes cannot be kept: {first_line(error)}", place=self.path, hint=hint) from error

    def correct(self, rows: pa.Table, version: int) -> None:
        """Adds rows as they are at the source, behind every change up to `version`: the table's columns under numbers,
        and `GONE`. Raises LakeError."""
        fields = [field for field in rows.schema if field.name != GONE]
        schema, storage = numbered(fields, *_SYSTEM), self.lake.storage or None
        try:
            log = DeltaTable.create(self.path, schema, mode="ignore", storage_options=storage)
            nth = pa.array([_LAST + log.version()] * rows.num_rows, pa.int64())
            versions = pa.array([version] * rows.num_rows, pa.int64())
            columns = [*(rows[field.name] for field in fields), versions, nth, rows[GONE]]
            write_deltalake(log, pa.Table.from_arrays(columns, schema=schema), mode="append", storage_options=storage)
        except (DeltaError, OSError) as error:
            hint = "Make the lake writable and give it room; then start the snapshot again."
            raise LakeError(f"changes cannot be kept: {first_line(error)}", place=self.path, hint=hint) from error

    def _opened(self) -> tuple[DeltaTable | None, int | None]:
        """The log and its end, None for none. delta-rs may read files of the log for each of the two."""
        try:
            table = self.lake.open(self.path)
            return table, table.transaction_version(self.app)
        except TableNotFoundError:
            return None, None
        except DeltaError as error:
            hint = "Begin the snapshot anew."
            raise TableStopped(f"the log is damaged: {first_line(error)}", place=self.path, hint=hint) from error
        except OSError as error:
            hint = "See that the lake can be read; the batch stays claimable."
            raise LakeError(f"the log cannot be read: {first_line(error)}", place=self.path, hint=hint) from error


class _Numbered:
    """The images of a read as the log has them. `error` is the service's, which delta-rs would make a text of."""

    def __init__(self, rows: FlightRows, read: TableRead) -> None:
        shown = [field for field in read.schema if field.name not in RESERVED]
        self.schema = numbered(shown, *_SYSTEM)
        self.error: SluiceError | None = None
        self.types = [spark_type(field.type) for field in shown]
        self._rows, self._tickets, self._width = rows, read.tickets, len(shown)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        nth = 0
        try:
            for ticket in self._tickets:
                for batch in self._rows.split(ticket):
                    yield self._numbered(batch, nth)
                    nth += batch.num_rows
        except SluiceError as error:
            self.error = error
            raise

    def _numbered(self, batch: pa.RecordBatch, nth: int) -> pa.RecordBatch:
        order = pa.array(np.arange(nth, nth + batch.num_rows, dtype=np.int64))
        system = [pa.array(versions(batch)), order, is_before(batch)]
        return pa.RecordBatch.from_arrays([*batch.columns[: self._width], *system], schema=self.schema)


def _types(log: DeltaTable) -> list[str]:
    """The SQL types of the table's columns in a log."""
    return [delta_type(field.type) for field in log.schema().fields if field.name.isdigit()]
