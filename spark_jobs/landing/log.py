"""The change log of one table: a Delta table next to it, which delta-rs writes.

Its commits carry a txnVersion for each epoch, the end of the claim. `append` writes it; this module reads.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from cdc_core.client.changes import PlanCounts
from cdc_core.errors import LakeError, TableStopped
from cdc_core.rows.columns.batch import arrow_fields
from cdc_core.schema.names import split_name
from cdc_core.schema.table import TableSchema
from spark_jobs.changes.columns import NAMES
from spark_jobs.changes.table_changes import Changes, OfLog
from spark_jobs.changes.version_range import VersionRange
from spark_jobs.lake.failures import first_line
from spark_jobs.lake.progress import Epoch
from spark_jobs.lake.record import Began, epoch_said, epochs_said
from spark_jobs.lake.remedy import copy_hint
from spark_jobs.lake.state import DESTINATION, FENCE, LOG, PRIMARY_KEY, TABLE, log_app_id, whole_app_id
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.types import LakeColumn, delta_type
from spark_jobs.landing.definition import definition_of, has_key
from spark_jobs.landing.files import key_bounds, only_inserted


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

    def lacks_to(self, epoch: int) -> int | None:
        """The version up to which the epoch's changes are not all in it; None where all are, as far as it says."""
        began = Began.of(self.properties)
        first = began.at.get(epoch) if began and not began.empty else None
        noted = self.table.transaction_version(self.log.whole_app(epoch))
        return max((one for one in (first, noted) if one is not None), default=None)

    @property
    def epochs(self) -> list[int]:
        """Those of which it ever had rows, in order."""
        return epochs_said(self.properties)

    def epoch(self, number: int) -> Epoch:
        """How the epoch began. Raises TableStopped where it does not say so."""
        said = epoch_said(self.properties, number)
        if said is None:
            hint = "Reload the table (sluice copy): rows of this epoch may be another server's."
            raise TableStopped(f"the change log does not say where epoch {number} began", place=self.path, hint=hint)
        return Epoch(number, *said)

    def left(self, epoch: int) -> int | None:
        """Returns the version at which reading left the epoch for another server, which repeats what comes after it,
        such as a batch that was landed and not acked; None if it did not, or if that is unknown."""
        for one in (one for one in self.epochs if one > epoch):
            if (left := dict(self.epoch(one).seamless).get(epoch + 1)) is not None:
                return left
        return None

    @property
    def path(self) -> str:
        return self.log.path

    @property
    def definition(self) -> TableSchema:
        """Of its rows. Raises TableStopped where it does not have it."""
        return definition_of(self.properties, self.path)

    @property
    def has_key(self) -> bool:
        """Whether its rows have a primary key, as of the last append."""
        return has_key(self.properties)

    @property
    def columns(self) -> tuple[LakeColumn, ...]:
        """The table's own, those that the source has no more too."""
        fields = [field for field in self.table.schema().fields if field.name not in NAMES]
        return tuple(LakeColumn(field.name, delta_type(field.type)) for field in fields)

    def dropped(self, columns: Sequence[LakeColumn]) -> list[str]:
        """Returns those of a table's columns that the source has dropped, and the table keeps: images have no values of
        them since. Raises TableStopped if the log does not have its definition."""
        known = {column.name for column in self.definition.columns}
        return [column.name for column in columns if column.name not in known]

    def lacks_values(self, columns: Sequence[LakeColumn]) -> str:
        """Returns why the log cannot say what rows have in these columns of a table, or ""."""
        kept = self.dropped(columns)
        return f"rows keep their values of column {kept[0]}, which the source has dropped" if kept else ""

    def having(self, columns: Sequence[LakeColumn]) -> tuple[LakeColumn, ...]:
        """Returns those of a table's columns that it has."""
        there = {field.name for field in self.table.schema().fields}
        return tuple(column for column in columns if column.name in there)

    def changes(self, asked: VersionRange, rows: int) -> Changes:
        """Returns its changes of a range, of which there are at most so many `rows`. Raises TableStopped if it does not
        have the table's definition."""
        definition, path = self.definition, self.path
        key = definition.primary_key
        bounds = key_bounds(self.table, asked, key[0]) if len(key) == 1 else None
        low, high = bounds or (None, None)
        only = not key and only_inserted(self.table, asked)
        counts = PlanCounts(rows=rows, deletes=rows, raw_updates=rows, min_key=low, max_key=high, insert_only=only)
        schema = pa.schema(arrow_fields(definition))
        plain = VersionRange(asked.epoch, asked.after, asked.upto)  # which tasks of Spark unpickle
        return Changes(definition, schema, plain, rows, counts, OfLog(path, self.table))

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

    def whole_app(self, epoch: int) -> str:
        return whole_app_id(self.destination, self.client_id, self.name, epoch)

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
