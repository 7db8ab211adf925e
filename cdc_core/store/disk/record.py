"""The form of a segment on disk: a head, the block's index, the block's bytes. Pure: bytes and values.

The head has the extent, and checksums of itself, of the index and of the bytes. Records follow each other without gaps;
each begins at a multiple of eight.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cdc_core.binlog.block import INDEX, Block
from cdc_core.store.disk.extent import Extent, extent
from cdc_core.store.mark import Mark
from cdc_core.store.segment import Segment

FORMAT = 2
_MAGIC = b"SLR1"
# Magic, checksum of the rest of the head; bytes of the journal's name, number of schemas; the first mark; events, rows,
# statements, commits, committed; start, end, time; bytes of data; checksums of index and data.
_HEAD = struct.Struct("<4sI HI QQQQ IQIII qqI Q II")
_CHECKED = 8  # where the part begins that the head's checksum covers
_ALIGN = 8

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Record:
    """`head_bytes` is a multiple of eight. `index_crc` and `data_crc` are CRC32."""

    extent: Extent
    head_bytes: int
    data_bytes: int
    index_crc: int
    data_crc: int

    @property
    def index_bytes(self) -> int:
        return self.extent.events * INDEX.itemsize

    @property
    def size(self) -> int:
        """Bytes of the whole record."""
        return _aligned(self.head_bytes + self.index_bytes + self.data_bytes)

    def index_in(self, whole: Bytes) -> Bytes:
        """The index's bytes within those of the record."""
        return whole[self.head_bytes : self.head_bytes + self.index_bytes]

    def data_in(self, whole: Bytes) -> Bytes:
        at = self.head_bytes + self.index_bytes
        return whole[at : at + self.data_bytes]

    def block(self, whole: Bytes) -> Block:
        """The block: views into the record's bytes."""
        one = self.extent
        return Block(one.journal_name, one.start, self.data_in(whole), self.index_in(whole).view(INDEX))

    def is_sound(self, whole: Bytes) -> bool:
        """Whether index and data are what was written."""
        index, data = self.index_in(whole), self.data_in(whole)
        return checksum(index) == self.index_crc and checksum(data) == self.data_crc


def checksum(data: Bytes) -> int:
    """CRC32 of contiguous bytes."""
    return zlib.crc32(data.data)


def record(segment: Segment) -> Record:
    """The record that a segment in memory becomes."""
    one, block = extent(segment), segment.block
    head_bytes = _head_bytes(len(one.journal_name.encode()), len(one.schemas))
    return Record(one, head_bytes, block.data.nbytes, checksum(_index(block)), checksum(_data(block)))


def buffers(what: Record, block: Block) -> list[bytes | memoryview]:
    """The record's bytes, in parts."""
    filling = what.size - what.head_bytes - what.index_bytes - what.data_bytes
    return [head(what), _index(block).data, _data(block).data, bytes(filling)]


def _index(block: Block) -> Bytes:
    return np.ascontiguousarray(block.index).view(np.uint8)


def _data(block: Block) -> Bytes:
    return np.ascontiguousarray(block.data)


def head(what: Record) -> bytes:
    one, name = what.extent, what.extent.journal_name.encode()
    first, last = one.first, one.last
    fixed = _HEAD.pack(
        *(_MAGIC, 0, len(name), len(one.schemas)),
        *(first.sequence, first.rows, first.nbytes, first.statements),
        *(one.events, last.rows - first.rows, last.statements - first.statements, one.commits, one.committed),
        *(one.start, one.end, one.time),
        *(what.data_bytes, what.index_crc, what.data_crc),
    )
    rest = (fixed + name + np.array(one.schemas, "<i4").tobytes()).ljust(what.head_bytes, b"\0")[_CHECKED:]
    return _MAGIC + struct.pack("<I", zlib.crc32(rest)) + rest


def parse(data: Bytes, at: int) -> Record | None:
    """The record whose head begins at an offset of `data`; None where no whole and sound head is."""
    if len(data) - at < _HEAD.size:
        return None
    fields = _HEAD.unpack_from(data.data, at)
    magic, expected, name_bytes, schema_count = fields[:4]
    head_bytes = _head_bytes(name_bytes, schema_count)
    whole = data[at : at + head_bytes]
    if magic != _MAGIC or len(whole) < head_bytes or checksum(whole[_CHECKED:]) != expected:
        return None
    events, rows, statements, commits, committed, start, end, time, data_bytes, index_crc, data_crc = fields[8:]
    first = Mark(*fields[4:8])
    nbytes = first.nbytes + data_bytes + events * INDEX.itemsize
    last = Mark(first.sequence + events, first.rows + rows, nbytes, first.statements + statements)
    name = whole[_HEAD.size : _HEAD.size + name_bytes].tobytes().decode()
    numbers = whole[_HEAD.size + name_bytes :][: 4 * schema_count].tobytes()
    schemas = tuple(np.frombuffer(numbers, "<i4").tolist())
    one = Extent(first, last, name, start, end, commits, committed, schemas, time)
    return Record(one, head_bytes, data_bytes, index_crc, data_crc)


def _head_bytes(name_bytes: int, schema_count: int) -> int:
    return _aligned(_HEAD.size + name_bytes + 4 * schema_count)


def _aligned(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN
