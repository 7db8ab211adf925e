"""Distances over journals, and transactions as GTIDs count them."""

from __future__ import annotations

import pytest

from cdc_core.gtid import GtidSet, parse_gtid_field
from cdc_core.position import EntryPosition
from cdc_core.source.journals import BinaryLog, Journals
from cdc_core.source.transaction_count import transactions_after

A, B = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "4e11fa47-71ca-11e1-9e33-c80aa9429562"
JOURNALS = Journals(
    (BinaryLog("bin.000009", 100), BinaryLog("bin.000010", 200), BinaryLog("bin.000011", 50)),
    EntryPosition("bin.000011", 50),
)


def test_bytes_go_over_journals() -> None:
    """Whole journals between count whole; backwards is below 0; what is not there has no distance."""
    low, high = EntryPosition("bin.000009", 90), EntryPosition("bin.000011", 50)
    assert JOURNALS.distance(low, high) == 10 + 200 + 50
    assert JOURNALS.distance(high, low) == -260
    assert JOURNALS.distance(low, low) == 0
    assert JOURNALS.distance(EntryPosition("bin.000008", 4), high) is None
    assert (JOURNALS.index(low), JOURNALS.index(high)) == (0, 2)


@pytest.mark.parametrize(
    ("gtid", "executed", "before", "count"),
    [
        (f"{A}:5", f"{A}:1-9", f"{A}:1-3", 4),
        (f"{A}:9", f"{A}:1-9", "", 0),
        (f"{A}:5", f"{A}:1-9,{B}:1-7", f"{A}:1-3,{B}:1-7", 4),
        (f"{A}:5", f"{A}:1-9,{B}:1-7", f"{A}:1-3,{B}:1-6", None),
        (f"{A}:5", f"{A}:1-5:8-9", "", 2),
        (f"{A}:tag:2", f"{A}:tag:1-4", "", 2),
        (f"{A}:tag:2", f"{A}:1-4:tag:1-4", "", None),
        (f"{A}:1-5,{B}:1-2", f"{A}:1-9,{B}:1-7", "", 9),
        ("", f"{A}:1-9", "", None),
        (f"{A}:5", "", "", None),
        ("0-1-5", f"{A}:1-9", "", None),
    ],
)
def test_transactions_after_a_gtid(gtid: str, executed: str, before: str, count: int | None) -> None:
    """A set gives the exact count; one GTID gives it while one server alone wrote since the journal began."""
    found = transactions_after(parse_gtid_field(gtid), parse_gtid_field(executed), lambda: GtidSet.parse(before))

    assert found == count
