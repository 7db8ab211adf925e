"""MySQL's GTIDs, one and many, with tags (MySQL 8.3 and later) and without.

In `uuid:1-5:7:tag:1-3` the intervals without a tag come first, then those of each tag.
Source: MySQL manual, "GTID Format and Storage"; MySQL source documentation, `Gtid_set::encode`.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cdc_core.errors import PositionError
from cdc_core.gtid.intervals import Intervals, count, joined, without

Source = tuple[str, str]  # server uuid, tag; the tag is empty for most
_TAG = re.compile(r"[a-z_][a-z0-9_]{0,31}")
_NUMBERS = re.compile(r"(\d+)(?:-(\d+))?")
_LARGEST = (1 << 63) - 1
_TAGGED = 1  # the format of an encoded set whose sources have tags


@dataclass(frozen=True, slots=True)
class Gtid:
    """One transaction: `uuid:number` or `uuid:tag:number`."""

    server: str
    tag: str
    number: int

    def __str__(self) -> str:
        return ":".join(filter(None, [self.server, self.tag, str(self.number)]))


@dataclass(frozen=True, slots=True)
class GtidSet:
    """All transactions that a server executed, or that lie before a position.

    `parts`: for each source its intervals, sorted by source; none is empty.
    """

    parts: tuple[tuple[Source, Intervals], ...] = ()

    @classmethod
    def parse(cls, text: str) -> GtidSet:
        """Reads what `@@gtid_executed` shows, line breaks included. Raises PositionError."""
        found: dict[Source, list[tuple[int, int]]] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            name, *rest = (piece.strip() for piece in part.split(":"))
            server, tag = _uuid(name, text), ""
            for piece in rest:
                if numbers := _NUMBERS.fullmatch(piece):
                    low = int(numbers[1])
                    high = int(numbers[2] or low)
                    if not 0 < low <= high < _LARGEST:
                        raise _malformed(text, piece)
                    found.setdefault((server, tag), []).append((low, high + 1))
                elif _TAG.fullmatch(piece.lower()):
                    tag = piece.lower()
                else:
                    raise _malformed(text, piece)
            if not rest:
                raise _malformed(text, part)
        return cls.of({source: joined(pairs) for source, pairs in found.items()})

    @classmethod
    def of(cls, parts: Mapping[Source, Intervals]) -> GtidSet:
        return cls(tuple(sorted((source, intervals) for source, intervals in parts.items() if intervals)))

    def __str__(self) -> str:
        """As the server writes it, without line breaks."""
        lines: dict[str, list[str]] = {}
        for (server, tag), intervals in self.parts:
            texts = [f"{low}-{high - 1}" if high - low > 1 else str(low) for low, high in intervals]
            lines.setdefault(server, []).extend([tag, *texts] if tag else texts)
        return ",".join(":".join([server, *texts]) for server, texts in lines.items())

    def __bool__(self) -> bool:
        return bool(self.parts)

    def __len__(self) -> int:
        """The number of transactions."""
        return sum(count(intervals) for _, intervals in self.parts)

    def __or__(self, other: GtidSet) -> GtidSet:
        mine = dict(self.parts)
        return GtidSet.of(mine | {s: joined((*mine.get(s, ()), *intervals)) for s, intervals in other.parts})

    def __sub__(self, other: GtidSet) -> GtidSet:
        gone = dict(other.parts)
        return GtidSet.of({s: without(intervals, gone.get(s, ())) for s, intervals in self.parts})

    def __ge__(self, other: GtidSet) -> bool:
        """Whether all of `other` is in this set."""
        return not other - self

    def encode(self) -> bytes:
        """The bytes in COM_BINLOG_DUMP_GTID and PREVIOUS_GTIDS. A set without tags keeps the form of older servers."""
        tagged = any(tag for (_, tag), _ in self.parts)
        size = len(self.parts)
        head = _TAGGED << 56 | size << 8 | _TAGGED if tagged else size
        return head.to_bytes(8, "little") + b"".join(_encoded(*part, tagged=tagged) for part in self.parts)

    @classmethod
    def decode(cls, data: bytes) -> GtidSet:
        """The set that `encode` gave these bytes. Raises PositionError for bytes that are no set."""
        try:
            return cls.of(dict(_decoded(data)))
        except (IndexError, ValueError) as error:
            raise PositionError(
                f"not an encoded GTID set: {data[:40].hex(' ')}", hint="Check the source's binlog with mysqlbinlog."
            ) from error


def _encoded(source: Source, intervals: Intervals, *, tagged: bool) -> bytes:
    server, tag = source
    name = uuid.UUID(server).bytes
    if tagged:
        name += bytes([len(tag) << 1]) + tag.encode()  # a length of up to 63 in one byte, its lowest bit 0
    numbers = [len(intervals), *(number for pair in intervals for number in pair)]
    return name + b"".join(number.to_bytes(8, "little") for number in numbers)


def _decoded(data: bytes) -> Iterator[tuple[Source, Intervals]]:
    head, at = _number(data, 0), 8
    tagged = head >> 56 == _TAGGED
    size = head >> 8 & (1 << 48) - 1 if tagged else head
    for _ in range(size):
        server, tag = str(uuid.UUID(bytes=data[at : at + 16])), ""
        at += 16
        if tagged:
            length = data[at] >> 1
            tag, at = data[at + 1 : at + 1 + length].decode(), at + 1 + length
        pairs, at = _number(data, at), at + 8
        if pairs > (len(data) - at) // 16:
            raise ValueError(pairs)
        yield (server, tag), joined((_number(data, at + 16 * i), _number(data, at + 16 * i + 8)) for i in range(pairs))
        at += 16 * pairs


def _number(data: bytes, at: int) -> int:
    if at + 8 > len(data):
        raise IndexError(at)
    return int.from_bytes(data[at : at + 8], "little")


def _uuid(name: str, text: str) -> str:
    try:
        return str(uuid.UUID(name))
    except ValueError:
        raise _malformed(text, name) from None


def _malformed(text: str, piece: str) -> PositionError:
    return PositionError(
        f"not a GTID set: {text[:200]!r}",
        place=repr(piece[:60]),
        hint="Give it as @@gtid_executed has it: 3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:tag:1-3.",
    )
