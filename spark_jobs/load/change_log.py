"""The change log of a snapshot: the table's changes since its registration, a Delta table in the lake's staging.

A run appends the changes of its claim before it acks, each once: the commit carries the claim's end, changes up to the
last end are left out, and delta-rs refuses a commit when another one came in between. The log is created empty, so that
this holds for the first changes too. The switch folds the log over the rows that were read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyspark.sql import DataFrame
from pyspark.sql.connect.session import SparkSession

from cdc_core.client.changes import RowsDoor
from cdc_core.contract.claim import Claim
from cdc_core.errors import LakeError, SluiceError, TableStopped
from cdc_core.rows.system_columns import CHANGES
from spark_jobs.changes.columns import EPOCH, NAMES, NTH, OP, SYSTEM, VERSION
from spark_jobs.changes.log_images import LogImages, own_fields
from spark_jobs.changes.net import ImageQuery
from spark_jobs.lake.failures import first_line
from spark_jobs.lake.record import app_versions
from spark_jobs.lake.spool import spooled
from spark_jobs.lake.sql import quote
from spark_jobs.lake.statistics import exact_statistics
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.types import LakeColumn, delta_type, spark_type
from spark_jobs.load.files import numbered

_LAST = 1 << 62  # an `NTH` after those of all changes
_RESTART = "Start the snapshot again."


@dataclass(frozen=True, slots=True)
class ChangeLog:
    """The log of one snapshot: it has the columns of any change log, but numbers for the names of the table's."""

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
        """Returns the version up to which it has the table's changes, None if it has none."""
        return self._opened()[1]

    def types(self) -> list[str] | None:
        """Returns the SQL types of the table's columns in the log, None if it has none."""
        table, _ = self._opened()
        return None if table is None else _types(table)

    def append(self, claim: Claim, table: str, door: RowsDoor) -> None:
        """Appends the claim's changes of the table that the log does not have.

        Raises DecodeError for images that leave columns out, and what Flight raises; LakeError when the log cannot be
        written; TableStopped for a log that is damaged, has other columns, or was removed meanwhile with its snapshot.
        """
        (there, after), end = self._opened(), claim.end.version()
        if after is not None and after >= end:
            return
        with door.connect() as service:
            read = service.info(claim, table, mode=CHANGES, after=after)
            own = own_fields(read.schema)
            if there is not None and _types(there) != [spark_type(field.type) for field in own]:
                raise TableStopped("the table has other columns than before", place=self.path, hint=_RESTART)
            images = LogImages(claim, numbered(own, *SYSTEM), read, service, numbered=True)
            noted = CommitProperties(app_transactions=app_versions({self.app: end}))
            storage = self.lake.storage or None
            try:
                log = there or DeltaTable.create(self.path, numbered(own, *SYSTEM), storage_options=storage)
                how = exact_statistics(images.schema)
                with spooled(images.schema, images) as rows:
                    write_deltalake(
                        log, rows, mode="append", storage_options=storage, writer_properties=how,
                        commit_properties=noted,
                    )  # fmt: skip
            except SluiceError:
                raise
            except Exception as error:
                if self._opened()[0] is None and there is not None:
                    raise TableStopped("the log was removed", place=self.path, hint=_RESTART) from error
                hint = "Make the lake writable and give it room; the batch stays claimable."
                raise LakeError(f"changes cannot be kept: {first_line(error)}", place=self.path, hint=hint) from error

    def correct(self, rows: pa.Table, epoch: int, version: int) -> None:
        """Adds rows as they are at the source, after every change up to `version` of `epoch`: the table's columns under
        numbers, and `OP`. Raises LakeError."""
        own, storage = [field for field in rows.schema if field.name != OP], self.lake.storage or None
        schema = numbered(own, *SYSTEM)
        try:
            log = DeltaTable.create(self.path, schema, mode="ignore", storage_options=storage)
            same = {EPOCH: epoch, VERSION: version, NTH: _LAST + log.version()}
            made = {name: pa.array([value] * rows.num_rows, SYSTEM.field(name).type) for name, value in same.items()}
            made |= {OP: rows[OP]} | {field.name: rows[field.name] for field in own}
            arrays = [made.get(field.name, pa.nulls(rows.num_rows, field.type)) for field in schema]
            found, how = pa.Table.from_arrays(arrays, schema=schema), exact_statistics(schema)
            write_deltalake(log, found, mode="append", storage_options=storage, writer_properties=how)
        except (DeltaError, OSError) as error:
            hint = "Make the lake writable and give it room; then read the table again."
            raise LakeError(f"changes cannot be kept: {first_line(error)}", place=self.path, hint=hint) from error

    def _opened(self) -> tuple[DeltaTable | None, int | None]:
        """Returns the log and its end, or None. delta-rs may read files of the log for each of the two."""
        try:
            table = self.lake.open(self.path)
            return table, table.transaction_version(self.app)
        except TableNotFoundError:
            return None, None
        except DeltaError as error:
            raise TableStopped(f"the log is damaged: {first_line(error)}", place=self.path, hint=_RESTART) from error
        except OSError as error:
            hint = "Make the lake readable; the batch stays claimable."
            raise LakeError(f"the log cannot be read: {first_line(error)}", place=self.path, hint=hint) from error


def folded(
    spark: SparkSession, staged: str, log: str, types: Sequence[str], key: Sequence[int], low: int, upto: int
) -> DataFrame:
    """Returns the staged rows with the changes of a log after version `low` up to `upto` applied. `staged` and `log`
    are paths; `types` are the columns' in SQL, `key` the key's numbers. Columns have numbers for names.

    With a key, rows that were read later than a change are correct again after the changes that follow. Without one,
    all were read exactly at `low`.
    """
    columns = tuple(LakeColumn(str(number), kind) for number, kind in enumerate(types))
    names = ", ".join(quote(column.name) for column in columns)
    where = f"{VERSION} > {low:d} AND {VERSION} <= {upto:d}"
    changes = ImageQuery(f"delta.{quote(log)}", columns, tuple(columns[at].name for at in key), where)
    rows = f"(SELECT * FROM delta.{quote(staged)} AS r({names}))"  # noqa: S608
    return spark.sql(changes.over(rows, columns))


def _types(log: DeltaTable) -> list[str]:
    """Returns the SQL types of the table's columns in a log; empty for a log of an earlier release."""
    fields = log.schema().fields
    if not {field.name for field in fields} >= NAMES:
        return []
    return [delta_type(field.type) for field in fields if field.name.isdigit()]
