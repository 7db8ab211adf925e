"""Properties are set without a feature that readers lack, and no other commit is overwritten."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.schema import PrimitiveType

from spark_jobs.lake import properties
from spark_jobs.lake.properties import set_properties, without_features

ROW = pa.table({"id": pa.array([1], pa.int64()), "at": pa.array([0], pa.timestamp("us"))})


@pytest.fixture(params=["table", "an odd ü name"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The path of a table with a DATETIME, without rows."""
    found = str(tmp_path / request.param)
    at = Field("at", PrimitiveType("timestamp_ntz"), metadata={"comment": "it's"})
    schema = Schema([Field("id", PrimitiveType("long")), at])
    DeltaTable.create(
        found,
        schema,
        partition_by=["id"],
        description="orders",
        configuration={"sluice.a": "0"},
        raise_if_key_not_exists=False,
    )
    return found


def features(path: str) -> set[str]:
    return set(DeltaTable(path).protocol().reader_features or ())


def test_a_table_with_datetimes_keeps_its_features(path: str) -> None:
    """delta-rs reads it with pandas; all of its definition is as before."""
    before = DeltaTable(path)
    write_deltalake(path, ROW, mode="append")
    for number in range(3):
        set_properties(DeltaTable(path), {"sluice.a": str(number), "sluice.b": "ü"})

    after = DeltaTable(path)
    assert features(path) == {"timestampNtz"}
    assert len(after.to_pandas()) == 1
    assert after.metadata().configuration == {"sluice.a": "2", "sluice.b": "ü"}
    assert after.schema() == before.schema()
    for name in ("id", "name", "description", "partition_columns", "created_time"):
        assert getattr(after.metadata(), name) == getattr(before.metadata(), name)


def test_a_commit_has_its_note_and_its_versions(path: str) -> None:
    """Properties come in one commit, with the app versions and the note of its order."""
    noted = CommitProperties(custom_metadata={"userMetadata": "why"}, app_transactions=[Transaction("app", 7)])
    set_properties(DeltaTable(path), {"sluice.b": "1"}, noted)

    table = DeltaTable(path)
    assert table.transaction_version("app") == 7
    assert table.history(1)[0]["userMetadata"] == "why"
    assert table.history(1)[0]["operation"] == "SET TBLPROPERTIES"


def test_it_is_committed_after_rows_of_another_writer(path: str) -> None:
    """Rows that were appended meanwhile are no conflict."""
    table = DeltaTable(path)
    write_deltalake(path, ROW, mode="append")
    set_properties(table, {"sluice.b": "1"})

    assert (DeltaTable(path).version(), len(DeltaTable(path).to_pandas())) == (2, 1)
    assert DeltaTable(path).metadata().configuration["sluice.b"] == "1"


def test_a_definition_that_changed_meanwhile_is_not_overwritten(path: str) -> None:
    """Metadata that another writer has changed is a conflict."""
    table = DeltaTable(path)
    set_properties(DeltaTable(path), {"sluice.a": "another's"})
    with pytest.raises(CommitFailedError):
        set_properties(table, {"sluice.b": "1"})
    assert DeltaTable(path).metadata().configuration == {"sluice.a": "another's"}


@pytest.mark.parametrize(
    "noted",
    [CommitProperties(max_commit_retries=0), CommitProperties(app_transactions=[Transaction("app", 7)])],
    ids=["at the version", "with a version of an app"],
)
def test_a_commit_at_its_version_is_not_made_later(path: str, noted: CommitProperties) -> None:
    """A commit that must come at one version fails if somebody else has taken it."""
    table = DeltaTable(path)
    write_deltalake(path, ROW, mode="append")
    with pytest.raises(CommitFailedError):
        set_properties(table, {"sluice.b": "1"}, noted)
    assert "sluice.b" not in DeltaTable(path).metadata().configuration


def test_the_table_is_left_at_the_version_of_the_commit(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others that commit right after it are not seen, so that what is committed on that version is refused."""
    table = DeltaTable(path)
    with monkeypatch.context() as patch:
        patch.setattr(properties, "_written", followed(path))
        set_properties(table, {"sluice.b": "1"})
    assert (table.version(), DeltaTable(path).version()) == (1, 2)
    once = CommitProperties(max_commit_retries=0)
    with pytest.raises(CommitFailedError):
        table.create_write_transaction([], "overwrite", table.schema(), commit_properties=once)
    assert len(DeltaTable(path).to_pandas()) == 1


def followed(path: str) -> Callable[[Path, int, str], bool]:
    """Returns what writes a commit, which another writer's rows follow at once."""
    write = properties._written

    def then(folder: Path, version: int, actions: str) -> bool:
        done = write(folder, version, actions)
        write_deltalake(path, ROW, mode="append")
        return done

    return then


def test_a_writer_that_began_before_is_refused(path: str) -> None:
    """A merge and an append, as by any change of a table's metadata."""
    write_deltalake(path, ROW, mode="append")
    merging, appending = DeltaTable(path), DeltaTable(path)
    set_properties(DeltaTable(path), {"sluice.a": "1"})
    with pytest.raises(CommitFailedError):
        merging.merge(ROW, "t.id = s.id", "s", "t").when_matched_delete().execute()
    with pytest.raises(CommitFailedError):
        write_deltalake(appending, ROW, mode="append")
    assert len(DeltaTable(path).to_pandas()) == 1


def test_the_log_gets_its_checkpoints(path: str) -> None:
    """Commits of properties alone write checkpoints too."""
    for number in range(12):
        set_properties(DeltaTable(path), {"sluice.a": str(number)})
    assert list(Path(path, "_delta_log").glob("*.checkpoint.parquet"))
    assert DeltaTable(path).metadata().configuration["sluice.a"] == "11"
    assert not list(Path(path, "_delta_log").glob("*.tmp"))


def test_drafts_of_killed_writers_go(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a checkpoint, when they are old; one of a writer that is at work stays."""
    log = Path(path, "_delta_log")

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "hardlink_to", killed)
        patch.setattr(Path, "unlink", killed)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                set_properties(DeltaTable(path), {"sluice.a": "x"})
    old, new = log.glob("*.tmp")
    os.utime(old, (0, 0))
    for number in range(12):
        set_properties(DeltaTable(path), {"sluice.a": str(number)})
    assert list(log.glob("*.tmp")) == [new]


def test_a_table_without_features_stays_as_it_was(tmp_path: Path) -> None:
    """A change of properties adds no feature to a table."""
    write_deltalake(tmp_path, pa.table({"id": [1]}))
    set_properties(DeltaTable(tmp_path), {"sluice.a": "1"})
    protocol = DeltaTable(tmp_path).protocol()
    assert (protocol.min_reader_version, protocol.reader_features) == (1, None)
    assert DeltaTable(tmp_path).metadata().configuration == {"sluice.a": "1"}


def test_a_property_that_brings_a_feature_is_left_to_delta_rs(path: str) -> None:
    """One that brings none is not, whatever it is about."""
    set_properties(DeltaTable(path), {"delta.enableDeletionVectors": "false", "delta.checkpointInterval": "5"})
    assert features(path) == {"timestampNtz"}
    set_properties(DeltaTable(path), {"delta.enableChangeDataFeed": "true"})
    assert "changeDataFeed" in (DeltaTable(path).protocol().writer_features or ())


def test_a_feature_that_nothing_needs_goes(path: str) -> None:
    """delta-rs adds one with its own change of properties, which not every reader has. Rows stay."""
    write_deltalake(path, ROW, mode="append")
    DeltaTable(path).alter.set_table_properties({"sluice.a": "1"}, raise_if_not_exists=False)
    assert "variantType" in features(path)
    assert len(DeltaTable(path).to_pandas()) == 1
    assert without_features(DeltaTable(path), ["variantType"])
    assert features(path) == {"timestampNtz"}
    assert len(DeltaTable(path).to_pandas()) == 1
    write_deltalake(path, ROW, mode="append")
    assert DeltaTable(path).metadata().configuration["sluice.a"] == "1"
