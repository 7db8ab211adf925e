"""The shape of a Delta table: how many files it has, how large they are, and how long its log is."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.lake.tables import Lake

SMALL = 32 * 2**20  # bytes: a file below is worth to be rewritten with others
LARGE = 128 * 2**20  # bytes: about how large a rewritten file may become
PILE = 16  # small files, from which on they are rewritten


@dataclass(frozen=True, slots=True)
class Shape:
    """Of one `version`. `small` counts the files below SMALL bytes."""

    version: int
    files: int
    bytes: int
    small: int

    @property
    def piled_up(self) -> bool:
        """Whether small files are so many that to rewrite them pays."""
        return self.small >= PILE


def shape(lake: Lake, path: str) -> Shape:
    """The table's, as its log has it. Raises what delta-rs raises."""
    table = lake.open(path)
    sizes = pa.table(table.get_add_actions(flatten=True)).column("size_bytes")
    small = pc.sum(pc.less(sizes, SMALL)).as_py() or 0
    return Shape(table.version(), len(sizes), pc.sum(sizes).as_py() or 0, small)
