"""`dagster/row_count` of a materialization: how many rows the table has, by the statistics in its log.

That is asked when the materialization is written, without Spark, for a hundredth of a run's time at most. A table with
deletion vectors has none: its statistics count the rows that they delete.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from spark_jobs.lake.tables import Lake

ROW_COUNT = "dagster/row_count"  # a `RowCount` until the materialization is written
_FIRST, _SHARE = 1.0, 0.01  # seconds that counts of a run may take, and of the run's time in addition


@dataclass(slots=True)
class CountTime:
    """The time that counts of a run have taken, and may take."""

    clock: Callable[[], float] = time.monotonic
    spent: float = 0.0
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        self._began = self.clock()

    @property
    def is_over(self) -> bool:
        return self.spent >= _FIRST + _SHARE * (self.clock() - self._began)


@dataclass(frozen=True, slots=True)
class RowCount:
    """The count of the table at `path`."""

    lake: Lake
    path: Callable[[], str]
    time: CountTime = field(repr=False)

    def number(self) -> int | None:
        """Returns the count, or None where it is not known, or there is no time. Raises nothing: the batch is done."""
        if self.time.is_over:
            return None
        began = self.time.clock()
        try:
            return self.lake.rows(self.path())
        except Exception:  # the batch is done: nothing that is shown of it may fail its run
            return None
        finally:
            self.time.spent += self.time.clock() - began
