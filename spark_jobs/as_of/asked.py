"""The place that somebody asks for: a position, GTIDs, a time, a batch, or the latest one. Pure.

GTIDs, times and batches are those of the ledger's batches: the place is the end of a batch.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from cdc_core.errors import ConfigError, LakeError, PositionError
from cdc_core.gtid import Gtid, Gtids, as_gtids, parse_gtid_field, was_executed
from cdc_core.position import EntryPosition
from cdc_core.written import moment_of, position_of
from spark_jobs.as_of.batches import Batches, NotedBatch, Place

LATEST = "latest"
_PLACE = re.compile(r"(\d+)\.(\d+)")
_FORMS = (
    "Give a position (mysql-bin.000007:1547), a GTID or a set of them, a time (2026-11-26T12:00:00Z), the number of a "
    "batch, or latest. `gtid:`, `time:` and `batch:` before it say which."
)
Value = EntryPosition | Place | Gtids | datetime | int


@dataclass(frozen=True, slots=True)
class AskedPlace:
    """What was asked for: `text` as it was written, and its value; None for the latest place. A `Place` has the epoch
    in `server`."""

    text: str
    value: Value | None

    @classmethod
    def of(cls, value: str | Value | Gtid) -> AskedPlace:
        """Returns what a value asks for; a text is parsed. Raises ConfigError for a text of another form."""
        if isinstance(value, str):
            return cls(value, None if value == LATEST else _parsed(value))
        return cls(str(value), as_gtids(value) if isinstance(value, Gtid) else value)

    def place(self, batches: Batches) -> Place:
        """Returns the place. Raises LakeError if the ledger has no such batch."""
        whole = [one for one in batches.batches if not one.partial]
        found: NotedBatch | None
        match self.value:
            case EntryPosition():
                return self._of_position(self.value, batches)
            case Place(server=epoch, version=version):
                return batches.place(epoch, version)
            case None:
                found = whole[-1] if whole else None
            case datetime():
                ran = self.value.astimezone()
                known = [one for one in whole if one.executed and one.executed <= ran]
                found = max(known, key=lambda one: batches.place(one.epoch, one.end), default=None)
            case int():
                found = next((one for one in reversed(whole) if one.batch_id == self.value), None)
            case _:
                found = _with_gtids(whole, self.value)
        if found is None:
            raise LakeError(f"the lake's ledger has no batch for {self.text}", place=self.text, hint=self._hint(whole))
        return batches.place(found.epoch, found.end)

    def _of_position(self, position: EntryPosition, batches: Batches) -> Place:
        """Returns the place on the server whose batches reach from before the position to behind it. Raises LakeError
        if several do."""
        version, base = position.version(), position.journal_name.rpartition(".")[0]
        bases = {one.epoch: one.journal.rpartition(".")[0] for one in batches.batches if one.journal}
        own = [epoch for epoch in batches.spans if bases.get(epoch, base) == base]
        if not own:
            known = ", ".join(sorted({*bases.values()})) or "none"
            hint = f"The lake's batches are of the journals {known}."
            raise LakeError(f"the lake has no batch of a journal {base}", place=self.text, hint=hint)
        covering = [epoch for epoch in own if batches.spans[epoch][0] <= version <= batches.spans[epoch][1]]
        places = sorted({batches.place(epoch, version) for epoch in covering})
        if len(places) > 1:  # a replica may name its journals alike
            known = " or ".join(f"{one.server}.{one.version}" for one in places)
            hint = f"Ask for the place, which names the server by its first epoch: {known}."
            raise LakeError(f"{len(places)} servers had that position", place=self.text, hint=hint)
        return batches.place(max(covering or own), version)

    def _hint(self, batches: list[NotedBatch]) -> str:
        if not batches:
            return "Ask again when a batch is acked."
        first, last = batches[0], batches[-1]
        return (
            f"It has batches {first.batch_id} to {last.batch_id}, from {first.executed} to {last.executed}; "
            "a batch that ends within a transaction is not a place."
        )


def _parsed(text: str) -> Value:
    kind, _, rest = text.partition(":")
    if kind in ("gtid", "time", "batch", "position"):
        text = rest
    else:
        kind = ""
    try:
        if kind in ("", "batch") and text.isascii() and text.isdigit():
            return int(text)
        if kind in ("", "position") and (position := position_of(text)) is not None:
            return position
        if not kind and (found := _PLACE.fullmatch(text)):
            return Place(int(found[1]), int(found[2]))
        if kind in ("", "time") and (moment := moment_of(text)) is not None:
            return moment
        if kind in ("", "gtid") and (gtids := parse_gtid_field(text)) is not None:
            return as_gtids(gtids)
    except PositionError as error:
        raise ConfigError(f"no place: {text!r}", place="--as-of", hint=_FORMS) from error
    raise ConfigError(f"no place: {text!r}", place="--as-of", hint=_FORMS)


def _with_gtids(batches: list[NotedBatch], asked: Gtids) -> NotedBatch | None:
    """Returns the first batch at whose end all of the transactions were executed, of the first epoch that has one:
    within an epoch their sets only grow."""
    for _, group in groupby(batches, lambda one: one.epoch):
        own = list(group)
        if was_executed(asked, own[-1].gtid):
            return own[bisect_left(own, True, key=lambda one: was_executed(asked, one.gtid))]
    return None
