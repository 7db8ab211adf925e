"""The batches of a ledger by number, position, GTID and time. It needs no Spark."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cdc_core.contract.claim import Claim
from cdc_core.errors import ConfigError
from cdc_core.gtid import GtidSet
from cdc_core.position import EntryPosition
from spark_jobs.lake.ledger import Ledger, TableNote
from spark_jobs.lake.tables import Lake
from spark_jobs.past.noted import PastBatches, Span, follows

SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
TEN = 10  # transactions of each batch, and seconds between two
BEGUN = datetime(2026, 1, 1, tzinfo=UTC)


def at(offset: int, journal: str = "bin.000001") -> EntryPosition:
    return EntryPosition(journal, offset)


def claim(number: int, epoch: int = 1) -> Claim:
    """The batch from `100 * number` on, with the ten transactions up to `10 * number`."""
    end = EntryPosition("bin.000001", 100 * number + 100, gtid=GtidSet.parse(f"{SERVER}:1-{TEN * number}"))
    return Claim("d", 1, number + 100 * epoch, at(100 * number), end, (), 2, 3, 4, (), epoch, "me", 0.0)


@pytest.fixture
def batches(tmp_path: Path) -> PastBatches:
    """Batches 101 to 105 of epoch 1; then 204 and 205, which repeat the last two."""
    ledger = Ledger(Lake(tmp_path), "d", 1)
    for number in range(1, 6):
        ledger.note(claim(number), {f"shop.t{number % 2}": TableNote(inserts=number)}, f"run{number}", noted(number))
    for number in (4, 5):
        ledger.note(claim(number, epoch=2), {}, "again", noted(number + 10))
    return PastBatches(ledger)


def noted(number: int) -> float:
    return (BEGUN + timedelta(seconds=TEN * number)).timestamp()


def numbers(span: Span) -> list[int]:
    return [batch.number for batch in span.batches]


class TestPastBatches:
    def test_by_number(self, batches: PastBatches) -> None:
        """One batch or several that follow each other."""
        one, several = batches.numbered(102, 102), batches.numbered(102, 104)
        assert (numbers(one), one.start, one.end) == ([102], at(200), at(300))
        assert (numbers(several), several.start, several.end) == ([102, 103, 104], at(200), at(500))
        assert several.tables == ["shop.t0", "shop.t1"]
        assert (numbers(batches.numbered(204, 999)), one.batches[0].run_id) == ([204, 205], "run2")
        with pytest.raises(ConfigError, match="no batch 7") as caught:
            batches.numbered(7, 7)
        assert "from 101 to 205" in caught.value.hint

    def test_several_epochs(self, batches: PastBatches) -> None:
        """Batches of several epochs are not one range: the error names the range of each."""
        for ask in (
            lambda: batches.numbered(103, 204),
            lambda: batches.ran_between(BEGUN + timedelta(seconds=30), BEGUN + timedelta(seconds=140)),
        ):
            with pytest.raises(ConfigError, match="of several epochs") as caught:
                ask()
            assert caught.value.hint.endswith("--batch 204 or --batch 103..105.")
        assert numbers(batches.ran_between(None, BEGUN + timedelta(seconds=50))) == [101, 102, 103, 104, 105]

    def test_by_position(self, batches: PastBatches) -> None:
        """The batch around a position, its end included, and the later one where it was repeated."""
        assert [numbers(batches.at(at(offset))) for offset in (101, 200, 201, 450)] == [[101], [101], [102], [204]]
        for unknown in (at(100), at(601), at(150, "other.000001")):
            with pytest.raises(ConfigError, match="no batch with the position"):
                batches.at(unknown)

    def test_by_position_of_several_servers(self, batches: PastBatches) -> None:
        """A position that two servers had is not guessed."""
        batches.ledger.note(replace(claim(3, epoch=3), moved=3), {}, "moved", noted(40))
        found = PastBatches(batches.ledger)
        with pytest.raises(ConfigError, match="several servers") as caught:
            found.at(at(350))
        assert caught.value.hint == "Ask for the batch: --batch 303 or --batch 103."
        assert numbers(found.at(at(450))) == [204]

    def test_by_gtid(self, batches: PastBatches) -> None:
        """The first batch at whose end the transaction was executed."""
        for number, expected in ((1, 101), (10, 101), (11, 102), ("20-20", 102), (50, 105)):
            assert numbers(batches.of_gtid(f"{SERVER}:{number}")) == [expected]
        with pytest.raises(ConfigError, match="no batch with the transaction"):
            batches.of_gtid(f"{SERVER}:51")
        for several in (f"{SERVER}:1,4e11fa47-71ca-11e1-9e33-c80aa9429562:1", f"{SERVER}:2-3"):
            with pytest.raises(ConfigError, match="not one transaction"):
                batches.of_gtid(several)

    def test_parts_of_a_transaction(self, batches: PastBatches) -> None:
        """All batches that have a part of the transaction, whether its GTID is noted with the first part or the last.
        GTIDs prove that there is no other in them, where one alone came since the batch before."""
        ledger = batches.ledger

        def part(number: int, gtid: str, *, partial: bool, count: int) -> None:
            one = claim(number, epoch=2)
            end = replace(one.end, gtid=GtidSet.parse(f"{SERVER}:{gtid}"))
            ledger.note(replace(one, end=end, partial=partial, transactions=count), {}, "run", noted(number + 10))

        part(6, "1-51", partial=True, count=0)
        part(7, "1-51", partial=True, count=0)
        part(8, "1-51", partial=False, count=1)
        part(9, "1-52", partial=True, count=1)
        part(10, "1-54", partial=False, count=2)
        part(11, "1-55", partial=True, count=0)
        found = PastBatches(ledger)
        for number, expected, only in (
            (51, [206, 207, 208], True), (52, [209, 210], False), (54, [209, 210], False), (55, [211], False)
        ):  # fmt: skip
            span = found.of_gtid(f"{SERVER}:{number}")
            assert (numbers(span), span.only, span.start) == (expected, only, at(100 * (expected[0] - 200)))

    @pytest.mark.parametrize(
        ("before", "after", "one"),
        [
            (f"{SERVER}:1-9", f"{SERVER}:1-10", True),
            (f"{SERVER}:1-9", f"{SERVER}:1-11", False),
            (f"{SERVER}:9", f"{SERVER}:10", True),
            (f"{SERVER}:9", f"{SERVER}:11", False),
            ("0-1-9", "0-1-10", True),
            ("0-1-9,1-1-5", "0-1-10,1-1-5", True),
            ("0-1-9,1-1-5", "0-1-10,1-1-6", False),
            ("0-1-9", "0-1-11", False),
            ("", "0-1-11", False),
        ],
    )
    def test_follows(self, before: str, after: str, one: bool) -> None:
        """Whether one transaction is between two places, by their GTIDs."""
        assert follows(before, after) is one

    def test_by_time(self, batches: PastBatches) -> None:
        """The first batch that ended at that time or later."""
        assert numbers(batches.ran_at(BEGUN + timedelta(seconds=25))) == [103]
        ledger = batches.ledger
        for number in (7, 8):  # in one second
            ledger.note(claim(number, epoch=3), {}, "run", noted(40))
        assert numbers(PastBatches(ledger).ran_at(BEGUN + timedelta(seconds=400))) == [307]
        with pytest.raises(ConfigError, match="no batch at or after"):
            batches.ran_at(BEGUN + timedelta(days=1))

    def test_without_a_ledger(self, tmp_path: Path) -> None:
        """A lake without a ledger is an error that says what to name."""
        with pytest.raises(ConfigError, match="no ledger"):
            PastBatches(Ledger(Lake(tmp_path), "other", 1)).numbered(1, 1)


class TestSpan:
    def test_part_of_a_table(self, batches: PastBatches) -> None:
        """The batches at the ends that have no rows of a table do not count for it."""
        part = batches.numbered(101, 105).of_table("shop.t0")
        assert (numbers(part), part.start, part.end) == ([102, 104], at(200), at(500))
        assert batches.numbered(101, 101).of_table("shop.t0").end == at(200)
