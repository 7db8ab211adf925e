"""The GTIDs of many transactions as one value, gathered from the bytes of blocks; compiled, without an object each.

Formats as in `gtids`: MySQL's GTID events with and without tags, MariaDB's.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from cdc_core.binlog.events import HEADER, EventType
from cdc_core.binlog.gtids import unreadable
from cdc_core.gtid import GtidPosition, Gtids, GtidSet
from cdc_core.gtid.intervals import Intervals
from cdc_core.source.block import Block, Kind

_UUID, _TAG = 16, 32
_SOURCE = _UUID + 1 + _TAG  # uuid, length of the tag, tag
_GTID, _TAGGED = int(EventType.GTID), int(EventType.GTID_TAGGED)
_FIELD_SOURCE, _FIELD_NUMBER, _FIELD_TAG, _FIELD_LAST = 1, 2, 3, 7

Bytes = npt.NDArray[np.uint8]


def advanced(gtids: Gtids, data: Bytes, index: npt.NDArray[np.void]) -> Gtids:
    """`gtids` and those that begin in these events. Raises DecodeError for a GTID that is torn."""
    kinds = index["type"]
    if isinstance(gtids, GtidPosition):
        rows = index[kinds == EventType.MARIA_GTID]
        return gtids | _mariadb(data, rows) if len(rows) else gtids
    rows = index[(kinds == _GTID) | (kinds == _TAGGED)]
    return gtids | _mysql(data, rows) if len(rows) else gtids


class Executed:
    """The set behind the last transaction that ended, advanced block by block."""

    def __init__(self, committed: Gtids) -> None:
        self.committed = committed
        self.reset()

    def __repr__(self) -> str:
        return f"<Executed {self.committed}>"

    def reset(self) -> None:
        """A new file or connection: a transaction that was under way comes again."""
        self._open = type(self.committed)()

    def advance(self, block: Block) -> None:
        ends = np.flatnonzero(block.index["kind"] == Kind.COMMIT)
        behind = int(ends[-1]) + 1 if len(ends) else 0
        if behind:
            self.committed = advanced(self.committed | self._open, block.data, block.index[:behind])  # type: ignore[operator]
            self.reset()
        self._open = advanced(self._open, block.data, block.index[behind:])


def _mariadb(data: Bytes, rows: npt.NDArray[np.void]) -> GtidPosition:
    """In each domain the last."""
    if int(rows["length"].min()) < HEADER + 12:
        raise unreadable()
    at = rows["offset"].astype(np.int64)[:, None]
    servers = data[at + np.arange(5, 9)].view("<u4")[:, 0]
    numbers = data[at + HEADER + np.arange(8)].view("<u8")[:, 0]
    domains = data[at + HEADER + np.arange(8, 12)].view("<u4")[:, 0]
    found, last = np.unique(domains[::-1], return_index=True)
    picked = [(int(d), len(rows) - 1 - int(i)) for d, i in zip(found, last, strict=True)]
    return GtidPosition(tuple((domain, int(servers[i]), int(numbers[i])) for domain, i in picked))


def _mysql(data: Bytes, rows: npt.NDArray[np.void]) -> GtidSet:
    sources, numbers = np.zeros((len(rows), _SOURCE), np.uint8), np.zeros(len(rows), np.int64)
    offsets, lengths = rows["offset"].astype(np.int64), rows["length"].astype(np.int64)
    if not _read(data, offsets, lengths, rows["type"].copy(), sources, numbers):
        raise unreadable()
    names, which = np.unique(sources.view(f"V{_SOURCE}")[:, 0], return_inverse=True)
    return GtidSet.of({_name(name.tobytes()): _runs(np.unique(numbers[which == at])) for at, name in enumerate(names)})


def _name(source: bytes) -> tuple[str, str]:
    hexed = source[:_UUID].hex()
    uuid = "-".join((hexed[:8], hexed[8:12], hexed[12:16], hexed[16:20], hexed[20:]))
    return uuid, source[_UUID + 1 : _UUID + 1 + source[_UUID]].decode("ascii", "replace")


def _runs(numbers: npt.NDArray[np.int64]) -> Intervals:
    """Sorted numbers as intervals."""
    breaks = np.flatnonzero(np.diff(numbers) > 1)
    lows, highs = numbers[np.r_[0, breaks + 1]], numbers[np.r_[breaks, len(numbers) - 1]] + 1
    return tuple(zip(lows.tolist(), highs.tolist(), strict=True))


@njit(nogil=True, cache=True)
def _packed(data: Bytes, at: int, stop: int) -> tuple[int, int]:
    """A number and where it ends, -1 for beyond `stop`; see `gtids`."""
    if at < 0 or at >= stop:
        return 0, -1
    first, more = np.int64(data[at]), 0
    while more < 8 and first >> more & 1:
        more += 1
    if at + more >= stop:
        return 0, -1
    shift = min(more + 1, 8)
    value = first >> shift
    for k in range(1, more + 1):
        value |= np.int64(data[at + k]) << (8 * k - shift)
    return int(value), at + more + 1


@njit(nogil=True, cache=True)
def _read(data: Bytes, offsets, lengths, types, sources, numbers) -> bool:  # type: ignore[no-untyped-def]
    """Fills `sources` and `numbers`. False for an event that is torn."""
    for i in range(len(offsets)):
        at, stop = offsets[i] + HEADER, offsets[i] + lengths[i]
        if types[i] == _GTID:
            if stop - at < 25:
                return False
            sources[i, :_UUID] = data[at + 1 : at + 1 + _UUID]
            for k in range(8):
                numbers[i] |= np.int64(data[at + 17 + k]) << 8 * k
            if numbers[i] <= 0:
                return False
        elif not _read_tagged(data, at, stop, sources[i], numbers, i):
            return False
    return True


@njit(nogil=True, cache=True)
def _read_tagged(data: Bytes, at, stop, source, numbers, i) -> bool:  # type: ignore[no-untyped-def]
    for _ in range(3):  # version, size, last field to be understood
        _, at = _packed(data, at, stop)
    while 0 <= at < stop:
        field, at = _packed(data, at, stop)
        if at < 0 or field > _FIELD_LAST:
            break
        if field == _FIELD_SOURCE:
            for k in range(_UUID):
                value, at = _packed(data, at, stop)
                source[k] = value & 0xFF
        elif field == _FIELD_TAG:
            size, at = _packed(data, at, stop)
            if at < 0 or size > _TAG or at + size > stop:
                return False
            source[_UUID] = size
            source[_UUID + 1 : _UUID + 1 + size] = data[at : at + size]
            at += size
        else:
            value, at = _packed(data, at, stop)
            if field == _FIELD_NUMBER and at >= 0:
                numbers[i] = value >> 1  # its lowest bit is the sign
    return bool(at >= 0 and numbers[i] > 0)
