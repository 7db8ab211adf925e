"""spark_jobs.ledger: what the lake notes, and when a cursor contradicts it. No Spark needed."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from cdc_core.errors import LakeError
from cdc_core.position import EntryPosition
from cdc_core.session.claim import Claim
from spark_jobs.checks import TableResult
from spark_jobs.lake import Lake
from spark_jobs.ledger import Ledger, check_cursor


def claim(end: int, epoch: int = 1, journal: int = 1) -> Claim:
    places = EntryPosition("bin.000001", 4), EntryPosition(f"bin.{journal:06}", end, gtid=f"u:1-{end}")
    return Claim("d", 1, 7, *places, (), 2, 3, 4, (), epoch, "me", 0.0)


def test_the_last_end_of_an_epoch_is_read_back(tmp_path: Path) -> None:
    """Order is by journal number and offset; epochs are apart."""
    ledger = Ledger(Lake(tmp_path), "d", 1)
    assert ledger.last(1) is None
    assert ledger.note(claim(900), [TableResult("shop.t", inserts=3)], "run", 1.0)
    assert ledger.note(claim(100, journal=10), [], "run", 2.0)
    assert ledger.note(claim(50, epoch=2), [], "run", 3.0)
    assert ledger.last(1) == EntryPosition("bin.000010", 100)
    assert ledger.last(2) == EntryPosition("bin.000001", 50)
    assert ledger.last(3) is None


def test_a_batch_is_noted_once(tmp_path: Path) -> None:
    """A replay up to the same or a lower end leaves no second row."""
    ledger = Ledger(Lake(tmp_path), "d", 1)
    assert ledger.note(claim(900), [], "run", 1.0)
    assert not ledger.note(claim(900), [], "again", 2.0)
    assert not ledger.note(claim(800), [], "again", 2.0)
    assert DeltaTable(ledger.path).to_pyarrow_table().num_rows == 1


def test_a_cursor_ahead_of_the_ledger_is_an_error(tmp_path: Path) -> None:
    """What was acked must be in the lake; what is in the lake need not be acked."""
    ledger = Ledger(Lake(tmp_path), "d", 1)
    check_cursor(None, 1, ledger)
    with pytest.raises(LakeError, match=r"has no batch of epoch 1"):
        check_cursor(EntryPosition("bin.000001", 900), 1, ledger)
    ledger.note(claim(900), [], "run", 1.0)
    check_cursor(EntryPosition("bin.000001", 900), 1, ledger)
    check_cursor(EntryPosition("bin.000001", 100), 1, ledger)
    with pytest.raises(LakeError, match=r"acked to bin.000002:4, .* ends at bin.000001:900"):
        check_cursor(EntryPosition("bin.000002", 4), 1, ledger)


def test_a_ledger_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """A file where the lake should be."""
    (tmp_path / "lake").write_text("")
    with pytest.raises(LakeError, match="ledger"):
        Ledger(Lake(tmp_path / "lake"), "d", 1).note(claim(900), [], "run", 1.0)
