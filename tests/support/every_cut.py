"""Real events cut at each byte, through uncompiled kernels whose arrays end where the bytes do.

`python -m tests.support.every_cut` prints the number of cuts. An index outside of an array is an IndexError.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

import tests.support.uncompiled  # noqa: F401  (first, so that no kernel is compiled)
from cdc_core.binlog.block import INDEX, Kind
from cdc_core.binlog.events import HEADER, EventType
from cdc_core.errors import SluiceError
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.source.cutter import Cut, Filling, Journal, Received, cut
from cdc_core.stream.annotate import Annotator
from cdc_core.stream.scan import count_rows
from tests.fixtures.captured import Captured, captured
from tests.support.binlog_files import block
from tests.support.binlog_stream import packets
from tests.support.damage import groups
from tests.support.decoding import decoded
from tests.support.fuzzing import told

Array = npt.NDArray[Any]

_LOGS = ("mysql57", "mysql8", "mariadb")
_LONGEST = 900  # bytes: beyond them there are only more bytes of one text
_PASS = (EventType.GTID, EventType.ANONYMOUS_GTID, EventType.TABLE_MAP, EventType.QUERY, EventType.MARIA_GTID)


def rows_events(log: Captured) -> Iterator[tuple[Array, int, Array]]:
    """Each rows event that is not too long, with its number of rows and the layout of its table."""
    found = decoded(packets(log.events), log.resolve, journal=log.journal)
    for one in found.blocks:
        for row in one.index[(one.index["kind"] == Kind.ROWS) & (one.index["length"] <= _LONGEST)]:
            event = one.data[row["offset"] : row["offset"] + row["length"]]
            yield event, int(row["rows"]), found.registry.row_layout(int(row["schema"]))


def cut_rows(log: Captured) -> Iterator[int]:
    """Every cut other than between two rows is refused."""
    nowhere = np.empty((0, 0), np.int64)
    for event, rows, layout in rows_events(log):
        kind, sound = int(event[4]), 0
        for length in range(len(event)):
            sound += count_rows(event[:length].copy(), 0, length, kind, layout, nowhere) > 0
            yield length
        assert sound == rows - 1


def cut_events(log: Captured) -> Iterator[int]:
    """Each event of a kind that the decoder reads, cut, alone in its block."""
    for event in (event for group in groups(log)[-4:] for event in group if event[4] in _PASS):
        for length in range(HEADER, len(event)):
            one = block([(length + 4, event[:9] + length.to_bytes(4, "little") + event[13:length])])
            try:
                Annotator(SchemaRegistry(), log.resolve, lambda *_: True).annotate(one)
            except SluiceError as error:
                told(error)
            yield length


def cut_stream(log: Captured) -> Iterator[int]:
    """A stream that ends anywhere gives MORE, and whole events."""
    whole, ends = packets(log.events[1:4]), np.cumsum([len(event) + 5 for event in log.events[1:4]])
    first = 4 + len(log.events[0])
    for length in range(len(whole)):
        source, taken, index = np.frombuffer(whole[:length], np.uint8), np.empty(4096, np.uint8), np.zeros(9, INDEX)
        code, at, *_ = cut(Received(source, 0, length, 1), Filling(taken, index, 0, 0), Journal(first, 0, log.checksum))
        assert (code, at) == (Cut.MORE, max([0, *ends[ends <= length].tolist()]))
        yield length


if __name__ == "__main__":
    print(sum(1 for name in _LOGS for cuts in (cut_rows, cut_events, cut_stream) for _ in cuts(captured(name))))
