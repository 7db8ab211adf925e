"""spark_jobs.lake.record: what a table's properties say of its progress."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from spark_jobs.lake.copying import CopyNeeded
from spark_jobs.lake.record import FORM, MARKS, PROGRESS, REPAIRS, ROOM, Mark, Marks, app_versions
from spark_jobs.lake.state import TableState, app_id
from spark_jobs.lake.tables import Lake

MARK = Mark(1, at=100, upto=103)


@pytest.mark.parametrize(
    ("epoch", "version", "meant"),
    [*((1, version, 100) for version in (100, 101, 103)), (1, 104, 104), (1, 99, 99), (2, 102, 102), (1, None, None)],
)
def test_the_numbers_after_a_place_mean_it(epoch: int, version: int | None, meant: int | None) -> None:
    """Of that epoch alone, and no other version."""
    marks = Marks.of({MARKS: Marks({1: MARK}).to_json()})
    assert marks.applied(app_id("d", 1, "shop.t", epoch), version) == meant
    assert marks.applied(f"{app_id('d', 1, 'shop.t', epoch)}:cascade", version) == version


def test_a_table_of_no_batch_stays_one() -> None:
    """No version is below the first event's."""
    assert Mark(1, at=0, upto=2).meaning(2) is None


def test_each_commit_at_a_place_has_a_number_of_its_own() -> None:
    """Until the bytes of the shortest event are used up; some are left for a copy."""
    last: int | None = None
    for number in range(1, ROOM + 1):
        mark = Mark.next(1, 100, last)
        assert mark == Mark(1, 100, 100 + number)
        assert (Mark.next(1, 100, last, REPAIRS) is None) is (number > REPAIRS)
        last = mark.upto
    assert Mark.next(1, 100, last) is None


def test_the_state_of_a_table_knows(tmp_path: Path) -> None:
    """The version that is read back is that of the last batch. A later mark of another epoch changes nothing."""
    rows, path, app = pa.table({"id": [1]}), str(tmp_path / "t"), app_id("d", 1, "shop.t", 1)
    write_deltalake(path, rows, commit_properties=CommitProperties(app_transactions=[Transaction(app, 100)]))
    marks = Marks({}).with_mark(MARK).with_mark(Mark(2, 30, 31))
    DeltaTable(path).alter.set_table_properties({MARKS: marks.to_json()}, raise_if_not_exists=False)
    lake = Lake(tmp_path)
    for version, meant in ((102, 100), (103, 100), (150, 150)):
        noted = CommitProperties(app_transactions=[Transaction(app, version)])
        write_deltalake(path, rows, mode="append", commit_properties=noted)
        state = lake.state(path, app)
        assert state is not None
        assert state.applied == meant


def test_a_version_is_recorded_with_its_time(tmp_path: Path) -> None:
    """Delta's log has it in milliseconds: without it Spark may take the record for an old one."""
    before = time.time() * 1000 - 1
    noted = CommitProperties(app_transactions=app_versions({"one": 7, "other": 9}))
    write_deltalake(tmp_path, pa.table({"id": [1]}), commit_properties=noted)
    lines = map(json.loads, (tmp_path / "_delta_log" / f"{0:020}.json").read_text().splitlines())
    recorded = {line["txn"]["appId"]: line["txn"] for line in lines if "txn" in line}
    assert {app: one["version"] for app, one in recorded.items()} == {"one": 7, "other": 9}
    assert all(before < one["lastUpdated"] < time.time() * 1000 + 1 for one in recorded.values())


@pytest.mark.parametrize(("properties", "said"), [({}, "an older version"), ({PROGRESS: "7"}, "form 7")])
def test_another_form_is_refused(properties: dict[str, str], said: str) -> None:
    """With the remedy: the table is copied, which a run does by itself where it is small."""
    with pytest.raises(CopyNeeded, match=said) as caught:
        TableState(3, None, (), properties).check_form("shop.t")
    assert "sluice copy" in caught.value.hint
    TableState(3, None, (), {PROGRESS: FORM}).check_form("shop.t")
