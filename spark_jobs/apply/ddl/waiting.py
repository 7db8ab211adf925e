"""The rows of a quarantine go with their table to its new name.

They are committed there before the table is, and belong to it from the statement on. The old name's quarantine is
emptied likewise: what it had before the statement is read again if the run dies in between.
"""

from __future__ import annotations

import pyarrow as pa

from spark_jobs.apply.ddl.standing import DdlTarget
from spark_jobs.apply.ddl.steps import Step
from spark_jobs.expectations.quarantine import EPOCH, SYSTEM, VERSION, BatchEnd
from spark_jobs.expectations.quarantine_table import AFTER_STATEMENT, OpenedQuarantine, QuarantineTable
from spark_jobs.lake.state import TableState


def waiting_rows(at: DdlTarget, state: TableState) -> pa.Table | None:
    """Returns the rows that wait of a table in this state, or None if it has no quarantine. Raises LakeError."""
    place = _quarantine(at)
    return place.read(state, at.batch.claim.epoch, at.app).rows if place.exists else None


def take_over(at: DdlTarget, step: Step, rows: pa.Table | None) -> None:
    """Commits the rows to the quarantine of the table's new name, in place of those that it had. Raises TableStopped,
    LakeError."""
    place, epoch = _quarantine(at), at.batch.claim.epoch
    if (rows is None or not rows.num_rows) and not place.exists:
        return
    if rows is None:
        rows = pa.schema(at.batch.lake.open(place.path).schema().to_arrow()).empty_table()
    end = BatchEnd(at.batch.claim.batch_id, epoch, step.version + AFTER_STATEMENT)
    for name, value in ((EPOCH, end.epoch), (VERSION, end.version)):
        values = pa.array([value] * rows.num_rows, SYSTEM.field(name).type)
        rows = rows.set_column(rows.schema.get_field_index(name), name, values)
    place.entered(at.batch.fence, pa.schema([field for field in rows.schema if field.name not in SYSTEM.names]))
    opened = OpenedQuarantine(at.batch.lake.open(place.path), rows)
    place.commit(opened, rows, at.batch.fence.token, end, at.app)


def _quarantine(at: DdlTarget) -> QuarantineTable:
    return QuarantineTable(at.batch.lake, at.batch.claim.destination, at.table)
