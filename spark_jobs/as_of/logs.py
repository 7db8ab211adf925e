"""The rows of a change log that bring a version of its table to a later place. Pure: the log's ends are given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from spark_jobs.as_of.batches import Batches, Place
from spark_jobs.as_of.contents import Range, Stretch
from spark_jobs.changes.version_range import VersionRange


@dataclass(frozen=True, slots=True)
class KnownLog:
    """A table's change log at Delta version `version`. `ends`: by epoch, the version up to which it has the table's
    changes; `lacks`: by epoch, the version up to which some are missing in it. `whole`: it began when the table had no
    row."""

    version: int
    ends: Mapping[int, int]
    lacks: Mapping[int, int] = field(default_factory=dict)
    whole: bool = False


@dataclass(frozen=True, slots=True)
class LogOf:
    """The log of `table`, beside the batches of its client."""

    table: str
    log: KnownLog
    batches: Batches

    def exact(self, stretch: Stretch) -> tuple[Range, ...]:
        """Returns the range of places at which the stretch's version is exact with rows of the log, or nothing."""
        content, upto = stretch.content, None
        for part in self._parts(stretch):
            upto = part.upto
        if content is None or content.since is None or upto is None or upto < content.since:
            return ()
        server = self.batches.server(content.epoch)
        return ((Place(server, content.since), Place(server, upto)),)

    def after(self, stretch: Stretch, place: Place) -> tuple[VersionRange, ...]:
        """Returns the rows after the stretch's version up to a place of `exact`, in order."""
        found = []
        for part in self._parts(stretch):
            upto = min(part.upto, place.version, self.log.ends.get(part.epoch, 0))
            if part.after is None or part.after < upto:
                found.append(VersionRange(part.epoch, part.after, upto))
        return tuple(found)

    def _parts(self, stretch: Stretch) -> Iterator[VersionRange]:
        """Yields the ranges after the stretch's version of which the log has all changes, one after the other."""
        content, batches, log = stretch.content, self.batches, self.log
        if content is None or content.since is None or content.lacks or not content.there:
            return
        at, server = content.at, batches.server(content.epoch)
        for epoch in range(content.epoch, max(batches.newest, max(log.ends, default=-1)) + 1):
            span = batches.spans.get(epoch)
            if span is None and epoch not in log.ends:
                continue
            if batches.server(epoch) != server or (epoch > content.epoch and (span is None or span[0] > at)):
                return
            end = max(span[1] if span else 0, log.ends.get(epoch, 0))
            limit = self._limit(epoch, at, stretch)
            end = end if limit is None else min(end, limit)
            if end > at:
                if log.lacks.get(epoch, 0) > at:
                    return
                yield VersionRange(epoch, at, end)
                at = end
            if limit is not None:
                return

    def _limit(self, epoch: int, at: int, stretch: Stretch) -> int | None:
        """Returns the version of the epoch from which on the table has changes that are not in the log, or None."""
        missed = self.batches.missed_by(self.table)
        found = [max(one.start, at) for one in missed if one.epoch == epoch and one.end > at]
        unlogged = stretch.unlogged
        if unlogged is not None and unlogged.epoch == epoch:
            found.append(at if unlogged.start is None else max(unlogged.start, at))
        return min(found, default=None)
