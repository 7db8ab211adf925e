"""Staged files that become a new table: its first commit, what is left of one that was killed, and files in the way."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pyarrow as pa
import pytest

from cdc_core.schema.table import Column, TableSchema
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.record import CopyNote, Mark
from spark_jobs.lake.state import DESTINATION
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.types import LakeColumn
from spark_jobs.load import adopt as room
from spark_jobs.load.adopt import adopt, adoptable, claim_own, remove_copies
from spark_jobs.load.files import Files, files_of
from spark_jobs.load.replacement import Replacement, Target
from spark_jobs.load.result import LakeClient, WentOn
from spark_jobs.load.staging import Groups, Staging
from spark_jobs.session import Sessions
from spark_jobs.snapshot.chunk import Chunk

ROWS = pa.record_batch({"id": pa.array([1, 2, 3]), "v": pa.array(["a", None, "c"])})
COLUMNS = (LakeColumn("id", "bigint"), LakeColumn("v", "string", "a value"))
TABLE = TableSchema("shop", "t", (Column("id", 8, 0), Column("v", 15, 0)), ("id",), comment="of before")


@pytest.fixture
def staging(tmp_path: Path) -> Staging:
    """Of three rows in one file."""
    staging = Staging(Lake(tmp_path / "lake"), "bench", "5f1c")
    table, files = staging.table(ROWS.schema), Files(staging.path, {}, ROWS.schema)
    files.add(ROWS)
    staging.commit(table, files.end(), Groups().then([Chunk(0)]))
    return staging


def replacement(staging: Staging, columns: tuple[LakeColumn, ...] = COLUMNS) -> Replacement:
    fence = Fence(staging.lake, Sessions("sc://127.0.0.1:1"))
    target = Target(staging.lake, fence, LakeClient("bench", 1001, 2, ""), "shop", "t")
    return Replacement(target, TABLE, columns, None, CopyNote(2, 70, 90), Mark(2, 70, 70), "about")


def adopted(staging: Staging, new: Replacement) -> None:
    staged = staging.lake.open(staging.path)
    adopt(staged, staging.path, files_of(staged), new)


def test_the_first_commit_has_everything_but_the_properties(staging: Staging) -> None:
    """All rows, comments, bounds, the table's app id at the copy's mark; the next one has the rest."""
    new = replacement(staging)
    assert adoptable(staging.lake.open(staging.path), new)
    adopted(staging, new)
    state = staging.lake.state(new.target.path, new.target.app)
    assert state is not None
    assert state.properties == new.properties
    assert "deletionVectors" not in (staging.lake.open(new.target.path).protocol().writer_features or ())

    table = staging.lake.open(new.target.path, 0)
    assert table.to_pyarrow_table().to_pylist() == ROWS.to_pylist()
    assert table.transaction_version(new.target.app) == 70
    assert table.metadata().description == "of before"
    assert [field.metadata for field in table.schema().fields] == [{}, {"comment": "a value"}]
    (file,) = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    assert (file["num_records"], file["min.id"], file["max.id"], file["null_count.id"]) == (3, 1, 3, 0)
    assert new.target.committed("about") == 0
    staging.remove()
    assert staging.lake.open(new.target.path, 0).to_pyarrow_table().num_rows == 3


def test_a_disk_without_links_gets_copies(staging: Staging, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rows; also where a switch that was killed had copied some."""
    monkeypatch.setattr(Path, "hardlink_to", lambda *_: (_ for _ in ()).throw(OSError("no links here")))
    new = replacement(staging)
    (name,) = (file.name for file in Path(staging.path).glob("*.parquet"))
    Path(new.target.path).mkdir(parents=True)
    Path(new.target.path, name).write_text("half a file")
    adopted(staging, new)
    assert Path(new.target.path, name).stat().st_nlink == 1
    assert staging.lake.open(new.target.path, 0).to_pyarrow_table().to_pylist() == ROWS.to_pylist()


def test_a_table_that_another_one_made_is_not_touched(staging: Staging) -> None:
    """The switch looks again."""
    new = replacement(staging)
    adopted(staging, new)
    with pytest.raises(WentOn):
        adopted(staging, new)
    assert staging.lake.open(new.target.path).version() == 1


def test_other_columns_are_not_adopted(staging: Staging) -> None:
    """Columns under numbers, or of other types."""
    table = staging.lake.open(staging.path)
    assert not adoptable(table, replacement(staging, (LakeColumn("id", "int"), COLUMNS[1])))
    assert not adoptable(table, replacement(staging, (LakeColumn("a,b", "bigint"), COLUMNS[1])))


def test_a_late_switch_leaves_the_files_of_the_table(staging: Staging) -> None:
    """One that stood still while another one made the table of the same files, and removed the staging."""
    new, rows = replacement(staging), staging.lake.open(staging.path)
    files = files_of(rows)
    adopted(staging, new)
    staging.remove()
    with pytest.raises(WentOn):
        adopt(rows, staging.path, files, new)
    remove_copies(new.target)
    assert all(Path(new.target.path, file.path).stat().st_size == file.size for file in files)


@pytest.mark.parametrize("epoch", [2, 4])
def test_a_table_without_properties_is_owned_by_its_app_id(
    staging: Staging, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, epoch: int
) -> None:
    """It is the one that a killed switch left, perhaps in an earlier epoch. Nobody else's table is taken."""
    new = replacement(staging)
    monkeypatch.setattr(room, "_set_properties", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        adopted(staging, new)
    claim_own(dataclasses.replace(new.target, client=LakeClient("bench", 1001, epoch)))
    state = staging.lake.state(new.target.path, new.target.app)
    assert state is not None
    assert (state.applied, state.properties[DESTINATION]) == (70, "bench")
    state.check_owner("bench", "shop.t", new.target.path)

    others = Staging(Lake(tmp_path / "lake"), "x", "1")
    claim_own(Target(staging.lake, new.target.fence, LakeClient("x", 1001, 2, ""), "shop", "t"))
    assert others.lake.state(new.target.path, "") == staging.lake.state(new.target.path, "")


def test_copies_that_are_in_the_way_are_removed(staging: Staging) -> None:
    """Those that were staged, and no other file."""
    new = replacement(staging)
    folder = Path(new.target.path)
    remove_copies(new.target)
    folder.mkdir(parents=True)
    (name,) = (file.name for file in Path(staging.path).glob("*.parquet"))
    for one in (name, "other.parquet"):
        (folder / one).write_text("x")
    remove_copies(new.target)
    assert [one.name for one in folder.iterdir()] == ["other.parquet"]
