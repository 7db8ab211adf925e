"""Change logs brought to the features that their columns need, by delta-rs alone."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.schema import Schema

from spark_jobs.changes.log_images import log_schema
from spark_jobs.following.pending import Follows
from spark_jobs.lake.state import DESTINATION, LOG, TABLE
from spark_jobs.lake.tables import Lake
from spark_jobs.maintain import logs
from spark_jobs.maintain.logs import LogUpkeep, Retention
from spark_jobs.maintain.result import Maintained

AT = pa.field("at", pa.timestamp("us"))
ID = pa.field("id", pa.int64())


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def made(lake: Lake, *columns: pa.Field) -> str:
    """The path of a log with one row, as versions of before wrote it: with a feature that not every reader has."""
    path, schema = lake.log_path("shop", "orders"), log_schema(pa.schema(columns))
    owner = {DESTINATION: "shop", TABLE: "shop.orders", LOG: "true"}
    fields = Schema.from_arrow(schema)
    DeltaTable.create(path, fields, configuration=owner, raise_if_key_not_exists=False)
    write_deltalake(path, _row(schema), mode="append")
    DeltaTable(path).alter.set_table_properties({"sluice.a": "1"}, raise_if_not_exists=False)
    return path


def _row(schema: pa.Schema) -> pa.Table:
    return pa.table({field.name: pa.nulls(1, field.type) for field in schema}, schema=schema)


def maintained(lake: Lake, *, readers: bool = True) -> Maintained:
    return LogUpkeep(Follows(lake, "shop", 1001), readers=readers).log("shop.orders", Retention())


def features(path: str) -> set[str]:
    return {*(DeltaTable(path).protocol().reader_features or ())}


def test_a_log_that_was_written_before_loses_the_feature(lake: Lake) -> None:
    """The feature that nothing needs goes, and no row; done again there is nothing to do. Rows can be appended."""
    path = made(lake, ID, AT)
    assert features(path) == {"timestampNtz", "variantType"}
    assert maintained(lake, readers=False).changed == ()
    found = maintained(lake)
    assert (found.left, found.changed, found.lasting) == ("", ("without variantType",), ())
    assert features(path) == {"timestampNtz"}
    assert len(DeltaTable(path).to_pandas()) == 1
    again = maintained(lake)
    assert (again.changed, again.before) == ((), again.after)
    write_deltalake(path, _row(log_schema(pa.schema([ID, AT]))), mode="append")
    assert len(DeltaTable(path).to_pandas()) == 2
    assert DeltaTable(path).metadata().configuration["sluice.a"] == "1"


def test_landing_goes_on_meanwhile(lake: Lake) -> None:
    """An append that began before is committed, and does not bring the feature back."""
    path = made(lake, ID, AT)
    appending = DeltaTable(path)
    assert maintained(lake).changed
    write_deltalake(appending, _row(log_schema(pa.schema([ID, AT]))), mode="append")
    assert features(path) == {"timestampNtz"}
    assert len(DeltaTable(path).to_pandas()) == 2


def test_a_log_without_datetimes_keeps_no_feature_for_them(lake: Lake) -> None:
    """The source dropped the column since; one of its own columns is an instant, which needs no feature."""
    path = made(lake, ID, AT)
    write_deltalake(path, _row(log_schema(pa.schema([ID]))), mode="overwrite", schema_mode="overwrite")
    assert maintained(lake).changed == ("without variantType, timestampNtz",)
    assert features(path) == set()
    assert len(DeltaTable(path).to_pandas()) == 1


def test_what_stays_is_said(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an object store, and where another run changed the log meanwhile; the rest is maintained."""
    made(lake, ID, AT)
    monkeypatch.setattr(logs, "without_features", lambda *_: False)
    assert maintained(lake).lasting == ("variantType stays: in an object store a change log keeps its features",)

    def lost(*_: object) -> bool:
        raise CommitFailedError("another commit made version 3")

    monkeypatch.setattr(logs, "without_features", lost)
    found = maintained(lake)
    assert found.lasting == ("variantType stays: another run changed the log meanwhile; run it again",)
    assert found.after is not None
