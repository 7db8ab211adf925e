"""The ledger's batches as places: which of them end where, on which server, and which tables missed them. Pure.

A place is a version (`EntryPosition.version()`) on one server. A rewind begins an epoch that repeats places of the same
server, so a table may be as of a place by either epoch. Another server has other places: its first epoch names it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from itertools import groupby

from cdc_core.errors import ConfigError
from cdc_core.position import split_version
from cdc_core.schema.names import split_name
from cdc_core.stream.filter import make_filter


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A place between two transactions of a server: `server` is its first epoch, `version` the position."""

    server: int
    version: int


@dataclass(frozen=True, slots=True)
class NotedBatch:
    """A batch that the ledger has: the rows of `epoch` after version `start` up to version `end`, in the journal
    `journal`. `partial`: it ends within a transaction. `executed`: when the source executed its end, as far as that is
    known, otherwise when the lake noted it. `captured`: the filter by which it was read, the expressions of tables to
    capture and of those to leave out, if that is known."""

    epoch: int
    start: int
    end: int
    batch_id: int = 0
    partial: bool = False
    executed: datetime | None = None
    gtid: str = ""
    journal: str = ""
    captured: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class _Filtered:
    """Batches that were read by a filter: the `first` one, and the version of their `end`."""

    captured: Callable[[str], bool]
    first: NotedBatch
    end: int


@dataclass(frozen=True)
class Batches:
    """The batches of one client. `moved`: by epoch, the first epoch of its server, where the ledger says so;
    `seamless`: by epoch, the version of the cursor exactly after which it began at another server. `missed`: by table,
    the first batch that it missed each time that it stopped. `looked_up`: by table, the places between which its rows
    may be of a later one, because a batch looked them up at the source."""

    batches: Sequence[NotedBatch] = ()
    moved: Mapping[int, int] = field(default_factory=dict)
    seamless: Mapping[int, int] = field(default_factory=dict)
    missed: Mapping[str, Sequence[NotedBatch]] = field(default_factory=dict)
    looked_up: Mapping[str, Sequence[tuple[Place, Place]]] = field(default_factory=dict)

    def server(self, epoch: int) -> int:
        """Returns the first epoch of the server that the epoch was read from. An epoch of which nothing says so counts
        as another server."""
        known = [first for newer, first in self.moved.items() if first <= epoch <= newer]
        return min(known, default=epoch)

    def missed_by(self, table: str) -> Sequence[NotedBatch]:
        """Returns the first batch of each time that the table missed changes: it was stopped, or not captured."""
        return [*self.missed.get(table, ()), *(one.first for one in self._filters if not one.captured(table))]

    def uncaptured(self, table: str) -> Sequence[tuple[Place, Place]]:
        """Returns the closed ranges of places that were read without the table."""
        return [
            (self.place(one.first.epoch, one.first.start + 1), self.place(one.first.epoch, one.end))
            for one in self._filters
            if not one.captured(table)
        ]

    @cached_property
    def _filters(self) -> Sequence[_Filtered]:
        """What was read by the same filter, within an epoch. It begins where the batch before ended: a range without a
        row is no batch."""
        found = list[_Filtered]()
        for (epoch, captured), group in groupby(self.batches, lambda one: (one.epoch, one.captured)):
            own = list(group)
            before = max((one.end for one in self.batches if one.epoch == epoch and one.end < own[0].end), default=None)
            if captured is not None:
                first = replace(own[0], start=own[0].start if before is None else before)
                found.append(_Filtered(_filter(*captured), first, own[-1].end))
        return found

    def place(self, epoch: int, version: int) -> Place:
        return Place(self.server(epoch), version)

    @cached_property
    def spans(self) -> Mapping[int, tuple[int, int]]:
        """By epoch, the version at which its first batch begins, and that at which its last one ends."""
        found = dict[int, tuple[int, int]]()
        for one in self.batches:
            low, high = found.get(one.epoch, (one.start, one.end))
            found[one.epoch] = min(low, one.start), max(high, one.end)
        return found

    @property
    def newest(self) -> int:
        """Returns the last epoch, -1 for none."""
        return max(self.spans, default=-1)

    @cached_property
    def ends(self) -> Sequence[Place]:
        """The ends of the batches that end with a transaction, in order."""
        return sorted({self.place(one.epoch, one.end) for one in self.batches if not one.partial})

    @cached_property
    def broken(self) -> Sequence[tuple[Place, Place]]:
        """The places between which a transaction of several batches lies."""
        found = []
        for epoch, group in groupby(sorted(self.batches, key=lambda one: (one.epoch, one.end)), lambda one: one.epoch):
            begun = None
            for one in group:
                begun = one.start if begun is None and one.partial else begun
                if begun is not None:
                    found.append((self.place(epoch, begun), self.place(epoch, one.end)))
                if not one.partial:
                    begun = None
        return found

    def is_within_transaction(self, place: Place) -> bool:
        """Whether batches show that the place is in the middle of a transaction."""
        return any(low < place < high or (place == high and place not in self._ends) for low, high in self.broken)

    @cached_property
    def _ends(self) -> frozenset[Place]:
        return frozenset(self.ends)

    def is_end(self, place: Place) -> bool:
        """Whether a batch ends at the place, with a transaction; or the first one of its server begins there."""
        reached = self.reached(place.server)
        return place in self._ends or (reached is not None and place.version <= reached[0])

    def last_end(self, upto: Place) -> Place | None:
        """Returns the last end of a batch at or before a place."""
        at = bisect_right(self.ends, upto)
        return self.ends[at - 1] if at else None

    def first_end(self, since: Place) -> Place | None:
        """Returns the first end of a batch at or after a place."""
        at = bisect_right(self.ends, Place(since.server, since.version - 1))
        return self.ends[at] if at < len(self.ends) else None

    def reached(self, server: int) -> tuple[int, int] | None:
        """Returns the versions from and up to which batches of the server are in the lake."""
        own = [span for epoch, span in self.spans.items() if self.server(epoch) == server]
        return (min(low for low, _ in own), max(high for _, high in own)) if own else None

    def text(self, place: Place) -> str:
        """Returns the place as a position of the source, where a journal of that number is known."""
        number, offset = split_version(place.version)
        named = self._journals.get((place.server, number)) or self._journals.get((place.server, None))
        base = named.rpartition(".")[0] if named else "journal"
        return f"{base}.{number:06d}:{offset}"

    @cached_property
    def _journals(self) -> Mapping[tuple[int, int | None], str]:
        found = dict[tuple[int, int | None], str]()
        for one in self.batches:
            if one.journal:
                server = self.server(one.epoch)
                found[server, split_version(one.end)[0]] = found[server, None] = one.journal
        return found


def _filter(regex: str, black: str) -> Callable[[str], bool]:
    """Returns which tables were captured; none by expressions that do not compile any more."""
    try:
        captured = make_filter(regex, black)
    except ConfigError:
        return lambda _: False
    return lambda table: captured(*split_name(table))
