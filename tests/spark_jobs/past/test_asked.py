"""How somebody asks for a part of the past."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from cdc_core.contract.claim import Claim
from cdc_core.errors import ConfigError
from cdc_core.position import EntryPosition
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.tables import Lake
from spark_jobs.past.asked import AskedPast
from spark_jobs.past.noted import PastBatches


class TestAskedPast:
    @pytest.mark.parametrize(
        ("asked", "words"),
        [
            (AskedPast(batch="x"), "is not a batch"),
            (AskedPast(batch="1-2"), "is not a batch"),
            (AskedPast(batch="1" * 20), "is not a batch"),
            (AskedPast(position="bin:4"), "is not a position"),
            (AskedPast(position="bin.000001:99999999999999"), "does not fit"),
            (AskedPast(time="yesterday"), "is not a time"),
            (AskedPast(until="tomorrow"), "is not a time"),
        ],
    )
    def test_unreadable_text(self, asked: AskedPast, words: str, tmp_path: object) -> None:
        """A text that is not understood is an error that shows the form."""
        with pytest.raises(ConfigError, match=words) as caught:
            asked.span(PastBatches(Ledger(Lake(str(tmp_path)), "d", 1)))
        assert caught.value.hint

    def test_between_two_times(self, tmp_path: Path) -> None:
        """The batches that ended between two times, both included; without one of them from the first, or to the
        last."""
        ledger = Ledger(Lake(tmp_path), "d", 1)
        for number in range(1, 6):
            end = EntryPosition("bin.000001", 100 * number, timestamp=1_000 * number)
            start = EntryPosition("bin.000001", 100 * number - 100 or 4)
            claim = Claim("d", 1, number, start, end, (), 1, 1, 1, (), 0, "me", 0.0)
            ledger.note(claim, {}, "run", float(number))
        for since, until, numbers in ((2, 4, [2, 3, 4]), (4, None, [4, 5]), (None, 2, [1, 2])):
            times = [datetime.fromtimestamp(one, UTC).isoformat() if one else "" for one in (since, until)]
            found = AskedPast(since=times[0], until=times[1]).span(PastBatches(ledger))
            assert [one.number for one in found.batches] == numbers
        with pytest.raises(ConfigError, match="no batch that ended in that time"):
            AskedPast(since="2030-01-01").span(PastBatches(ledger))
