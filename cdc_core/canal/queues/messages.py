"""The messages of a claim: its entries, piece by piece, as Canal's flat messages or in protobuf, each with its topic,
its partition and its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cdc_core.canal.entries.kinds import EntryType
from cdc_core.canal.entries.wire import block, number
from cdc_core.canal.protocol.declared import PacketType
from cdc_core.canal.queues.divide import divide, gather
from cdc_core.canal.queues.flat import flatten
from cdc_core.canal.queues.flat_text import FlatBatch
from cdc_core.canal.queues.place import Numbering, QueuePlace, behind
from cdc_core.canal.queues.route import BY_KEY, BY_NAMES, FIXED, ROUTE, UNIT, Routes
from cdc_core.canal.queues.rules import TopicRules, TopicTarget
from cdc_core.canal.scan.cells import CELL, ENTRY_ROW, EntryRows
from cdc_core.canal.scan.entries import scan
from cdc_core.compiled.kernel import Bytes, Longs

_ROOM = 4 << 20  # bytes of output at a time, or what one entry needs
_UNITS = _CELLS = 1 << 16  # at a time, or as many as one entry needs

Reached = Callable[[str, int], QueuePlace | None]


class Outgoing(NamedTuple):
    """A message for the broker. `rows`: 0 for a statement. A tuple, since there are many and a dataclass takes thrice
    the time."""

    topic: str
    partition: int
    value: bytes
    place: QueuePlace
    rows: int


@dataclass(frozen=True, slots=True)
class ClaimFacts:
    """The fields of a claim's messages that are not in its entries. `ts`: milliseconds since the epoch."""

    batch_id: int
    ts: int
    epoch: int


class Messages:
    """Makes messages of at most about `most_bytes`; one row alone may take more."""

    def __init__(self, rules: TopicRules, *, flat: bool, most_bytes: int) -> None:
        self._rules, self._flat, self._most = rules, flat, most_bytes
        self._targets: dict[tuple[str, str], TopicTarget] = {}

    def __repr__(self) -> str:
        return f"<Messages {'flat' if self._flat else 'protobuf'} {self._rules!r}>"

    def of(
        self, piece: Bytes, facts: ClaimFacts, numbering: Numbering, reached: Reached
    ) -> tuple[Iterator[Outgoing], Numbering]:
        """The messages of a piece that the broker lacks; `reached` says which place it has of a topic's partition."""
        entries, names = scan(piece)
        targets = [self._target(name) for name in names]
        versions, numbers, after = numbering.of(entries)
        units = self._units(piece, entries, targets, facts)
        return self._outgoing(entries, targets, versions, numbers, facts, units, reached), after

    def _target(self, name: tuple[str, str]) -> TopicTarget:
        found = self._targets.get(name)
        if found is None:
            found = self._targets[name] = self._rules.target(*name)
        return found

    def _units(
        self, piece: Bytes, entries: npt.NDArray[np.void], targets: list[TopicTarget], facts: ClaimFacts
    ) -> Iterator[tuple[Bytes, npt.NDArray[np.void]]]:
        """Yields buffers with the units that a kernel wrote to them."""
        routes = _routes(targets)
        rows = np.empty(int(entries["rows"].max(initial=1)), ENTRY_ROW)
        found = EntryRows(rows, np.empty(_CELLS, CELL))
        batch = FlatBatch(facts.batch_id, facts.ts, self._most // 2)
        room, first, slots = _ROOM, 0, _UNITS
        while first < len(entries):
            out, units = np.empty(room, np.uint8), np.empty(slots, UNIT)
            if self._flat:
                after, count = flatten(piece, entries, first, routes, batch, found, out, units)
            else:
                after, count = divide(piece, entries, first, routes, self._rules.keeps_boundaries, found, out, units)
            if after == first:
                room, slots = 2 * room, 2 * slots
                found = EntryRows(rows, np.empty(2 * len(found.cells), CELL))
                continue
            yield out, units[:count]
            first = after

    def _outgoing(
        self,
        entries: npt.NDArray[np.void],
        targets: list[TopicTarget],
        versions: Longs,
        numbers: Longs,
        facts: ClaimFacts,
        units: Iterator[tuple[Bytes, npt.NDArray[np.void]]],
        reached: Reached,
    ) -> Iterator[Outgoing]:
        topics = sorted({target.topic for target in targets})
        topic_of = np.array([topics.index(target.topic) for target in targets], np.int64)
        for out, units_of in units:
            of = units_of["entry"]
            found = _Units(
                topic_of[entries["name"][of]],
                units_of,
                versions[of],
                numbers[of],
                entries["type"][of] == EntryType.ROWDATA,
            )
            kept = found.lacking(topics, facts.epoch, reached)
            make = self._flat_messages if self._flat else self._packets
            yield from make(out, found, kept, topics, facts)

    def _flat_messages(
        self, out: Bytes, found: _Units, kept: Longs, topics: list[str], facts: ClaimFacts
    ) -> Iterator[Outgoing]:
        units = found.units[kept]
        if not len(units):
            return
        data = out[: int(units["end"][-1])].tobytes()
        columns = (units["start"], units["end"], units["partition"], units["part"], units["rows"])
        rest = (found.topics[kept], found.versions[kept], found.numbers[kept])
        for start, end, partition, part, rows, topic, version, entry in zip(
            *(column.tolist() for column in (*columns, *rest)), strict=True
        ):
            place = QueuePlace(facts.epoch, version, entry, part)
            yield Outgoing(topics[topic], partition, data[start:end], place, rows)

    def _packets(
        self, out: Bytes, found: _Units, kept: Longs, topics: list[str], facts: ClaimFacts
    ) -> Iterator[Outgoing]:
        """The entries of each partition in messages that are no larger than they may be."""
        for topic, partition in found.places(kept):
            chosen = kept[(found.topics[kept] == topic) & (found.units["partition"][kept] == partition)]
            starts, ends = found.units["start"][chosen], found.units["end"][chosen]
            sizes = np.concatenate([[0], np.cumsum(ends - starts)])
            first = 0
            while first < len(chosen):
                last = int(np.searchsorted(sizes, sizes[first] + self._most * 3 // 4, side="right")) - 1
                last = max(first + 1, min(last, len(chosen)))
                body = np.empty(int(sizes[last] - sizes[first]), np.uint8)
                gather(out, _frozen(starts[first:last]), _frozen(ends[first:last]), body)
                unit = int(chosen[last - 1])
                part = int(found.units["part"][unit])
                place = QueuePlace(facts.epoch, int(found.versions[unit]), int(found.numbers[unit]), part)
                rows = int(found.units["rows"][chosen[first:last]].sum())
                yield Outgoing(topics[topic], partition, packet(body.tobytes()), place, rows)
                first = last


@dataclass(frozen=True, slots=True)
class _Units:
    """The units of one buffer: the number of each one's topic, where it comes from, whether it is a row or statement
    (and no boundary of a transaction)."""

    topics: Longs
    units: npt.NDArray[np.void]
    versions: Longs
    numbers: Longs
    changes: npt.NDArray[np.bool_]

    def places(self, kept: Longs) -> list[tuple[int, int]]:
        """The topics and partitions that occur."""
        both = np.unique(np.stack([self.topics[kept], self.units["partition"][kept].astype(np.int64)]), axis=1)
        return [(int(topic), int(partition)) for topic, partition in both.T]

    def lacking(self, topics: list[str], epoch: int, reached: Reached) -> Longs:
        """The numbers of the units that the broker lacks."""
        kept = np.ones(len(self.units), np.bool_)
        for topic, partition in self.places(np.arange(len(self.units))):
            place = reached(topics[topic], partition)
            if place is not None:
                here = (self.topics == topic) & (self.units["partition"] == partition)
                kept[here] = behind(place, epoch, self.versions, self.numbers, self.units["part"])[here]
        return np.flatnonzero(kept)


def packet(entries: bytes) -> bytes:
    """Entries as `CanalMessageSerializerUtil` writes them: a packet of type MESSAGES."""
    return number(2, 1) + number(3, PacketType.MESSAGES) + block(5, entries)


def _routes(targets: list[TopicTarget]) -> Routes:
    routes = np.zeros(max(len(targets), 1), ROUTE)
    names: list[bytes] = []
    for route, target in zip(routes, targets, strict=False):
        route["mode"], route["partition"], route["partitions"] = FIXED, target.partition, target.partitions
        route["statements"], route["seed"] = target.statements, target.seed
        if target.hashed is not None:
            route["mode"] = BY_KEY if target.hashed.by_key else BY_NAMES
            route["first"] = len(names)
            names += [name.encode() for name in target.hashed.columns]
            route["last"] = len(names)
    blob = np.frombuffer(b"".join(names) + b"\0", np.uint8)
    return Routes(_frozen(routes), blob, _frozen(np.cumsum([0, *map(len, names)]).astype(np.int64)))


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array = np.ascontiguousarray(array).copy()
    array.flags.writeable = False
    return array
