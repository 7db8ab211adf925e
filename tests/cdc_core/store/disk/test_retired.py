"""Retired definitions leave the directory: whatever is killed or comes back, a number means what it meant."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from cdc_core.binlog.block import Kind
from cdc_core.store.disk import numbers
from cdc_core.store.disk import volumes as disk
from cdc_core.store.disk.stored import StoredSegment
from cdc_core.store.disk.volumes import Volumes
from cdc_core.store.mark import Mark
from cdc_core.store.segment import Segment, segment
from tests.support.doubles import block, table, transaction
from tests.support.marks import mostly_full
from tests.support.volumes import Writer, opened

TABLES = 14
ROOM = str(Path(disk.__file__).parent)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbers, "_RETIRED", 2)


def write(path: Path, stored: Path | None = None, away: Path | None = None) -> None:
    """A transaction for each table, whose rows are as many as its name says. The first volumes go meanwhile, and the
    definitions that are left without one. `stored` gets the number of transactions, `away` gets each volume that was
    there."""
    writer = Writer(path, 400)
    for number in range(1, TABLES):
        rows = transaction(number, schema=writer.registry.intern(table(f"shop.t{number}")))
        writer.put_block(block(rows, start=writer.journal_end))
        if stored:
            stored.write_text(str(number))
        if away:
            shutil.copytree(path, away, dirs_exist_ok=True)
        writer.volumes.forget(writer.parts[max(number - 3, 0)].first.sequence)
        writer.registry.retire(writer.registry.numbers() - writer.volumes.schemas())
        writer.volumes.tidy()
    writer.volumes.close()


def meant(volumes: Volumes, parts: list[StoredSegment | Segment]) -> list[int]:
    """The numbers of the tables in what was found; each is the one whose rows they are."""
    registry, found = volumes._numbers._registry, []
    for part in parts:
        for row in part.block.index[part.block.index["kind"] == int(Kind.ROWS)]:
            found.append(int(row["rows"]))
            assert registry.get(int(row["schema"])).name == f"shop.t{row['rows']}"
    return found


def goes_on(path: Path, volumes: Volumes, parts: list[StoredSegment | Segment]) -> None:
    """A definition that is new gets a number that none of these has, also after another start."""
    known = meant(volumes, parts)
    number = volumes._numbers._registry.intern(table("shop.t99"))
    end = parts[-1].at(parts[-1].end) if parts else Mark()
    if parts and isinstance(parts[-1], Segment):
        volumes.append(parts[-1])
    start = parts[-1].block.end if parts else 4
    volumes.append(segment(block(transaction(99, schema=number), start=start), end))
    volumes.tidy()
    volumes.close()
    again, found = opened(path, 400)
    assert meant(again, found) == [*known, 99]
    again.close()


def lines(path: Path, dies_at: int) -> int:
    """Writes, and is killed at that line of the store on disk. How many it ran."""
    seen = 0

    def look(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal seen
        if not frame.f_code.co_filename.startswith(ROOM):
            return None
        seen += event == "line"
        if seen == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return look

    before = sys.gettrace()
    sys.settrace(look)
    try:
        write(path, path.with_suffix(".stored"))
    finally:
        sys.settrace(before)
    return seen


def test_definitions_go_and_what_is_left_means_what_it_meant(tmp_path: Path) -> None:
    """Most leave the file; the volumes that are left are read by the others."""
    write(tmp_path / "a")
    kept = (tmp_path / "a" / "definitions").read_text()
    assert kept.count("shop") < TABLES / 2
    volumes, parts = opened(tmp_path / "a", 400)
    assert meant(volumes, parts)[-1] == TABLES - 1
    goes_on(tmp_path / "a", volumes, parts)


@pytest.mark.parametrize("kills", mostly_full([80, 400], lambda kills: kills == 80, days=2))
def test_a_kill_at_any_line(tmp_path: Path, kills: int) -> None:
    """What was stored and not forgotten is found, and the directory can be written on."""
    count = lines(tmp_path / "model", -1)
    for one in range(kills):
        path = tmp_path / str(one)
        child = os.fork()
        if not child:
            lines(path, 1 + count * one // kills)
            os._exit(0)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
        stored = path.with_suffix(".stored")
        told = int(stored.read_text()) if stored.exists() else 0
        volumes, parts = opened(path, 400)
        found = meant(volumes, parts)
        assert found == list(range(found[0], found[-1] + 1)) if found else not told
        assert not told or found[0] <= max(told - 2, 1) <= told <= found[-1]
        goes_on(path, volumes, parts)


def test_files_that_were_removed_come_back(tmp_path: Path) -> None:
    """A power cut brings back volumes with definitions that are retired, one or all, or an older file of definitions.
    Nothing is read with another definition."""
    write(tmp_path / "model", away=tmp_path / "away")
    left = {one.name for one in (tmp_path / "model").iterdir()}
    gone = sorted(one.name for one in (tmp_path / "away").glob("*.volume") if one.name not in left)
    assert len(gone) > 5
    for number, names in enumerate([*([name] for name in gone), gone, [*gone, "definitions"], ["definitions"]]):
        path = tmp_path / str(number)
        shutil.copytree(tmp_path / "model", path)
        for name in names:
            shutil.copy(tmp_path / "away" / name, path / name)
        volumes, parts = opened(path, 400)
        found = meant(volumes, parts)
        assert found[-1] == TABLES - 1 or "definitions" in names
        goes_on(path, volumes, parts)
