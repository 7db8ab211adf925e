"""What the images of a part of a log mean for a history, in Arrow: the versions of rows that they close and open.

`net` has no such query: `following.history.statements` says the same in SQL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark_jobs.changes.columns import EPOCH, NTH, OP, TIME, VERSION
from spark_jobs.changes.in_order import InOrder

VALID_FROM, VALID_TO, CURRENT = "valid_from", "valid_to", "is_current"
KIND = "_sluice_kind"  # 0: closes the version that is there, 1: opens one
SYSTEM = (
    pa.field(KIND, pa.int32()),
    pa.field(OP, pa.string()),
    pa.field(VALID_FROM, pa.timestamp("us", "UTC")),
    pa.field(VALID_TO, pa.timestamp("us", "UTC")),
    pa.field(CURRENT, pa.bool_()),
    pa.field(EPOCH, pa.int32()),
    pa.field(VERSION, pa.int64()),
    pa.field(NTH, pa.int64()),
)
_SLICE = 65_536  # rows that are made at a time


@dataclass(frozen=True, slots=True)
class Versions:
    """`until`: by place in the order, the time of the key's next image."""

    images: InOrder
    until: pa.Array

    @classmethod
    def of(cls, images: InOrder) -> Versions:
        following = np.roll(images.order, -1)
        until = images.rows[TIME].take(pa.array(following, mask=images.last))
        return cls(images, until.combine_chunks())

    def slices(self, columns: Sequence[str], since: int | None = None) -> Iterator[pa.Table]:
        """All that are closed, then all that are opened. `since`: when a version came that is closed and was not there,
        in microseconds; None where that is not known."""
        for kind in (0, 1):
            chosen = np.flatnonzero(self.images.there if kind else self.images.first)
            for start in range(0, len(chosen), _SLICE):
                yield self._slice(kind, chosen[start : start + _SLICE], columns, since)

    def _slice(self, kind: int, at: np.ndarray, columns: Sequence[str], since: int | None) -> pa.Table:
        images, size = self.images, len(at)
        rows = images.rows.take(pa.array(images.order[at])).combine_chunks()
        time = rows[TIME]
        own = {
            KIND: pa.array(np.full(size, kind, np.int32)),
            OP: rows[OP],
            VALID_FROM: time if kind else pa.array([since] * size, SYSTEM[2].type),
            VALID_TO: self.until.take(pa.array(at)) if kind else time,
            CURRENT: pa.array(images.last[at] if kind else np.zeros(size, bool)),
            **{name: rows[name] for name in (EPOCH, VERSION, NTH)},
        }
        schema = pa.schema([*(rows.schema.field(name) for name in columns), *SYSTEM])
        arrays = [rows[name] for name in columns] + [own[field.name].cast(field.type) for field in SYSTEM]
        return pa.table(arrays, schema)
