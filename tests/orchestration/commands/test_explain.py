"""`sluice explain`: what is asked, and how an explanation looks to people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

from cdc_core.position import EntryPosition
from cdc_core.reread.transaction import RowCounts, Transaction
from orchestration.cli import app
from orchestration.commands.explained import show
from spark_jobs.past.changed import ChangedRow
from spark_jobs.past.explain import Explained, TableExplained
from spark_jobs.past.noted import PastBatch, Span
from spark_jobs.past.versions import MadeVersion, MadeVersions

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
START, END = EntryPosition("mysql-bin.000007", 1547), EntryPosition("mysql-bin.000007", 2210)
GTID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
BATCH = PastBatch(0, 1795728000000123, START, END, f"{GTID}:1-23", "2f0c" * 9, 2, 1, {}, MOMENT)


def table(*rows: ChangedRow, origin: str = "versions", unknown: str = "") -> TableExplained:
    counts = {"inserts": 1, "updates": 1_000, "deletes": 0, "net_rows": 2}
    made = tuple(MadeVersion(number, "batch", 0, 1, (1, 1, 0)) for number in range(17, 26))
    return TableExplained("shop.orders", ("id",), counts, MadeVersions(made), origin, unknown, rows, more=True)


def printed(found: Explained, capsys: pytest.CaptureFixture[str]) -> list[str]:
    show(found, 20)
    return capsys.readouterr().out.splitlines()


class TestExplainText:
    def test_whole(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Batch, transactions, versions and rows, within 80 columns, and positions whole."""
        words = "UPDATE orders SET note = '\x1b[31m' " + "x" * 500
        one = Transaction(START, f"{GTID}:23", 1, END, MOMENT, [words], 3, {"shop.orders": RowCounts(1, 0, 2)})
        rows = [
            ChangedRow("update", {"id": 5, "note": "a" * 100, "same": 1}, {"id": 5, "note": None, "same": 1}),
            ChangedRow("insert", None, {"id": 6, "note": b"\1\2", "same": None}),
        ]
        lines = printed(Explained(Span(0, START, END, (BATCH,)), (one,), "", True, (table(*rows),), 4), capsys)
        shown = " ".join("\n".join(lines).split())
        assert max(map(len, lines)) <= 80
        for words in (
            "batch 1795728000000123, epoch 0", "from mysql-bin.000007:1547", "Transactions by the source's binlog",
            "mysql-bin.000007:1547 to 2210", f"{GTID}:23", "shop.orders: inserted 1, deleted 2", "3 further statements",
            "version 17, batch: rows inserted 1", "and 4 further versions, up to 25", "note=0102", "-> NULL",
            "updates 1,000", "and further rows", "4 further tables", "\\x1b",
        ):  # fmt: skip
            assert words in shown
        assert "same" not in shown
        assert "\x1b" not in shown

    @pytest.mark.parametrize(
        ("batches", "first"),
        [
            ((), "a batch that is claimed and not acked, epoch 0"),
            ((BATCH, BATCH), "2 batches, 1795728000000123 to 1795728000000123, epoch 0"),
        ],
    )
    def test_what_is_unknown(
        self, batches: Sequence[PastBatch], first: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Says what is explained, and what cannot be known."""
        unknown = table(origin="none", unknown="the commits are gone")
        found = Explained(Span(0, START, END, tuple(batches)), (), "the journal was purged", False, (unknown,), 0)
        lines = printed(found, capsys)
        assert lines[0] == first
        assert "Transactions unknown: the journal was purged" in lines
        assert "  rows unknown: the commits are gone" in lines


class TestAsked:
    @pytest.mark.parametrize("options", [[], ["--batch", "1", "--gtid", "a:1"]])
    def test_one_of_four(self, options: list[str]) -> None:
        """None, or two of them, is bad usage."""
        done = CliRunner().invoke(app, ["explain", "shop", "--lake", "/nowhere", *options])
        assert done.exit_code == 2
        assert "give one of --batch" in done.output
