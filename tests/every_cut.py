"""Real events cut at each of their bytes, through uncompiled kernels whose arrays end where the bytes do.

`python -m tests.every_cut` prints how many cuts there were; an index outside of an array is an IndexError.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

import tests.uncompiled  # noqa: F401  (first, so that no kernel is compiled)
from cdc_core.binlog.annotate import Annotator
from cdc_core.binlog.events import EventType
from cdc_core.binlog.scan import count_rows
from cdc_core.errors import SluiceError
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.source import cutter
from cdc_core.source.block import INDEX
from tests.binlog_files import block
from tests.binlog_stream import packets
from tests.damage import groups
from tests.decoding import decoded
from tests.fixtures.captured import Captured, captured
from tests.fuzzing import told

Array = npt.NDArray[Any]

_LOGS = ("mysql57", "mysql8", "mariadb")
_LONGEST = 900  # bytes: beyond them there are only more bytes of one text
_PASS = (EventType.GTID, EventType.ANONYMOUS_GTID, EventType.TABLE_MAP, EventType.QUERY, EventType.MARIA_GTID)


def rows_events(log: Captured) -> Iterator[tuple[Array, int, Array]]:
    """Each rows event that is not too long, its number of rows, and its table's layout."""
    found = decoded(packets(log.events), log.resolve, journal=log.journal)
    for one in found.blocks:
        for row in one.index[(one.index["schema"] >= 0) & (one.index["length"] <= _LONGEST)]:
            event = one.data[row["offset"] : row["offset"] + row["length"]]
            yield event, int(row["rows"]), found.registry.layout(int(row["schema"]))


def cut_rows(log: Captured) -> Iterator[int]:
    """Cut anywhere but between two rows it does not add up."""
    nowhere = np.empty((0, 0), np.int64)
    for event, rows, layout in rows_events(log):
        kind, sound = int(event[4]), 0
        for length in range(len(event)):
            sound += count_rows(event[:length].copy(), 0, length, kind, layout, nowhere) > 0
            yield length
        assert sound == rows - 1


def cut_events(log: Captured) -> Iterator[int]:
    """Each event of a kind that is looked into, cut, alone in its block."""
    for event in (event for group in groups(log)[-4:] for event in group if event[4] in _PASS):
        for length in range(cutter.HEADER, len(event)):
            one = block([(length + 4, event[:9] + length.to_bytes(4, "little") + event[13:length])])
            try:
                Annotator(SchemaRegistry(), log.resolve, lambda *_: True).annotate("b.1", one.data, one.index)
            except SluiceError as error:
                told(error)
            yield length


def cut_stream(log: Captured) -> Iterator[int]:
    """A stream that ends anywhere: MORE, and events that are whole."""
    whole, ends = packets(log.events[1:4]), np.cumsum([len(event) + 5 for event in log.events[1:4]])
    first = 4 + len(log.events[0])
    for length in range(len(whole)):
        source, taken, index = np.frombuffer(whole[:length], np.uint8), np.empty(4096, np.uint8), np.zeros(9, INDEX)
        code, at, *_ = cutter.cut(source, 0, length, 1, taken, 0, index, 0, first, 0, log.checksum)
        assert (code, at) == (cutter.MORE, max([0, *ends[ends <= length].tolist()]))
        yield length


if __name__ == "__main__":
    print(sum(1 for name in _LOGS for cut in (cut_rows, cut_events, cut_stream) for _ in cut(captured(name))))
