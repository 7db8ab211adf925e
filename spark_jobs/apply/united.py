"""The unions of a batch follow their shards, after all else that the batch does to tables and before its ack.

A shard that its union cannot have is copied, if a copy makes it one that the union can have; else it stops. Its own
rows are right either way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from spark_jobs.apply.ddl.copies import Copier, copied
from spark_jobs.apply.result import Followed, Refusal
from spark_jobs.apply.table import Batch
from spark_jobs.lake.unions import Union
from spark_jobs.union.publish import Published, publish


@dataclass(frozen=True, slots=True)
class United:
    """The unions that were published, the shards that were `copied` for them, and those that stop."""

    published: tuple[Published, ...] = ()
    copied: tuple[Followed, ...] = ()
    refused: tuple[Refusal, ...] = ()

    @property
    def left_out(self) -> frozenset[str]:
        """The shards of which the batch's own result does not count."""
        return frozenset([*(one.table for one in self.copied), *(one.table for one in self.refused)])


def unite(
    batch: Batch, changed: Collection[str], stopped: Collection[str], copier: Copier | None, *, whole: bool
) -> United:
    """Publishes the unions whose shards may be `changed`; if `whole`, all unions with all of their shards. Shards that
    are `stopped` are left alone. Raises LakeError."""
    unions = batch.lake.unions
    first = [publish(batch.lake, one, None if whole else changed) for one in _among(batch, changed, whole=whole)]
    refused = _refused(batch, first, stopped)
    copies, left = copied(batch, copier, refused) if copier else ((), refused)
    names = [one.table for one in copies]
    again = [publish(batch.lake, one, names) for one in unions.among(names)]
    late = _refused(batch, again, {*stopped, *(one.table for one in left)})
    return United((*first, *again), copies, (*left, *late))


def _among(batch: Batch, changed: Collection[str], *, whole: bool) -> Iterable[Union]:
    return batch.lake.unions.all if whole else batch.lake.unions.among(changed)


def _refused(batch: Batch, published: Iterable[Published], stopped: Collection[str]) -> tuple[Refusal, ...]:
    found = {name: error for one in published for name, error in one.refused.items() if name not in stopped}
    return tuple(Refusal(name, error).with_remedy(batch.claim.destination) for name, error in found.items())
