"""`VersionRange`: which changes of a table, and the conditions for their rows in a change log."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow.compute as pc

from spark_jobs.changes.columns import EPOCH, VERSION


@dataclass(frozen=True, slots=True)
class VersionRange:
    """The changes of `epoch` after version `after`, None for all, up to version `upto`."""

    epoch: int
    after: int | None
    upto: int

    @property
    def sql(self) -> str:
        """Returns the condition for a log's rows in SQL."""
        return within(self.epoch, self.after, self.upto)

    @property
    def expression(self) -> pc.Expression:
        """Returns the same condition for Arrow."""
        where = (pc.field(EPOCH) == self.epoch) & (pc.field(VERSION) <= self.upto)
        return where if self.after is None else where & (pc.field(VERSION) > self.after)

    def meets(self, epochs: tuple[int, int], low: int, high: int) -> bool:
        """Whether some of the changes may be in a file, whose rows are of these epochs and versions."""
        floor = -1 if self.after is None else self.after
        return epochs[0] <= self.epoch <= epochs[1] and high > floor and low <= self.upto


def within(epoch: int, after: int | None, upto: int | None = None) -> str:
    """Returns the condition for the rows of `epoch` in a log, after version `after`, up to version `upto`."""
    parts = [f"{EPOCH} = {epoch:d}"]  # constants: Spark leaves files out by their statistics
    parts += [f"{VERSION} > {after:d}"] if after is not None else []
    parts += [f"{VERSION} <= {upto:d}"] if upto is not None else []
    return " AND ".join(parts)
