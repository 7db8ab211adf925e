"""Converts the images of one read to the form of a change log: record batches in the order of the log's columns.

Each batch is made when it is asked for. If the number of images differs from the service's count, an error is raised
before the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cdc_core.client.changes import FlightRows, TableRead
from cdc_core.contract.claim import Claim
from cdc_core.errors import LakeError
from cdc_core.position import EntryPosition, split_version
from cdc_core.rows.system_columns import versions
from spark_jobs.changes import columns
from spark_jobs.lake.types import RESERVED

_SOURCE_TIME = "_sluice_timestamp"  # of mode `changes`
_SAME = (columns.OP, columns.ROW, columns.JOURNAL, columns.POSITION)  # named as in mode `changes`


def own_fields(schema: pa.Schema) -> list[pa.Field]:
    """The table's own columns in a read's schema."""
    return [field for field in schema if field.name not in RESERVED]


def log_schema(schema: pa.Schema) -> pa.Schema:
    """A new log's columns: the table's own, then Sluice's."""
    own = own_fields(schema)
    types = [one.type.value_type if pa.types.is_dictionary(one.type) else one.type for one in own]
    return pa.schema([*(pa.field(one.name, kind) for one, kind in zip(own, types, strict=True)), *columns.SYSTEM])


@dataclass(frozen=True, slots=True)
class Emptied:
    """A statement that deleted all rows: the end of its event, and when the source executed it."""

    position: EntryPosition


class LogImages:
    """The images that one claim adds to a log with these `fields`. `count` is the number of rows so far. `numbered`:
    the log has numbers for the table's column names."""

    def __init__(
        self, claim: Claim, fields: Sequence[pa.Field], read: TableRead | None, rows: FlightRows | None,
        emptied: Sequence[Emptied] = (), *, numbered: bool = False,
    ) -> None:  # fmt: skip
        shown = own_fields(read.schema) if read else []
        own = {str(at) if numbered else field.name: field for at, field in enumerate(shown)}
        self._own = {name: field.name for name, field in own.items()}
        self._fields = [pa.field(one.name, _sent(one, own)) for one in fields]
        self._claim, self._read, self._rows, self._emptied = claim, read, rows, emptied
        self._gtid = str(claim.end.gtid or "")
        self.schema = pa.schema(self._fields)
        self.count = 0

    def __repr__(self) -> str:
        return f"<LogImages count={self.count}>"

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        if self._emptied:
            yield self._truncated()
        if self._read and self._rows:
            for ticket in self._read.tickets:
                for batch in self._rows.split(ticket):
                    yield self._imaged(batch)
            self._check(self._read)

    def _check(self, read: TableRead) -> None:
        came = self.count - len(self._emptied)
        if came != read.rows:
            hint = "Nothing was written and the batch was given back: restart the service, and report this."
            place = f"{read.table.name}, batch {self._claim.batch_id}"
            raise LakeError(f"{came} images came, but the service counted {read.rows}", place=place, hint=hint)

    def _imaged(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        size, low = batch.num_rows, self.count
        self.count += size
        made: dict[str, Callable[[], pa.Array]] = {
            columns.VERSION: lambda: pa.array(versions(batch)),
            columns.NTH: lambda: pa.array(np.arange(low, low + size, dtype=np.int64)),
            columns.TIME: lambda: batch.column(_SOURCE_TIME),
        }
        made |= {name: lambda name=name: batch.column(name) for name in _SAME}  # type: ignore[misc]
        made |= self._of_claim(size)
        arrays = [
            made[one.name]() if one.name in made
            else batch.column(self._own[one.name]) if one.name in self._own
            else pa.nulls(size, one.type)
            for one in self._fields
        ]  # fmt: skip
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _truncated(self) -> pa.RecordBatch:
        """A row for each statement that deleted all rows."""
        size = len(self._emptied)
        self.count += size
        places = [one.position.version() for one in self._emptied]
        made: dict[str, Callable[[], pa.Array]] = {
            columns.OP: lambda: pa.array([columns.TRUNCATE] * size, pa.string()),
            columns.VERSION: lambda: pa.array(places, pa.int64()),
            columns.ROW: lambda: pa.array([0] * size, pa.int32()),
            columns.NTH: lambda: pa.array(range(size), pa.int64()),
            columns.JOURNAL: lambda: pa.array([split_version(one)[0] for one in places], pa.int32()),
            columns.POSITION: lambda: pa.array([split_version(one)[1] for one in places], pa.int64()),
            columns.TIME: lambda: pa.array([_time(one.position) for one in self._emptied], pa.timestamp("us", "UTC")),
        }
        made |= self._of_claim(size)
        arrays = [made[one.name]() if one.name in made else pa.nulls(size, one.type) for one in self._fields]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _of_claim(self, size: int) -> dict[str, Callable[[], pa.Array]]:
        """Returns the columns whose value all rows of the claim share."""
        zeros = pa.array(np.zeros(size, np.int32))
        return {
            columns.EPOCH: lambda: pa.array(np.full(size, self._claim.epoch, np.int32)),
            columns.BATCH: lambda: pa.array(np.full(size, self._claim.batch_id, np.int64)),
            columns.GTID: lambda: pa.DictionaryArray.from_arrays(zeros, pa.array([self._gtid])),
        }


def _sent(field: pa.Field, own: Mapping[str, pa.Field]) -> pa.DataType:
    """Returns the type in which a column is sent; delta-rs converts it to the log's. Long GTIDs are not repeated in
    memory."""
    if field.name == columns.GTID:
        return pa.dictionary(pa.int32(), pa.string())
    if field.name in columns.NAMES:
        return columns.SYSTEM.field(field.name).type
    return own.get(field.name, field).type


def _time(position: EntryPosition) -> int | None:
    """Returns the position's time in microseconds; a position has milliseconds."""
    return None if position.timestamp is None else position.timestamp * 1000
