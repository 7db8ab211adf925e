"""The kernels that write messages keep to the memory that they are given."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from cdc_core.canal.entries.kinds import CanalEventType, EntryType
from cdc_core.canal.entries.wire import block
from cdc_core.canal.protocol import declared
from cdc_core.canal.queues.divide import divide
from cdc_core.canal.queues.flat import flatten
from cdc_core.canal.queues.flat_text import FlatBatch
from cdc_core.canal.queues.messages import _routes
from cdc_core.canal.queues.route import UNIT
from cdc_core.canal.queues.rules import TopicRules
from cdc_core.canal.scan.cells import CELL, ENTRY_ROW, EntryRows
from cdc_core.canal.scan.entries import scan
from cdc_core.config.queue import QueueConfig

MOST = 4 << 20  # bytes that are enough for all entries
KINDS = (CanalEventType.INSERT, CanalEventType.UPDATE, CanalEventType.DELETE)
TEXTS = st.text('a\x01"\\€', max_size=6)
CELLS = st.tuples(TEXTS, TEXTS, TEXTS, st.sampled_from([0, 4, -7, 1111]), st.booleans(), st.booleans(), st.booleans())
ROWS = st.lists(st.lists(CELLS, max_size=3), max_size=4)
ENTRIES = st.lists(st.tuples(st.sampled_from(KINDS), ROWS, TEXTS, st.integers(1, 40)), min_size=1, max_size=4)


def _entry(kind: CanalEventType, rows: list[list[Any]], name: str, times: int) -> bytes:
    """An entry that has its rows several times; a statement where there are none."""
    change = declared.RowChange(eventType=kind, sql="" if rows else name)
    for cells in rows * times:
        row = change.rowDatas.add()
        for number, (column, value, mysql, java, key, updated, null) in enumerate(cells):
            one = declared.Column(index=number, name=column, value=value, mysqlType=mysql, sqlType=java)
            one.isKey, one.updated, one.isNull = key, updated, null
            for columns in (row.beforeColumns, row.afterColumns)[kind == KINDS[0] : 1 + (kind != KINDS[2])]:
                columns.append(one)
    header = declared.Header(schemaName=name, tableName=name, gtid=name)
    entry = declared.Entry(header=header, entryType=EntryType.ROWDATA, storeValue=change.SerializeToString())
    return entry.SerializeToString()


@given(ENTRIES, st.floats(0, 1), st.integers(1, 300), st.booleans())
@example([(KINDS[1], [[]], "", 900)], 0.2, 1 << 20, False)  # of a table without a column that is shown
def test_messages_end_within_their_room(made: list[Any], share: float, limit: int, hashed: bool) -> None:
    """Entries for which there is too little room are left for the next output."""
    piece = np.frombuffer(b"".join(block(2, _entry(*one)) for one in made), np.uint8)
    entries, names = scan(piece)
    values: dict[str, Any] = {"canal.mq.topic": "t"}
    if hashed:
        values |= {"canal.mq.partitionsNum": 3, "canal.mq.partitionHash": r".*\..*:$pk$"}
    rules = TopicRules(QueueConfig.model_validate(values))
    routes = _routes([rules.target(*name) for name in names])
    rows = np.empty(int(entries["rows"].max(initial=1)), ENTRY_ROW)
    found, units = EntryRows(rows, np.empty(1 << 12, CELL)), np.empty(1 << 12, UNIT)

    batch = FlatBatch(1, 1, limit)
    for write in (
        lambda out: flatten(piece, entries, 0, routes, batch, found, out, units),
        lambda out: divide(piece, entries, 0, routes, True, found, out, units),
    ):
        after, count = write(np.empty(MOST, np.uint8))
        assert after == len(entries)
        whole = int(units["end"][:count].max(initial=0))
        memory, room = np.full(whole + 1, 0xEE, np.uint8), int(share * whole)
        _, count = write(memory[:room])
        assert units["end"][:count].max(initial=0) <= room
        assert (memory[room:] == 0xEE).all()
