"""spark_jobs.lake.repaired: repairs' versions of a table, and what they mean."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from spark_jobs.lake.repaired import REPAIRED, RepairNote
from spark_jobs.lake.tables import Lake

NOTE = RepairNote("app", at=100, mark=103)


@pytest.mark.parametrize(
    ("app", "version", "meant"),
    [
        *(("app", version, 100) for version in (100, 101, 103)),
        ("app", 104, 104),
        ("other", 102, 102),
        ("app", None, None),
    ],
)
def test_versions_of_repairs_mean_where_the_table_was(app: str, version: int | None, meant: int | None) -> None:
    """Of that app id alone, and no other version."""
    assert NOTE.applied(app, version) == meant


def test_a_table_of_no_batch_stays_one() -> None:
    """No version is below the first event's."""
    assert RepairNote("app", at=0, mark=2).applied("app", 2) is None


def test_the_state_of_a_table_knows(tmp_path: Path) -> None:
    """The version that is read back is that of the last batch."""
    rows, path = pa.table({"id": [1]}), str(tmp_path / "t")
    write_deltalake(path, rows, commit_properties=CommitProperties(app_transactions=[Transaction("app", 100)]))
    DeltaTable(path).alter.set_table_properties({REPAIRED: NOTE.to_json()}, raise_if_not_exists=False)
    lake = Lake(tmp_path)
    for version, meant in ((102, 100), (103, 100), (150, 150)):
        noted = CommitProperties(app_transactions=[Transaction("app", version)])
        write_deltalake(path, rows, mode="append", commit_properties=noted)
        state = lake.state(path, "app")
        assert state is not None
        assert state.applied == meant
