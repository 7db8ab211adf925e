"""The batches that a person asks about, as the ledger has them: by number, position, GTID or time.

Of the ledger only the columns that are asked for are read, and only the batches that are found become objects.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable

from cdc_core.errors import ConfigError
from cdc_core.gtid import Gtid, GtidPosition, Gtids, GtidSet, as_gtids, parse_gtid_field, was_executed
from cdc_core.position import EntryPosition
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.queries import selected_table

_COLUMNS = (
    "epoch", "batch_id", "start_journal", "start_position", "end_journal", "end_position", "gtid", "run_id", "rows",
    "transactions", "tables", "committed_at",
)  # fmt: skip
_LATER = ("executed_at", "partial")  # columns that an older ledger lacks
_LAST = "ORDER BY epoch DESC, end_version DESC"
MOST = 10_000  # batches of one answer


@dataclass(frozen=True, slots=True)
class PastBatch:
    """A batch of the ledger. `notes`: by table, what the ledger notes of it (`TableNote`). `executed`: when the source
    executed its end, None if the ledger does not say. `partial`: it ends within a transaction."""

    epoch: int
    number: int
    start: EntryPosition
    end: EntryPosition
    gtid: str
    run_id: str
    rows: int
    transactions: int
    notes: dict[str, dict[str, Any]]
    committed: datetime
    executed: datetime | None = None
    partial: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """The changes that are asked about: those of `epoch` after `start` up to `end`, in these batches; none of them if
    the lake does not have it yet. `begin`: a place at or before `start` where a transaction begins. `until`: the latest
    epoch of which the ledger says that it was read from the same server. `only`: GTIDs prove that it has the one
    transaction that was asked for, and no other."""

    epoch: int
    start: EntryPosition
    end: EntryPosition
    batches: tuple[PastBatch, ...] = ()
    begin: EntryPosition | None = None
    until: int = 0
    only: bool = False

    @property
    def numbers(self) -> str:
        """The numbers of its batches, as `--batch` takes them."""
        first, last = self.batches[0].number, self.batches[-1].number
        return str(first) if first == last else f"{first}..{last}"

    @property
    def is_whole(self) -> bool:
        """Whether all changes of its batches are in it."""
        return bool(self.batches) and (self.start, self.end) == (self.batches[0].start, self.batches[-1].end)

    @property
    def tables(self) -> list[str]:
        """The tables that the ledger notes for the batches."""
        return sorted({table for batch in self.batches for table in batch.notes})

    def of_table(self, table: str) -> Span:
        """Returns the part in which the table may have changes: without the batches at either end that have none."""
        own = tuple(batch for batch in self.batches if table in batch.notes)
        if not own:
            return self
        return replace(self, start=max(self.start, own[0].start), end=min(self.end, own[-1].end), batches=own)


@dataclass(frozen=True)
class PastBatches:
    """The batches of a client. Raises ConfigError for what the ledger does not have, LakeError if it cannot be read."""

    ledger: Ledger

    def numbered(self, first: int, last: int) -> Span:
        """Returns the span of the batches of these numbers. Raises ConfigError too if they are of several epochs."""
        found = self._select(f"batch_id >= {first:d} AND batch_id <= {last:d} {_LAST} LIMIT {MOST + 1:d}")
        if len(found) > MOST:
            hint = f"Ask for fewer, or for one: --batch {first}."
            raise ConfigError(f"more than {MOST:,} batches have these numbers", place=self.ledger.path, hint=hint)
        if not found:
            what = f"batch {first}" if first == last else f"batches {first} to {last}"
            raise self._unknown(what)
        return self._of_one_epoch(found)

    def at(self, position: EntryPosition) -> Span:
        """Returns the span of the batch that has the event which ends at a position, or the one around it: the latest,
        where a rewind repeated it. Raises ConfigError too if another server had that position."""
        version = position.version()
        journal = position.journal_name.replace("'", "''")
        base = journal.rpartition(".")[0]
        same = f"(end_journal = '{journal}' OR end_journal LIKE '{_like(base)}.%')"
        epochs = self._table("DISTINCT epoch", f"end_version >= {version:d} AND {same}")["epoch"].to_pylist()
        around = f"end_version >= {version:d} AND {same} ORDER BY end_version LIMIT 1"
        firsts = [self._select(f"epoch = {epoch:d} AND {around}")[0] for epoch in sorted(epochs, reverse=True)]
        found = [one for one in firsts if one.start < position]
        if not found:
            raise self._unknown(f"batch with the position {position}")
        elsewhere = [one for one in found if one.epoch < self._server(found[0].epoch)]
        if elsewhere:
            numbers = " or ".join(f"--batch {one.number}" for one in (found[0], elsewhere[0]))
            hint = f"Ask for the batch: {numbers}."
            raise ConfigError("several servers had that position", place=str(position), hint=hint)
        return self._span(found[:1])

    def ran_at(self, moment: datetime) -> Span:
        """Returns the span of the first batch that ended at or after a moment. Older ledgers know only when the lake
        noted it."""
        named = "coalesce(executed_at, committed_at)" if "executed_at" in self._there else "committed_at"
        order = f"{named}, epoch DESC, end_version"  # the source's times have whole seconds
        found = self._select(f"{named} >= TIMESTAMP '{moment.isoformat()}' ORDER BY {order} LIMIT 1")
        if not found:
            raise self._unknown(f"batch at or after {moment.isoformat()}")
        return self._span(found)

    def ran_between(self, since: datetime | None, until: datetime | None) -> Span:
        """Returns the span of the batches that ended at or after `since`, and at or before `until`; None for the first
        and the last. Raises ConfigError too if they are of several epochs."""
        named = "coalesce(executed_at, committed_at)" if "executed_at" in self._there else "committed_at"
        bounds = [f"{named} >= TIMESTAMP '{since.isoformat()}'"] if since else []
        bounds += [f"{named} <= TIMESTAMP '{until.isoformat()}'"] if until else []
        found = self._select(f"{' AND '.join(bounds) or 'true'} {_LAST} LIMIT {MOST + 1:d}")
        if len(found) > MOST:
            hint = "Ask for a shorter time."
            raise ConfigError(f"more than {MOST:,} batches ended in that time", place=self.ledger.path, hint=hint)
        if not found:
            raise self._unknown("batch that ended in that time")
        return self._of_one_epoch(found)

    def of_gtid(self, gtid: str) -> Span:
        """Returns the span of the batch in which a transaction was executed, or of all batches that have a part of
        it."""
        asked = _one_gtid(gtid)
        noted = self._table("epoch, end_version, gtid", "gtid <> '' ORDER BY epoch, end_version")
        epochs, gtids = noted["epoch"].to_numpy(), noted["gtid"]

        def has(at: int) -> bool:
            return was_executed(asked, gtids[at].as_py())

        for epoch in np.unique(epochs).tolist():
            low, high = np.searchsorted(epochs, (epoch, epoch + 1)).tolist()
            if has(high - 1):  # in an epoch sets only grow
                end = noted["end_version"][bisect_left(range(high - 1), True, low, key=has)].as_py()
                (found,) = self._select(f"epoch = {epoch:d} AND end_version = {end:d}")
                batches = [*self._parts_before(found), found, *self._parts_after(found)]
                return replace(self._span(batches), only=self._has_only(batches))
        raise self._unknown(f"batch with the transaction {gtid}")

    def _span(self, batches: Sequence[PastBatch]) -> Span:
        own = sorted(batches, key=lambda one: one.end.order)
        first = own[0]
        return Span(first.epoch, first.start, own[-1].end, tuple(own), self._begin(first), self._until(first.epoch))

    def _of_one_epoch(self, batches: Sequence[PastBatch]) -> Span:
        """Returns their span. Raises ConfigError for several epochs: what is between a batch and another epoch's is no
        range of the source's changes."""
        by_epoch = dict[int, list[PastBatch]]()
        for one in batches:
            by_epoch.setdefault(one.epoch, []).append(one)
        spans = [self._span(own) for _, own in sorted(by_epoch.items())]
        if len(spans) > 1:
            parts = " or ".join(f"--batch {one.numbers}" for one in reversed(spans))
            hint = f"A rewind or a move to another server is between them. Ask for one part, the latest first: {parts}."
            raise ConfigError("these batches are of several epochs", place=self.ledger.path, hint=hint)
        return spans[0]

    def _until(self, epoch: int) -> int:
        """Returns the latest epoch that was read from the server of this one, as far as the ledger says."""
        if "moved" not in self._there:
            return epoch
        later = self._table("max(epoch) AS last", f"epoch >= {epoch:d} AND moved <= {epoch:d}").to_pylist()
        return max(epoch, later[0]["last"] or 0)

    def _server(self, epoch: int) -> int:
        """Returns the first epoch that was read from the server of this one, as far as the ledger says."""
        if "moved" not in self._there:
            return 0
        found = self._table("max(moved) AS first", f"epoch = {epoch:d}").to_pylist()
        return int(found[0]["first"] or 0)

    def _begin(self, batch: PastBatch) -> EntryPosition:
        """Returns where the transaction begins in which a batch begins."""
        return next(iter(self._parts_before(batch)), batch).start

    def _parts_before(self, batch: PastBatch) -> list[PastBatch]:
        """Returns the batches that have earlier parts of the transaction in which a batch begins, in order."""
        found, first = list[PastBatch](), batch
        while "partial" in self._there:
            ends = f"end_version = {first.start.version():d} AND partial"
            before = self._select(f"epoch = {batch.epoch:d} AND {ends}")
            if not before:
                break
            first = before[0]
            found.insert(0, first)
        return found

    def _parts_after(self, batch: PastBatch) -> list[PastBatch]:
        """Returns the batches that have later parts of the transaction in which a batch ends, in order."""
        found, last = list[PastBatch](), batch
        while last.partial:
            begins = f"end_version > {last.end.version():d} ORDER BY end_version LIMIT 1"
            after = self._select(f"epoch = {batch.epoch:d} AND {begins}")
            if not after:
                break
            last = after[0]
            found.append(last)
        return found

    def _has_only(self, batches: Sequence[PastBatch]) -> bool:
        """Whether the batches have one transaction."""
        first, last = batches[0], batches[-1]
        before = self._select(f"epoch = {first.epoch:d} AND end_version = {first.start.version():d}")
        one = sum(batch.transactions for batch in batches) == 1 and not last.partial
        return one and bool(before) and follows(before[0].gtid, last.gtid)

    def _select(self, condition: str) -> list[PastBatch]:
        names = [*_COLUMNS, *(name for name in _LATER if name in self._there)]
        return [_batch(row) for row in self._table(", ".join(names), condition).to_pylist()]

    def _table(self, columns: str, condition: str) -> pa.Table:
        query = f"SELECT {columns} FROM batches WHERE {condition}"  # noqa: S608
        return selected_table(self._opened, "batches", query)

    @cached_property
    def _opened(self) -> DeltaTable:
        opened = self.ledger.opened()
        if opened is None:
            hint = "Name the lake and the destination of a run that acked a batch; --client if it is not 1001."
            raise ConfigError("the lake has no ledger of this destination", place=self.ledger.path, hint=hint)
        return opened

    @cached_property
    def _there(self) -> set[str]:
        return {field.name for field in self._opened.schema().fields}

    def _unknown(self, what: str) -> ConfigError:
        rows = self._table("min(batch_id) AS first, max(batch_id) AS last, count(*) AS rows", "true").to_pylist()
        first, last, count = (rows[0][name] for name in ("first", "last", "rows"))
        known = f"It has {count:,} batches, from {first} to {last}." if count else "It has no batch yet."
        hint = f"{known} `batch_id` is in the metadata of a table's materializations."
        return ConfigError(f"the lake's ledger has no {what}", place=self.ledger.path, hint=hint)


def _like(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _batch(row: dict[str, Any]) -> PastBatch:
    return PastBatch(
        row["epoch"], row["batch_id"],
        EntryPosition(row["start_journal"], row["start_position"]),
        EntryPosition(row["end_journal"], row["end_position"]),
        row["gtid"] or "", row["run_id"] or "", row["rows"], row["transactions"], json.loads(row["tables"]),
        row["committed_at"], row.get("executed_at"), bool(row.get("partial")),
    )  # fmt: skip


def follows(before: str, after: str) -> bool:
    """Whether one transaction is between two places with these GTIDs, as the ledger has them. Pure."""
    one, other = parse_gtid_field(before), parse_gtid_field(after)
    match one, other:
        case GtidSet(), GtidSet():
            return len(other - one) == 1
        case Gtid(), Gtid():
            return replace(one, number=one.number + 1) == other
        case GtidPosition(), GtidPosition():
            ends = {domain: number for domain, _, number in one.parts}
            return [number - ends.get(domain, 0) for domain, _, number in (other - one).parts] == [1]
    return False


def _one_gtid(text: str) -> Gtids:
    """Returns a set with the transaction. Raises ConfigError."""
    found = parse_gtid_field(text.strip())
    if isinstance(found, Gtid):
        return as_gtids(found)
    if found is None or len(found.parts) != 1 or (isinstance(found, GtidSet) and len(found) != 1):
        hint = "Give a GTID: 3e11fa47-71ca-11e1-9e33-c80aa9429562:23, or MariaDB's 0-1-23."
        raise ConfigError(f"{text!r} is not one transaction", place="--gtid", hint=hint)
    return found
