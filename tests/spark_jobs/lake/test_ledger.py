"""spark_jobs.lake.ledger: what the lake notes, and when a cursor contradicts it. It needs no Spark."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from cdc_core.contract.claim import Claim
from cdc_core.contract.reached import How, Reached
from cdc_core.errors import LakeError
from cdc_core.gtid import GtidSet
from cdc_core.position import EntryPosition
from spark_jobs.lake import tidy
from spark_jobs.lake.continuity import EpochSpan
from spark_jobs.lake.doubt import Doubt
from spark_jobs.lake.ledger import Ledger, TableNote
from spark_jobs.lake.record import COPIED, CopyNote
from spark_jobs.lake.tables import Lake

SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def claim(end: int, epoch: int = 1, journal: int = 1) -> Claim:
    places = (
        EntryPosition("bin.000001", 4),
        EntryPosition(f"bin.{journal:06}", end, gtid=GtidSet.parse(f"{SERVER}:1-{end}")),
    )
    return Claim("d", 1, 7, *places, (), 2, 3, 4, (), epoch, "me", 0.0)


def acked(end: int, journal: int = 1) -> Reached:
    return Reached(How.BATCH, 1, EntryPosition(f"bin.{journal:06}", end))


def test_the_last_end_of_an_epoch_is_read_back(tmp_path: Path) -> None:
    """The order is by journal number and offset; epochs are separate."""
    ledger = Ledger(Lake(tmp_path), "d", 1)
    assert ledger.stretches() == {}
    assert ledger.note(claim(900), {"shop.t": TableNote(inserts=3)}, "run", 1.0)
    assert ledger.note(claim(100, journal=10), {}, "run", 2.0)
    assert ledger.note(claim(50, epoch=2), {}, "run", 3.0)
    start = EntryPosition("bin.000001", 4).version()
    assert ledger.stretches() == {
        1: EpochSpan(start, EntryPosition("bin.000010", 100)),
        2: EpochSpan(start, EntryPosition("bin.000001", 50)),
    }


def test_a_batch_is_noted_once(tmp_path: Path) -> None:
    """A replay up to the same or a lower end leaves no second row."""
    ledger = Ledger(Lake(tmp_path), "d", 1)
    assert ledger.note(claim(900), {}, "run", 1.0)
    assert not ledger.note(claim(900), {}, "again", 2.0)
    assert not ledger.note(claim(800), {}, "again", 2.0)
    assert DeltaTable(ledger.path).to_pyarrow_table().num_rows == 1


def test_a_stop_is_known_until_a_later_batch_changes_the_table(tmp_path: Path) -> None:
    """By the last batch alone, whatever came before it; also behind one that changed no table, and in a new epoch."""
    ledger = Ledger(Lake(tmp_path), "d", 1)
    assert ledger.stops() == {}
    ledger.note(claim(100), {"s.a": TableNote(stopped=True), 's."b': TableNote(stopped=True)}, "run", 1.0)
    ledger.note(claim(200), {}, "run", 2.0)
    assert {name: (stop.epoch, stop.version) for name, stop in ledger.stops().items()} == dict.fromkeys(
        ("s.a", 's."b'), (1, claim(100).end.version())
    )
    ledger.note(claim(150, epoch=2), {"s.a": TableNote(inserts=1)}, "run", 3.0)
    assert list(ledger.stops()) == ['s."b']
    ledger.note(claim(160, epoch=2), {"s.a": TableNote(stopped=True)}, "run", 4.0)
    assert ledger.stops()["s.a"].epoch == 2


def test_an_older_ledger_gets_the_stops(tmp_path: Path) -> None:
    """It has no column for them, and knows none."""
    ledger = Ledger(Lake(tmp_path), "d", 1)
    ledger.note(claim(100), {}, "run", 1.0)
    rows = pa.table(DeltaTable(ledger.path).to_pyarrow_table()).drop_columns(["stops"])
    write_deltalake(ledger.path, rows, mode="overwrite", schema_mode="overwrite")
    assert ledger.stops() == {}
    ledger.note(claim(200), {"s.a": TableNote(stopped=True)}, "run", 2.0)
    assert list(ledger.stops()) == ["s.a"]


@pytest.mark.in_turn
def test_its_files_do_not_pile_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a hundred batches the small files are gone a while later, and old commits with them; what it says stays."""
    monkeypatch.setattr(tidy, "EVERY", 10)
    monkeypatch.setattr(tidy, "_HOURS", 0)
    at_once = dict.fromkeys(tidy._PROPERTIES, "interval 0 days")
    monkeypatch.setattr(tidy, "_PROPERTIES", at_once)
    ledger = Ledger(Lake(tmp_path), "d", 1)
    for number in range(100, 200):
        assert ledger.note(claim(number), {}, "run", 1.0, {"shop.t": number})
    folder = Path(ledger.path)
    assert len(list(folder.glob("*.parquet"))) <= 10
    before = len(list(folder.glob("_delta_log/*.json")))
    there = DeltaTable(folder)
    there.create_checkpoint()
    there.cleanup_metadata()
    assert len(list(folder.glob("_delta_log/*.json"))) < before
    assert DeltaTable(folder).to_pyarrow_table().num_rows == 100
    assert ledger.version(1) == claim(199).end.version()
    assert ledger.landed("shop.t", 1, ledger.opened()) == {1: 199}


def test_a_doubt_stays_until_the_table_is_reloaded(tmp_path: Path) -> None:
    """The last note of a table; one that was made or copied later, is gone, or was renamed, has none."""
    lake = Lake(tmp_path)
    ledger = Ledger(lake, "d", 1)
    made = time.time()
    for table in ("t", "u"):
        write_deltalake(lake.path("shop", table), pa.table({"id": [1]}))
    first = Doubt(met=1, keys=("id=1",))
    second = first + Doubt(met=1, missed=3, keys=tuple(f"id={n}" for n in range(12)))
    assert (second.met, second.missed, len(second.keys)) == (2, 3, 10)
    ledger.note(claim(900), {"shop.t": TableNote(doubt=first), "shop.v": TableNote(doubt=first)}, "run", made + 10)
    ledger.note(claim(901), {"shop.t": TableNote(doubt=second), "shop.w": TableNote()}, "run", made + 11)
    ledger.note(claim(902), {"shop.u": TableNote(doubt=first)}, "run", made - 10)
    write_deltalake(lake.path("shop", "renamed"), pa.table({"id": [1]}))
    ledger.note(claim(903), {"shop.renamed": TableNote(doubt=first)}, "run", made + 12)
    assert ledger.doubts() == {"shop.t": second, "shop.renamed": first}
    ledger.note(claim(904), {"shop.renamed": TableNote(doubt=Doubt())}, "run", made + 13)
    assert ledger.doubts() == {"shop.t": second}
    low = EntryPosition("bin.000001", 900).version()
    copied = {COPIED: CopyNote(epoch=1, low=low, high=low).to_json()}
    DeltaTable(lake.path("shop", "t")).alter.set_table_properties(copied, raise_if_not_exists=False)
    assert ledger.doubts() == {"shop.t": second}


def test_a_cursor_ahead_of_the_ledger_is_an_error(tmp_path: Path) -> None:
    """What was acked must be in the lake; what is in the lake need not be acked."""
    ledger = Ledger(Lake(tmp_path), "d", 1)
    ledger.check(1, None)
    with pytest.raises(LakeError, match=r"has no batch of epoch 1"):
        ledger.check(1, acked(900))
    ledger.note(claim(900), {}, "run", 1.0)
    ledger.check(1, acked(900))
    ledger.check(1, acked(100))
    with pytest.raises(LakeError, match=r"acked to bin.000002:4, .* ends at bin.000001:900"):
        ledger.check(1, acked(4, journal=2))


def test_a_ledger_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """A file stands where the lake should be."""
    (tmp_path / "lake").write_text("")
    with pytest.raises(LakeError, match="ledger"):
        Ledger(Lake(tmp_path / "lake"), "d", 1).note(claim(900), {}, "run", 1.0)
