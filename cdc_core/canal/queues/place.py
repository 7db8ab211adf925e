"""Where a message comes from, as the broker keeps it in a header: what was sent is not sent again.

The messages of a partition come in the order of their places. Offsets repeat inside a compressed transaction, so that
its entries are numbered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from cdc_core.canal.entries.kinds import EntryType
from cdc_core.position import OFFSET_BITS

HEADER = "sluice-place"


class QueuePlace(NamedTuple):
    """`version` is `EntryPosition.version()` of the event, `number` counts entries at one offset, `part` the messages
    of one entry in one partition, or its rows. Places of different epochs have nothing to do with each other."""

    epoch: int
    version: int
    number: int
    part: int

    @classmethod
    def read(cls, header: bytes, writer: str) -> Self | None:
        """What a header says; None for one of another writer."""
        name, _, numbers = header.decode("utf-8", "replace").rpartition(" ")
        parts = numbers.split(":")
        if name != writer or len(parts) != 4:
            return None
        try:
            return cls(*map(int, parts))
        except ValueError:
            return None

    def header(self, writer: str) -> bytes:
        return f"{writer} {self.epoch}:{self.version}:{self.number}:{self.part}".encode()


@dataclass(frozen=True, slots=True)
class Numbering:
    """The last entry before a piece: entries at the same offset go on from its number."""

    version: int = -1
    number: int = -1

    def of(self, entries: npt.NDArray[np.void]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Numbering]:
        """For each entry its version and its number; what the next piece goes on from."""
        versions = entries["journal_number"] << OFFSET_BITS | entries["offset"]
        numbers = np.zeros(len(entries), np.int64)
        rows = np.flatnonzero(entries["type"] == EntryType.ROWDATA)
        if not len(rows):
            return versions, numbers, self
        of_rows = versions[rows]
        first = np.flatnonzero(np.diff(of_rows, prepend=of_rows[0] - 1))
        counts = np.diff(first, append=len(rows))
        numbers[rows] = np.arange(len(rows)) - np.repeat(first, counts)
        if of_rows[0] == self.version:
            numbers[rows[: counts[0]]] += self.number + 1
        return versions, numbers, replace(self, version=int(of_rows[-1]), number=int(numbers[rows[-1]]))


def behind(place: QueuePlace, epoch: int, versions: Any, numbers: Any, parts: Any) -> npt.NDArray[np.bool_]:
    """Which of some messages come after a place."""
    if epoch != place.epoch:
        return np.ones(len(versions), np.bool_)
    same = (versions == place.version) & ((numbers > place.number) | ((numbers == place.number) & (parts > place.part)))
    found: npt.NDArray[np.bool_] = (versions > place.version) | same
    return found
