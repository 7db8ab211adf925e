"""spark_jobs.lake.writer: a lake has one writer. It needs no Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_core.contract.reached import How, Reached
from cdc_core.destination.rewind import RewindPlan, carry_out
from cdc_core.errors import LakeError
from cdc_core.meta.cursors import Cursors
from cdc_core.meta.file import FileNodes
from cdc_core.meta.nodes import MemoryNodes
from cdc_core.position import EntryPosition, LogPosition
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.writer import Writer, check_writer

AT = EntryPosition("bin.000003", 900)


def test_the_first_writer_is_noted_and_every_other_refused(tmp_path: Path) -> None:
    """Another service and another client are refused before their first batch; another destination is not."""
    lake = Lake(tmp_path)
    first = Writer("a" * 32, 1001)
    check_writer(lake, "shop", first, "sluice reset shop")
    check_writer(lake, "shop", first, "sluice reset shop")
    check_writer(lake, "stock", Writer("b" * 32, 1001), "sluice reset stock")
    with pytest.raises(LakeError, match=f"another service .* sluice reset shop --identity {'a' * 32} --yes"):
        check_writer(lake, "shop", Writer("b" * 32, 1001), "sluice reset shop")
    with pytest.raises(LakeError, match="client 1001 writes this lake, not client 1002"):
        check_writer(lake, "shop", Writer("a" * 32, 1002), "sluice reset shop")


def test_a_lake_without_a_writer_takes_the_first_that_comes(tmp_path: Path) -> None:
    """A lake of an older version is adopted. An older service, which has no identity, is let in."""
    ledger, reached = Ledger(Lake(tmp_path), "shop", 1001), Reached(How.START, 0, AT)
    assert ledger.check(0, reached) == ""
    assert ledger.check(0, reached, "a" * 32) == ""
    with pytest.raises(LakeError, match="another service"):
        ledger.check(0, reached, "b" * 32)


def test_the_identity_lives_as_long_as_the_cursors(tmp_path: Path) -> None:
    """A restart keeps it; a service that lost its cursors takes it over with the reset of the error's hint."""
    mine = Cursors(FileNodes(tmp_path / "meta.json"), "shop").identity()
    again = Cursors(FileNodes(tmp_path / "meta.json"), "shop")
    assert again.identity() == mine
    lost = Cursors(MemoryNodes(), "shop")
    assert lost.identity() != mine
    carry_out(lost, RewindPlan(LogPosition("db", 3306, AT), (), identity=mine))
    assert lost.identity() == mine
