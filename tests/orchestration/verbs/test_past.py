"""What an undo of one transaction asks for, with a binlog that is a double."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import cast

import pytest

from cdc_core.errors import ConfigError, PositionPurged
from cdc_core.position import EntryPosition
from cdc_core.reread.binlog import BinlogReader
from cdc_core.reread.transaction import RowCounts, Transaction
from orchestration.verbs.orders import Undo
from orchestration.verbs.past import AskedPart, _narrowed
from spark_jobs.landing.client_tables import ClientTables
from spark_jobs.past.noted import PastBatch, Span

SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
ORDER = Undo(gtid=f"{SERVER}:2")


def at(offset: int) -> EntryPosition:
    return EntryPosition("bin.000001", offset)


class BinlogDouble:
    """Transactions of 100 bytes with these tables, numbered from 1 on."""

    def __init__(self, tables: Sequence[str], purged: bool = False) -> None:
        self.tables, self.purged = tables, purged

    def transactions(self, begin: EntryPosition, _end: EntryPosition, _after: EntryPosition) -> Iterator[Transaction]:
        if self.purged:
            raise PositionPurged("the journal was purged", place=str(begin), hint="")
        for number, names in enumerate(self.tables, 1):
            rows = {f"shop.{name}": RowCounts(updates=1) for name in names}
            yield Transaction(at(100 * number), f"{SERVER}:{number}", end=at(100 * number + 100), rows=rows)


def asked(binlog: BinlogDouble | None, *, only: bool = False, partial: bool = False) -> AskedPart:
    """Two batches, in which the transaction is."""
    notes = {"shop.a": {"net_rows": 1}, "shop.b": {"net_rows": 1}}
    batches = tuple(
        PastBatch(1, number, at(low), at(high), "", "", 1, 1, notes, NOW, partial=is_partial)
        for number, low, high, is_partial in ((7, 100, 250, True), (8, 250, 400, partial))
    )
    span = Span(1, at(100), at(400), batches, at(100), only=only)
    return AskedPart(cast(ClientTables, None), span, span.tables, "", cast("BinlogReader | None", binlog))


class TestTransaction:
    def test_one_of_several(self) -> None:
        """Of the tables that others changed too only the transaction's own part is undone; of another one all that its
        batches did."""
        found = _narrowed(asked(BinlogDouble(["a", "ab", "a"])), ORDER, "")
        assert (found.span.start, found.span.end, found.names) == (at(200), at(300), ["shop.a", "shop.b"])
        assert {table: (span.start, span.end) for table, span in found.wide.items()} == {"shop.b": (at(100), at(400))}

    def test_alone(self) -> None:
        """The batches with nothing else are undone whole, also where only GTIDs say that there is nothing else."""
        found = _narrowed(asked(BinlogDouble(["", "a", ""])), ORDER, "")
        assert (found.names, found.wide["shop.a"].numbers) == (["shop.a"], "7..8")
        for binlog in (None, BinlogDouble([], purged=True)):
            found = _narrowed(asked(binlog, only=True), ORDER, "why")
            assert (found.span.numbers, found.names, found.wide) == ("7..8", ["shop.a", "shop.b"], {})

    @pytest.mark.parametrize(
        ("part", "words"),
        [
            (asked(None), "cannot be separated from the others in its batches: why"),
            (
                asked(BinlogDouble([], purged=True)),
                "from the others in its batches: the journal was purged",
            ),
            (asked(BinlogDouble(["a"])), "binlog does not have the transaction"),
        ],
    )
    def test_refused(self, part: AskedPart, words: str) -> None:
        """What cannot be told apart is refused, with the batches to ask for."""
        with pytest.raises(ConfigError, match=words) as caught:
            _narrowed(part, ORDER, "why")
        assert "--batch 7..8" in caught.value.hint

    def test_not_all_merged(self) -> None:
        """A transaction of which a part is yet to come is refused."""
        with pytest.raises(ConfigError, match="not in the lake yet"):
            _narrowed(asked(BinlogDouble(["a", "a"]), partial=True), ORDER, "")
