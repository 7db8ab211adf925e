"""The images of a part of a table's change log, in order, a slice of versions at a time.

One pass over the column of versions says how many rows each slice has. So memory is bounded, whatever the part has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from deltalake.exceptions import DeltaError

from cdc_core.errors import LakeError
from spark_jobs.changes.columns import EPOCH, GTID, NAMES, NTH, OP, ROW, TIME, VERSION
from spark_jobs.changes.version_range import VersionRange
from spark_jobs.lake.failures import first_line
from spark_jobs.landing.log import OpenedLog

_ROWS = 1 << 16  # of a slice; one event may have more
_SHOWN = (OP, VERSION, TIME, GTID)


@dataclass(frozen=True, slots=True)
class LoggedImages:
    """The images of `asked` in the opened `log`."""

    log: OpenedLog
    asked: VersionRange

    def images(self) -> Iterator[pa.RecordBatch]:
        """Yields the table's columns, `OP`, `VERSION`, `TIME` and `GTID`, in the order of the source. Raises
        LakeError."""
        try:
            for part in self._slices():
                yield from self._read(part).to_batches(max_chunksize=_ROWS)
        except (DeltaError, OSError, pa.ArrowException) as error:
            hint = "Restore the log's files, or read these rows in the source's binlog."
            what = f"the change log cannot be read: {first_line(error)}"
            raise LakeError(what, place=self.log.path, hint=hint) from error

    def _slices(self) -> Iterator[VersionRange]:
        dataset = self.log.table.to_pyarrow_dataset()
        batches = dataset.scanner(columns=[VERSION], filter=self.asked.expression).to_reader()
        found = [np.asarray(batch.column(0)) for batch in batches]
        after = self.asked.after
        for upto in slice_ends(np.concatenate(found) if found else np.empty(0, np.int64), _ROWS):
            yield VersionRange(self.asked.epoch, after, upto)
            after = upto

    def _read(self, part: VersionRange) -> pa.Table:
        dataset = self.log.table.to_pyarrow_dataset()
        own = [name for name in dataset.schema.names if name not in NAMES]
        table = dataset.to_table(columns=[*own, *_SHOWN, EPOCH, ROW, NTH], filter=part.expression)
        ordered = table.sort_by([(VERSION, "ascending"), (ROW, "ascending"), (NTH, "ascending")])
        return ordered.select([*own, *_SHOWN])


def slice_ends(versions: npt.NDArray[np.int64], rows: int) -> list[int]:
    """Returns the last version of each slice: of at least `rows` rows, but for the last one. Pure."""
    values, counts = np.unique(versions, return_counts=True)
    ends, size = [], 0
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        size += count
        if size >= rows:
            ends.append(value)
            size = 0
    return ends if not size else [*ends, int(values[-1])]
