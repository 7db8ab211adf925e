"""A Delta table as its log describes it: plain values."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cdc_core.errors import TableStopped
from spark_jobs.lake.copying import CopyNeeded
from spark_jobs.lake.own_columns import NO_OWN, Own
from spark_jobs.lake.record import BEGUN, DROPPED, FOLLOWED, FORM, PROGRESS, CopyNote, place_from
from spark_jobs.lake.types import LakeColumn

DESTINATION, TABLE, COMPLETE = "sluice.destination", "sluice.table", "sluice.complete"
PRIMARY_KEY, SCHEMA_VERSION, FENCE = "sluice.primary_key", "sluice.schema_version", "sluice.fence"
RULES = "sluice.rules"  # what rules made of its columns: `lake.seen_columns`
LOG = "sluice.log"  # of a table's change log: `landing.log`
HISTORY = "sluice.history"  # of a table's history: the versions that it began with and was compared with
QUARANTINE = "sluice.quarantine"  # of the rows of a table that failed an expectation
UNFILLED, UNFILLED_NUMBER = "sluice.unfilled", "sluice.unfilled_number"
EMPTY_COLUMNS = "sluice.empty_columns"
UPKEEP = "upkeep"  # the prefix of the user metadata of a commit that only moves rows to other files
WROTE = "wrote"  # in the user metadata of a commit without metrics: the rows inserted, updated and deleted
KEPT_LOG = "interval 10 days"  # commits of a table of ours: a little longer than VACUUM keeps files


def app_id(destination: str, client_id: int, table: str, epoch: int) -> str:
    """Returns Delta's txnAppId of one table's batches. Spark would replace a `${...}` in it, as in every setting."""
    return f"sluice:{destination}:{client_id}:{table.replace('${', '$ {')}:{epoch}"


def log_app_id(destination: str, client_id: int, table: str, epoch: int) -> str:
    """Returns Delta's txnAppId of the appends to the change log of `database.table` in one epoch."""
    return f"sluice:{destination}:{client_id}:{table}:log:{epoch}"


def fill_id(app: str) -> str:
    """Returns Delta's txnAppId of the statements that give old rows their values, in all epochs of the table of
    `app`."""
    return f"{app.rpartition(':')[0]}:fill"


def whole_app_id(destination: str, client_id: int, table: str, epoch: int) -> str:
    """The app id whose version in a change log says up to where the log lacks changes of the epoch."""
    return f"sluice:{destination}:{client_id}:{table}:whole:{epoch}"


def cascade_id(app: str) -> str:
    """Returns Delta's txnAppId of the rows that foreign keys changed, in the epoch of `app`: they are in no binlog, so
    they have no place."""
    return f"{app}:cascade"


@dataclass(frozen=True, slots=True)
class TableState:
    """A table's newest `version`, and `applied`: the txnVersion of the last batch of one app id, None before it.
    `columns` are the source's; `own` are the columns that Sluice added. `fresh`: the log has one commit, which brought
    no row. The first commit of a table that was renamed or copied brings rows. `features` are the features of Delta
    that a writer must support."""

    version: int
    applied: int | None
    columns: tuple[LakeColumn, ...]
    properties: Mapping[str, str]
    comment: str = ""
    own: Own = NO_OWN
    fresh: bool = False
    features: frozenset[str] = frozenset()

    @property
    def primary_key(self) -> tuple[str, ...]:
        return tuple(json.loads(self.properties.get(PRIMARY_KEY, "[]")))

    @property
    def unfilled(self) -> dict[str, str]:
        """Returns the added columns in which old rows have no values yet, each with the SQL of these values."""
        return dict(json.loads(self.properties.get(UNFILLED, "{}")))

    @property
    def unfilled_number(self) -> int:
        """Returns the number of that note: it rises with each note of a table."""
        return int(self.properties.get(UNFILLED_NUMBER, 0))

    @property
    def empty_columns(self) -> frozenset[str]:
        """Returns the source's names, in lower case, of columns that statements added as NULL. Rows bring them."""
        return frozenset(json.loads(self.properties.get(EMPTY_COLUMNS, "[]")))

    @property
    def own_properties(self) -> dict[str, str]:
        """Returns the properties that a reloaded table takes over. Delta numbers the columns of each table itself."""
        return {key: value for key, value in self.properties.items() if not key.startswith("delta.columnMapping.")}

    @property
    def copied(self) -> CopyNote | None:
        """Returns the copy that the table was made from, or None."""
        return CopyNote.of(self.properties)

    @property
    def complete(self) -> bool:
        """Whether the table began with the source's first row."""
        return self.properties.get(COMPLETE) == "true"

    @property
    def dropped(self) -> bool:
        """Whether the source no longer has the table, or has a table of that name whose columns are not known yet."""
        return DROPPED in self.properties

    @property
    def followed(self) -> tuple[int, int] | None:
        """Returns epoch and version of the last DDL statement that the table followed, if it is noted."""
        return place_from(self.properties.get(FOLLOWED, ""))

    @property
    def base(self) -> CopyNote | None:
        """Returns the beginning of the table's rows: the later of its copy and the last statement after which no
        earlier row counts, as a copy at its place. None if there is neither."""
        begun = place_from(self.properties.get(BEGUN, ""))
        found = [one for one in (self.copied, CopyNote(*begun, begun[1]) if begun else None) if one]
        return max(found, key=lambda one: (one.epoch, one.low), default=None)

    @property
    def statement_properties(self) -> dict[str, str]:
        """Returns the properties that record statements, for the table that replaces this one: the statements come
        again after a rewind."""
        return {name: text for name in (FOLLOWED, BEGUN) if (text := self.properties.get(name))}

    @property
    def property_versions(self) -> set[int]:
        """Returns the versions that the table has by a statement or a copy, as its properties record."""
        places = [self.followed[1] if self.followed else None, self.copied.low if self.copied else None]
        return {one for one in places if one is not None}

    def check_form(self, table: str) -> None:
        """Raises CopyNeeded for a table that records its progress in another form."""
        found = self.properties.get(PROGRESS)
        if found != FORM:
            said = f"in form {found}" if found else "as an older version of Sluice did"
            raise CopyNeeded(f"it notes its progress {said}, and this version reads form {FORM}", table)

    def check_owner(self, destination: str, table: str, path: str) -> None:
        """Raises TableStopped when the table at `path` was not made for this destination and source table."""
        owner, made_for = self.properties.get(DESTINATION), self.properties.get(TABLE)
        if owner != destination or made_for != table:
            whose = f"belongs to destination {owner!r}, table {made_for!r}" if owner else "was not made by Sluice"
            hint = "Name another lake for this destination, or move that table away. Nothing was written to it."
            raise TableStopped(f"the Delta table {whose}", place=path, hint=hint)


@dataclass(frozen=True, slots=True)
class Origin:
    """When a table was made, and the copy that it was made from, if any."""

    made: datetime
    copied: CopyNote | None

    def is_after(self, noted: datetime, place: tuple[int, int]) -> bool:
        """Whether the table began after a batch that was noted then and ended at `place`: epoch and version."""
        return noted < self.made or (self.copied is not None and self.copied.has(place))


@dataclass(frozen=True, slots=True)
class DeltaCommit:
    """One commit in a table's log: the version that it made, its user metadata or "", Delta's counts, Delta's name for
    the operation, and the version to which a RESTORE went, if that is known."""

    version: int
    user_metadata: str
    metrics: Mapping[str, str | int]
    operation: str = ""
    restored: int | None = None

    @property
    def note(self) -> dict[str, Any]:
        """Returns its user metadata if that is a JSON object, otherwise an empty one."""
        try:
            fields = json.loads(self.user_metadata or "{}")
        except ValueError:
            return {}
        return fields if isinstance(fields, dict) else {}

    @property
    def inserted(self) -> int:
        """Returns the number of rows that it added, as a MERGE, an INSERT of Spark's or an append of delta-rs
        counts."""
        return self._wrote(0, "numTargetRowsInserted", "numOutputRows", "num_added_rows")

    @property
    def updated(self) -> int:
        """Returns the number of rows that it changed in place."""
        return self._wrote(1, "numTargetRowsUpdated")

    @property
    def deleted(self) -> int:
        """Returns the number of rows that it deleted."""
        return self._wrote(2, "numTargetRowsDeleted")

    def _wrote(self, place: int, *names: str) -> int:
        noted = self.note.get(WROTE)
        return int(noted[place]) if noted else self.count(*names)

    def count(self, *names: str) -> int:
        """Returns the first of the metrics that the commit has, by Spark's name or delta-rs', or 0."""
        spelled = [one for name in names for one in (name, re.sub("[A-Z]", lambda big: f"_{big[0].lower()}", name))]
        return next((int(self.metrics[name]) for name in spelled if name in self.metrics), 0)
