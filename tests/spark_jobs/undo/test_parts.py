"""Where the rows of a part of the past come from, with a binlog that is a double."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest

from cdc_core.errors import LakeError
from cdc_core.position import EntryPosition
from cdc_core.reread.binlog import BinlogReader
from cdc_core.reread.transaction import RowCounts, Transaction
from spark_jobs.changes.columns import OP, UPDATE_AFTER, UPDATE_BEFORE
from spark_jobs.past.noted import PastBatches, Span
from spark_jobs.undo.parts import past_part
from tests.support.undoing import A, Undoing


class BinlogDouble:
    """A transaction of one update, which says that it changed `rows` rows."""

    def __init__(self, rows: int = 1) -> None:
        self.rows = rows

    def transactions(self, begin: EntryPosition, end: EntryPosition, _after: EntryPosition) -> Iterator[Transaction]:
        yield Transaction(begin, end=end, rows={A: RowCounts(updates=self.rows)})

    def images(self, _one: Transaction, _table: str) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"id": [1, 1], "v": [10, 11], OP: [UPDATE_BEFORE, UPDATE_AFTER]})


@pytest.fixture
def undoing(tmp_path: Path) -> Undoing:
    undoing = Undoing(tmp_path)
    undoing.batch({1: 10})
    return undoing


def span(undoing: Undoing, number: int) -> Span:
    """The batch, of which the ledger says that nothing was left in the table."""
    found = PastBatches(undoing.lake.ledger).numbered(number, number)
    return replace(found, batches=tuple(replace(one, notes={A: {"net_rows": 0}}) for one in found.batches))


class TestPastPart:
    def test_nothing_left(self, undoing: Undoing) -> None:
        """A batch whose changes cancel each other out changed nothing. One of its transactions did."""
        asked = span(undoing, undoing.batch({1: 11}))
        binlog = cast(BinlogReader, BinlogDouble())
        assert past_part(undoing.tables, A, asked, binlog).origin == "ledger"
        one = replace(asked, end=EntryPosition(asked.end.journal_name, asked.end.position - 1))
        part = past_part(undoing.tables, A, one, binlog)
        assert (part.origin, part.end) == ("binlog", one.end.version())
        assert sum(batch.num_rows for batch in part.read()) == 2

    def test_too_many_rows(self, undoing: Undoing) -> None:
        """A transaction of whose rows only the first ones are kept is not undone in part."""
        asked = span(undoing, undoing.batch({1: 11}))
        one = replace(asked, end=EntryPosition(asked.end.journal_name, asked.end.position - 1))
        part = past_part(undoing.tables, A, one, cast(BinlogReader, BinlogDouble(rows=2)))
        with pytest.raises(LakeError, match="more rows than can be read"):
            list(part.read())
