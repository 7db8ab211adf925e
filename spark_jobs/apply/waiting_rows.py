"""`WaitingRows`: counts the rows that wait in quarantines, as they belong to their tables now.

A quarantine's newest version may have more: rows of a batch that died, or from before a copy. They do not count.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from cdc_core.errors import LakeError
from cdc_core.schema.names import split_name
from spark_jobs.expectations.quarantine import by_check
from spark_jobs.expectations.quarantine_table import QuarantineTable
from spark_jobs.expectations.row_judge import CHECK
from spark_jobs.lake.failures import first_line
from spark_jobs.lake.state import app_id
from spark_jobs.lake.tables import Lake


@dataclass(frozen=True, slots=True)
class WaitingTable:
    """How many rows of a table wait. `checks`: these by the checks that they failed, also of checks that only rows
    failed which no longer count."""

    rows: int = 0
    checks: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WaitingRows:
    """The quarantines of a destination's tables, as one client writes these in `epoch`."""

    lake: Lake
    destination: str
    client_id: int
    epoch: int

    def counts(self, tables: Collection[str] | None = None) -> dict[str, int]:
        """Returns how many rows wait, by table; without `tables` of all that have a quarantine. Raises LakeError."""
        names = self.lake.quarantines(self.destination) if tables is None else tables
        return {name: self.of(name).rows for name in names}

    def of(self, name: str) -> WaitingTable:
        """Returns those of a table, none for a table without a quarantine. Raises LakeError."""
        place = QuarantineTable(self.lake, self.destination, name)
        if not place.exists or not place.count():
            return WaitingTable()
        app = app_id(self.destination, self.client_id, name, self.epoch)
        state = self.lake.state(self.lake.path(*split_name(name)), app)
        if state is None or state.dropped:
            return WaitingTable(0, dict.fromkeys(_checks(self.lake.open(place.path)), 0))
        opened = place.read(state, self.epoch, app)
        checks = by_check(opened.rows)
        names = {*checks, *_checks(opened.table)} if opened.is_stale else {*checks}
        return WaitingTable(opened.rows.num_rows, {name: checks[name] for name in sorted(names)})


def _checks(table: DeltaTable) -> set[str]:
    try:
        return {*by_check(table.to_pyarrow_table(columns=[CHECK]))}
    except (DeltaError, OSError) as error:
        message = f"the quarantine cannot be read: {first_line(error)}"
        raise LakeError(message, place=table.table_uri, hint="Make it readable.") from error
