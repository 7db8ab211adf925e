"""What a run says of a table after its statement, from the table's log, without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake

from cdc_core.client.changes import PlanCounts, RowsDoor, TableRead
from cdc_core.errors import LakeError, TableStopped
from cdc_core.schema.table import Column, TableSchema
from spark_jobs.changes.table_changes import Changes, OfClaim
from spark_jobs.changes.version_range import VersionRange
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.state import FENCE, TableState
from spark_jobs.lake.tables import Lake
from spark_jobs.session import Sessions
from spark_jobs.write.by_statement import StatementWriter
from spark_jobs.write.preparation import Prepared
from spark_jobs.write.ready import ReadyTable

FIELDS = pa.schema({"id": pa.int64()})
TABLE = TableSchema("shop", "t", (Column("id", 8, 0),), ("id",))
CHANGES = Changes(
    TABLE,
    FIELDS,
    VersionRange(1, 10, 90),
    1,
    PlanCounts(),
    OfClaim(RowsDoor("grpc://h:1"), TableRead(FIELDS, TABLE, PlanCounts(), 1, (b"one",))),
)


@pytest.fixture
def writer(tmp_path: Path) -> StatementWriter:
    lake, sessions = Lake(tmp_path), Sessions("sc://127.0.0.1:1")
    return StatementWriter(sessions, lake, Fence(lake, sessions), "d")


@pytest.fixture
def ready(writer: StatementWriter) -> ReadyTable:
    path = writer.lake.path("shop", "t")
    token = {FENCE: writer.fence.token}
    DeltaTable.create(path, Schema.from_arrow(FIELDS), configuration=token, raise_if_key_not_exists=False)
    prepared = Prepared(TableState(0, None, (), {}), created=False, added_columns=())
    return ReadyTable("shop.t", path, "app", '{"version": 90}', CHANGES, prepared, 0.0)


def test_a_commit_with_the_note_is_its_outcome(writer: StatementWriter, ready: ReadyTable) -> None:
    """One of another try, with that version, is none of it."""
    app = [Transaction("app", 90)]
    other = CommitProperties(custom_metadata={"userMetadata": "other"}, app_transactions=app)
    write_deltalake(ready.path, pa.table({"id": [1]}), mode="append", commit_properties=other)
    assert writer.committed(ready) is None
    ours = CommitProperties(custom_metadata={"userMetadata": ready.note})
    write_deltalake(ready.path, pa.table({"id": [1, 2]}), mode="append", commit_properties=ours)
    outcome = writer.committed(ready)
    assert outcome is not None
    assert (outcome.version, outcome.inserted) == (2, 2)


def test_a_table_that_lacks_its_changes_after_all_stops(writer: StatementWriter, ready: ReadyTable) -> None:
    """The error names the remedy."""
    with pytest.raises(TableStopped, match="not at version 90 after its statement") as stopped:
        writer.committed(ready)
    assert "sluice copy" in stopped.value.hint


def test_one_that_is_another_runs_sends_the_batch_back(writer: StatementWriter, ready: ReadyTable) -> None:
    """It is not stopped: the run that has the claim now writes it. Nor is one that somebody moved away."""
    DeltaTable(ready.path).alter.set_table_properties({FENCE: "another's"}, raise_if_not_exists=False)
    with pytest.raises(LakeError, match="another run"):
        writer.committed(ready)
    Path(ready.path).rename(f"{ready.path}_away")
    with pytest.raises(LakeError, match="cannot be opened"):
        writer.fence.check(ready.path)
