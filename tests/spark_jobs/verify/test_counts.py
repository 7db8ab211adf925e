"""Rows of one bucket are added up as they come."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cdc_core.errors import LakeError
from spark_jobs.verify.counts import counted
from spark_jobs.verify.sums import Buckets, Columns, Sums

_BATCHES, _ROWS = 50, 1000


@dataclass
class OneBucket:
    """A side whose rows come in batches of one bucket. `read` counts the batches."""

    batches: int
    equal: bool = False
    read: list[int] = field(default_factory=list)
    columns: Columns = field(default_factory=lambda: Columns((), ("v",)))

    def sums(self, _: int) -> Sums:
        return Sums(np.array([self.batches * _ROWS]), np.zeros(1, np.uint64))

    def rows(self, _: int, __: Buckets) -> Iterator[pa.RecordBatch]:
        for number in range(self.batches):
            self.read.append(number)
            first = 0 if self.equal else number * _ROWS
            values = [0] * _ROWS if self.equal else list(range(first, first + _ROWS))
            yield pa.record_batch({"v": pa.array(values, pa.int64())})


@pytest.mark.parametrize("equal", [True, False])
def test_memory_is_bounded(equal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal rows are one; different ones are too many after a few batches, and no further one is read."""
    monkeypatch.setattr("spark_jobs.verify.counts._ROWS_FOLDED", 1000)
    monkeypatch.setattr("spark_jobs.verify.counts._MOST", 5000)
    source, lake = OneBucket(_BATCHES, equal), OneBucket(0)
    there: Any = lake
    if equal:
        assert counted(source, there, 1).missing == _BATCHES * _ROWS
        return
    with pytest.raises(LakeError, match="more than 5000 rows differ"):
        counted(source, there, 1)
    assert len(source.read) <= 10
