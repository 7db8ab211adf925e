"""An extent: what searches over the log must know of a segment, so that its block may stay on disk."""

from __future__ import annotations

from dataclasses import dataclass

from cdc_core.store.mark import Mark
from cdc_core.store.segment import Segment


@dataclass(frozen=True, slots=True)
class Extent:
    """From `first` to `last`. It has `commits` transaction ends; `committed` events lie before the last of them.

    `schemas` are the registry's numbers that its rows and statements have. `start` and `end` are offsets in the
    journal, `time` is that of the last event, in seconds since the epoch.
    """

    first: Mark
    last: Mark
    journal_name: str
    start: int
    end: int
    commits: int
    committed: int
    schemas: tuple[int, ...]
    time: int

    @property
    def events(self) -> int:
        return self.last.sequence - self.first.sequence

    @property
    def last_commit(self) -> int | None:
        """The last transaction end, as a sequence."""
        return self.first.sequence + self.committed if self.commits else None


def extent(segment: Segment) -> Extent:
    """That of a segment in memory."""
    block, commits = segment.block, segment.commits
    return Extent(
        first=segment.first,
        last=segment.at(segment.end),
        journal_name=block.journal_name,
        start=block.start,
        end=block.end,
        commits=len(commits),
        committed=int(commits[-1]) if len(commits) else 0,
        schemas=tuple(segment.numbers()),
        time=int(block.index["timestamp"][-1]),
    )
