"""Staged files in the place of all files of a table that is there: one commit, on what was looked at or not at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction, write_deltalake
from deltalake.schema import PrimitiveType

from cdc_core.schema.table import Column, TableSchema
from spark_jobs.lake import properties
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.record import FOLLOWED, CopyNote, Mark
from spark_jobs.lake.state import DESTINATION, TABLE, UNFILLED, TableState
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.types import LakeColumn
from spark_jobs.load import adopt as adopting
from spark_jobs.load.adopt import adopt, adoptable, exchange, exchangeable
from spark_jobs.load.files import Files, files_of
from spark_jobs.load.replacement import Replacement, Target
from spark_jobs.load.result import LakeClient, WentOn
from spark_jobs.load.staging import Groups, Staging
from spark_jobs.session import Sessions
from spark_jobs.snapshot.chunk import Chunk
from tests.support.plain_lake import read

ROWS = pa.record_batch({"id": pa.array([1, 2, 3]), "v": pa.array(["a", None, "c"])})
OLD = pa.record_batch({"id": pa.array([1, 9]), "v": pa.array(["old", "gone"])})
COLUMNS = (LakeColumn("id", "bigint"), LakeColumn("v", "string", "a value"))
FIELDS = (Field("id", PrimitiveType("long")), Field("v", PrimitiveType("string"), metadata={"comment": "a value"}))
SOURCE = TableSchema("shop", "t", (Column("id", 8, 0), Column("v", 15, 0)), ("id",), comment="of the shop")
OWN = {DESTINATION: "bench", TABLE: "shop.t"}
MORE = {"delta.logRetentionDuration": "interval 99 days", FOLLOWED: "0:7"}


class Trial:
    """A table of two rows, entered by a run that has staged three others."""

    def __init__(self, folder: Path, properties: dict[str, str] | None = None, **how: Any) -> None:
        self.lake = Lake(folder / "lake")
        self.staging = Staging(self.lake, "bench", "5f1c")
        table, files = self.staging.table(ROWS.schema), Files(self.staging.path, {}, ROWS.schema)
        files.add(ROWS)
        self.staging.commit(table, files.end(), Groups().then([Chunk(0)]))
        fence = Fence(self.lake, Sessions("sc://127.0.0.1:1"))
        self.target = Target(self.lake, fence, LakeClient("bench", 1001, 2, ""), "shop", "t")
        made: dict[str, Any] = {"schema": Schema(list(FIELDS)), "description": "of the shop"} | how
        Path(self.target.path).mkdir(parents=True)
        DeltaTable.create(self.target.path, **made)
        self.append()
        self.table.alter.set_table_properties(OWN | MORE | (properties or {}), raise_if_not_exists=False)
        self.state = self.target.entered()
        self.new = Replacement(self.target, SOURCE, COLUMNS, self.state, CopyNote(2, 70, 90), Mark(2, 70, 70), "about")

    @property
    def table(self) -> DeltaTable:
        return self.lake.open(self.target.path)

    @property
    def present(self) -> TableState:
        state = self.lake.state(self.target.path, self.target.app)
        assert state is not None
        return state

    def append(self) -> None:
        """As others might."""
        schema, there = pa.schema(self.table.schema().to_arrow()), OLD.schema.names
        columns = [OLD.column(one.name) if one.name in there else pa.nulls(len(OLD), one.type) for one in schema]
        write_deltalake(self.target.path, pa.table(columns, schema.names).cast(schema), mode="append")

    def adopt(self, new: Replacement | None = None) -> None:
        staged = self.lake.open(self.staging.path)
        adopt(staged, self.staging.path, files_of(staged), new or self.new)

    def rows(self) -> list[dict[str, Any]]:
        return list(read(self.lake, self.target.path).to_pylist())


def test_one_commit_has_the_new_rows_and_none_of_the_old(tmp_path: Path) -> None:
    """With app id, mark and metadata. History and properties stay; the notes about the old rows go."""
    trial = Trial(tmp_path)
    before = trial.table
    assert adoptable(trial.lake.open(trial.staging.path), trial.new)
    trial.adopt()
    after = trial.lake.open(trial.target.path, before.version() + 1)
    assert after.to_pyarrow_table().to_pylist() == ROWS.to_pylist()
    assert after.transaction_version(trial.target.app) == 70
    assert all(pa.table(after.get_add_actions()).column("modification_time").to_pylist())
    assert after.metadata().configuration == before.metadata().configuration
    assert trial.target.committed("about") == after.version()
    now, state = trial.table, trial.lake.state(trial.target.path, trial.target.app)
    assert state is not None
    assert (now.version(), now.metadata().id) == (after.version() + 1, before.metadata().id)
    assert (state.copied, state.applied, state.followed) == (trial.new.note, 70, None)
    assert state.properties["delta.logRetentionDuration"] == "interval 99 days"
    assert trial.lake.open(trial.target.path, before.version()).to_pyarrow_table().num_rows == OLD.num_rows
    trial.staging.remove()
    assert trial.rows() == ROWS.to_pylist()


def test_it_is_done_again_after_a_kill(tmp_path: Path) -> None:
    """The same files once more, at the next mark."""
    trial = Trial(tmp_path)
    trial.adopt()
    trial.adopt(replace(trial.new, mark=Mark(2, 70, 71), metadata="again"))
    assert trial.rows() == ROWS.to_pylist()
    assert trial.table.transaction_version(trial.target.app) == 71
    state = trial.lake.state(trial.target.path, trial.target.app)
    assert state is not None
    assert state.applied == 70
    with pytest.raises(WentOn):
        trial.adopt()


def test_killed_before_its_properties_the_table_is_at_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had a batch that ended there, so that the commit has the number after it: the switch finds no other batch,
    and is done again."""
    trial = Trial(tmp_path)
    at = CommitProperties(app_transactions=[Transaction(trial.target.app, 70)])
    trial.table.alter.set_table_properties({"a batch": "70"}, raise_if_not_exists=False, commit_properties=at)
    with monkeypatch.context() as patch:
        patch.setattr(adopting, "_set_properties", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            trial.adopt(replace(trial.new, state=trial.present, mark=trial.target.mark(trial.present, 70)))
    assert trial.rows() == ROWS.to_pylist()
    assert (trial.present.applied, trial.present.copied) == (70, None)
    new = replace(trial.new, state=trial.present, mark=trial.target.mark(trial.present, 70), metadata="again")
    trial.adopt(new)
    assert trial.table.transaction_version(trial.target.app) == 72
    assert (trial.present.applied, trial.present.copied) == (70, new.note)


@pytest.mark.parametrize("other", ["commit", "fence"])
def test_a_table_that_went_on_is_not_touched(other: str, tmp_path: Path) -> None:
    """A commit since it was looked at, or another run that entered it."""
    trial = Trial(tmp_path)
    table = trial.table
    if other == "commit":
        trial.append()
    else:
        Fence(trial.lake, Sessions("sc://127.0.0.1:1")).enter(trial.target.path, trial.target.app, trial.state)  # type: ignore[arg-type]
        table = trial.table
    version = trial.table.version()
    with pytest.raises(WentOn):
        exchange(table, [], trial.new)
    assert trial.table.version() == version


@pytest.mark.parametrize("datetime", [False, True], ids=["by delta-rs", "by its own commit"])
def test_rows_that_come_after_the_mark_are_not_replaced(
    datetime: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run enters the table and writes it between the commits of the mark and of the files."""
    more = [("at", "timestamp_ntz")] if datetime else []
    trial = Trial(tmp_path, schema=Schema([*FIELDS, *(Field(name, PrimitiveType(kind)) for name, kind in more)]))
    columns = (*COLUMNS, *(LakeColumn(name, kind) for name, kind in more))
    where, name = (properties, "_written") if datetime else (adopting, "set_properties")
    commit = getattr(where, name)

    def followed(*how: Any) -> Any:
        done = commit(*how)
        monkeypatch.undo()
        Fence(trial.lake, Sessions("sc://127.0.0.1:1")).enter(trial.target.path, trial.target.app, trial.present)
        noted = CommitProperties(app_transactions=[Transaction(trial.target.app, 100)])
        write_deltalake(trial.table, trial.table.to_pyarrow_table(), mode="append", commit_properties=noted)
        return done

    monkeypatch.setattr(where, name, followed)
    with pytest.raises(WentOn):
        exchange(trial.table, [], replace(trial.new, columns=columns, mark=Mark(2, 70, 71)))
    assert len(trial.rows()) == 2 * OLD.num_rows
    assert trial.table.transaction_version(trial.target.app) == 100


def others(**fields: Any) -> Callable[[Trial], Replacement]:
    return lambda trial: replace(trial.new, **fields)


@pytest.mark.parametrize(
    ("how", "new"),
    [
        ({}, others(columns=(COLUMNS[0], LakeColumn("v", "string", "another value")))),
        ({}, others(columns=(COLUMNS[0], LakeColumn("v", "binary", "a value")))),
        ({}, others(schema=replace(SOURCE, comment="another"))),
        ({}, others(state=None)),
        ({"properties": {UNFILLED: '{"v": "1"}'}}, others()),
        ({"properties": {"sluice.dropped": "x"}}, others()),
        ({"properties": {"delta.appendOnly": "true"}}, others()),
        ({"properties": {"delta.enableChangeDataFeed": "true"}}, others()),
        ({"partition_by": ["v"]}, others()),
        ({"schema": Schema([Field("id", PrimitiveType("long"), nullable=False), FIELDS[1]])}, others()),
    ],
)
def test_what_is_left_to_spark(how: dict[str, Any], new: Callable[[Trial], Replacement], tmp_path: Path) -> None:
    """Another definition, rows that are not whole yet, and features that ask more of files."""
    trial = Trial(tmp_path, **how)
    assert not exchangeable(trial.table, new(trial))
