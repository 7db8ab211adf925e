"""Which rows a correction puts into a table, by key: from the row before a part of the past, the row after it, and the
row now. Pure.

A row is put if it is now as the part left it. One that is already as it would be put is left alone, so the same
decision made again does nothing more. Any other row was changed since: it is listed, and left unless that is forced. A
row that was changed since and changed back counts as unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

from cdc_core.errors import LakeError
from spark_jobs.changes.columns import DELETE, INSERT, TRUNCATE, UPDATE_AFTER, UPDATE_BEFORE
from spark_jobs.changes.columns import OP as IMAGE
from spark_jobs.lake.types import OP
from spark_jobs.verify.row_text import lake_text

Toward = Literal["before", "after"]
ADDED, GONE = 1, 2  # of OP: a row that the table gets, and a key whose rows are deleted
MOST_ROWS = 1_000_000  # images and rows of one decision: each is an object


@dataclass(frozen=True, slots=True)
class PooledRow:
    """A row of a pool. Rows of equal values have the same `text`."""

    text: bytes
    place: int = field(compare=False)


class RowPool:
    """Rows with the columns of `schema`, found by the text of their `key`. At most `most` rows."""

    def __init__(self, schema: pa.Schema, key: Sequence[str], most: int = MOST_ROWS) -> None:
        self.schema, self.key, self._most = schema, tuple(key), most
        self._batches: list[pa.RecordBatch] = []
        self._count = 0

    def __repr__(self) -> str:
        return f"<RowPool rows={self._count}>"

    def add(self, batch: pa.RecordBatch) -> Iterator[tuple[bytes, PooledRow]]:
        """Adds rows, which have the columns in types that fit, and yields each with the text of its key. Raises
        LakeError for more rows than the pool takes, and for values that do not fit."""
        first = self._count
        if first + batch.num_rows > self._most:
            hint = "Ask for fewer batches or tables, or restore the lake to a place before them."
            raise LakeError(f"more than {self._most:,} rows would be looked at", place=repr(self), hint=hint)
        rows = self._fitting(batch)
        self._batches.append(rows)
        self._count += rows.num_rows
        texts = (lake_text(rows, names).to_pylist() for names in (self.key, self.schema.names))
        for number, (key, text) in enumerate(zip(*texts, strict=True)):
            yield key, PooledRow(text, first + number)

    def table(self, rows: Sequence[PooledRow], names: Sequence[str] = ()) -> pa.Table:
        """Returns these rows, in that order, with all columns or those of these names."""
        there = pa.Table.from_batches(self._batches, self.schema).select(list(names) or self.schema.names)
        return there.take(pa.array([row.place for row in rows], pa.int64()))

    def _fitting(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        try:
            columns = [batch.column(one.name).cast(one.type) for one in self.schema]
        except (pa.ArrowException, KeyError) as error:
            hint = "Reload the table, or correct its rows by hand: they have other columns than it has now."
            raise LakeError(f"rows do not fit the table's columns: {error}", place=repr(self), hint=hint) from error
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


@dataclass(frozen=True, slots=True)
class NetChange:
    """What a part of the past did to one key: the row before it and the row after it, None where there was none."""

    before: PooledRow | None
    after: PooledRow | None

    @property
    def changes(self) -> bool:
        return self.before != self.after


def net_changes(pool: RowPool, images: Iterable[pa.RecordBatch]) -> dict[bytes, NetChange]:
    """Returns the net change of each key that images in the form of a change log change, in their order. The rows are
    added to the pool. Raises LakeError for a TRUNCATE, and what `RowPool.add` raises."""
    found = dict[bytes, NetChange]()
    for batch in images:
        ops = batch.column(batch.schema.get_field_index(IMAGE)).to_pylist()
        if TRUNCATE in ops:
            hint = "Restore the lake to the place before it, or reload the table."
            raise LakeError("a TRUNCATE is among these changes", place=repr(pool), hint=hint)
        for op, (key, row) in zip(ops, pool.add(batch), strict=True):
            there = found.get(key)
            if op in (DELETE, UPDATE_BEFORE):
                found[key] = NetChange(row if there is None else there.before, None)
            else:
                found[key] = NetChange(None if there is None else there.before, row)
    return {key: one for key, one in found.items() if one.changes}


@dataclass(frozen=True, slots=True)
class Put:
    """The rows of one key: `was` now, and `then` what is put in their place. `left`: what the part of the past left."""

    was: tuple[PooledRow, ...]
    then: PooledRow | None
    left: PooledRow | None

    @property
    def since(self) -> Put:
        """Returns what others did to the row since: from what the part of the past left to what it is now."""
        return Put((self.left,) if self.left else (), self.was[0] if self.was else None, None)


@dataclass(frozen=True, slots=True)
class RowDecision:
    """`puts` by key, in order; `already`: so many keys are as they would be put. `changed` since, by key: of these,
    `puts` has those that are forced."""

    pool: RowPool
    puts: Mapping[bytes, Put]
    already: int = 0
    changed: Mapping[bytes, Put] = field(default_factory=dict)

    @property
    def left_alone(self) -> int:
        """How many rows were changed since and are left."""
        return len(self.changed.keys() - self.puts.keys())

    def source(self) -> pa.Table:
        """Returns the source of a MERGE: keys whose rows go, and rows that come, told apart by `OP`. A key without a
        living row may have one that soft deletes marked, so each key's rows go."""
        keys = (put.was[0] if put.was else put.then for put in self.puts.values())
        gone = self.pool.table([row for row in keys if row is not None])
        added = self.pool.table([put.then for put in self.puts.values() if put.then is not None])
        kinds = pa.array([GONE] * gone.num_rows + [ADDED] * added.num_rows, pa.int8())
        return pa.concat_tables([gone, added]).append_column(pa.field(OP, pa.int8()), kinds)

    def images(self, puts: Iterable[Put] | None = None) -> pa.Table:
        """Returns what the commit does, or these `puts` would do, in the form of a change log."""
        rows, ops = list[PooledRow](), list[str]()
        for put in self.puts.values() if puts is None else puts:
            pairs = bool(put.was) and put.then is not None
            rows += [*put.was, *([put.then] if put.then is not None else [])]
            ops += [DELETE] * (len(put.was) - 1) if pairs else [DELETE] * len(put.was)
            ops += [UPDATE_BEFORE, UPDATE_AFTER] if pairs else [INSERT] if put.then is not None else []
        return self.pool.table(rows).append_column(IMAGE, pa.array(ops, pa.string()))


def decide(
    pool: RowPool,
    net: Mapping[bytes, NetChange],
    now: Mapping[bytes, Sequence[PooledRow]],
    toward: Toward,
    *,
    force: bool = False,
) -> RowDecision:
    """Returns the decision to set the rows to those before the changes, or to those after them. `now` has the table's
    rows of these keys."""
    puts, changed, already = dict[bytes, Put](), dict[bytes, Put](), 0
    for key, one in net.items():
        left, then = (one.after, one.before) if toward == "before" else (one.before, one.after)
        there = tuple(now.get(key, ()))
        if there == ((then,) if then else ()):
            already += 1
            continue
        put = Put(there, then, left)
        if there != ((left,) if left else ()):
            changed[key] = put
            if not force:
                continue
        puts[key] = put
    return RowDecision(pool, puts, already, changed)
