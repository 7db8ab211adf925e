"""The change log of one table: a Delta table next to it, which delta-rs writes.

Its commits carry a txnVersion for each epoch, the end of the claim. `append` writes it; this module reads.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from cdc_core.errors import LakeError, TableStopped
from cdc_core.schema.names import split_name
from spark_jobs.changes.columns import NAMES
from spark_jobs.lake.failures import first_line
from spark_jobs.lake.remedy import copy_hint
from spark_jobs.lake.state import DESTINATION, FENCE, LOG, PRIMARY_KEY, TABLE, log_app_id
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.types import LakeColumn, delta_type


@dataclass(frozen=True, slots=True)
class OpenedLog:
    """The log at one Delta version, which `table` keeps: later commits are not seen."""

    log: TableLog
    table: DeltaTable

    @property
    def version(self) -> int:
        """Of Delta."""
        return int(self.table.version())

    def end(self, epoch: int) -> int | None:
        """Returns the version (`EntryPosition.version()`) up to which it has the table's changes of an epoch, or
        None."""
        return self.table.transaction_version(self.log.app(epoch))

    def ends(self, upto: int) -> dict[int, int]:
        """Returns that version for each epoch up to `upto` of which it has changes, in order."""
        found = {epoch: self.end(epoch) for epoch in range(upto + 1)}
        return {epoch: end for epoch, end in found.items() if end is not None}

    @property
    def columns(self) -> tuple[LakeColumn, ...]:
        """Returns the table's own columns, also those that the source has dropped."""
        return own_columns(self.table)

    @property
    def primary_key(self) -> tuple[str, ...]:
        """As of the last append."""
        return tuple(json.loads(self.properties.get(PRIMARY_KEY, "[]")))

    @property
    def fence(self) -> str:
        """The token of the run that fenced it last."""
        return self.properties.get(FENCE, "")

    @property
    def properties(self) -> dict[str, str]:
        return dict(self.table.metadata().configuration)

    @property
    def is_owned(self) -> bool:
        """Whether the Delta table there is this log."""
        found = tuple(self.properties.get(name) for name in (DESTINATION, TABLE, LOG))
        return found == (self.log.destination, self.log.name, "true")

    def check_owner(self) -> None:
        """Raises TableStopped when the Delta table there is not this log."""
        found, log = self.properties, self.log
        if self.is_owned:
            return
        owner = f"table {found.get(TABLE)!r} of destination {found.get(DESTINATION)!r}"
        whose = owner if TABLE in found else "one that Sluice did not make"
        hint = f"Set `apply: merge` for {log.name} in defs.yaml, name another lake, or rename the table at the source."
        raise TableStopped(f"its change log's path holds another Delta table: {whose}", place=log.path, hint=hint)


@dataclass(frozen=True, slots=True)
class TableLog:
    """The log of `name` (`database.table`)."""

    lake: Lake
    destination: str
    client_id: int
    name: str

    @property
    def path(self) -> str:
        return self.lake.log_path(*split_name(self.name))

    def app(self, epoch: int) -> str:
        return log_app_id(self.destination, self.client_id, self.name, epoch)

    def open(self) -> OpenedLog | None:
        """Returns the opened log, or None. Raises TableStopped for a damaged log, LakeError if it cannot be read."""
        try:
            return OpenedLog(self, self.lake.open(self.path))
        except TableNotFoundError:
            return None
        except DeltaError as error:
            hint = f"Restore its _delta_log, or move the folder away. {copy_hint(self.destination, self.name)}"
            raise TableStopped(f"the change log is damaged: {first_line(error)}", place=self.path, hint=hint) from error
        except OSError as error:
            hint, words = "Make the lake readable; the batch stays claimable.", first_line(error)
            raise LakeError(f"the change log cannot be read: {words}", place=self.path, hint=hint) from error


def own_columns(log: DeltaTable) -> tuple[LakeColumn, ...]:
    """Returns the columns of a log that are the table's own, also those that the source has dropped."""
    fields = [field for field in log.schema().fields if field.name not in NAMES]
    return tuple(LakeColumn(field.name, delta_type(field.type)) for field in fields)
