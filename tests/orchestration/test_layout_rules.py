"""What defs.yaml can say about the layout of tables, and what it is refused for."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from orchestration.settings import Settings
from spark_jobs.lake.layout import Layout, Vectors


def settings(**keys: Any) -> Settings:
    return Settings(destination="shop", lake="/lake", **keys)


def test_tables_are_laid_out_by_patterns() -> None:
    """Values of YAML become Delta's texts; without keys every table is plain."""
    found = settings(
        deletion_vectors={"mode": "never", "tables": {"shop.big": "always"}},
        table_properties={"shop.*": {"delta.enableChangeDataFeed": True, "delta.checkpointInterval": 20}},
        cluster_by={"shop.big": ["customer_id"]},
        partition_by={"shop.events": ["day"]},
    ).layouts
    feed = {"delta.enableChangeDataFeed": "true", "delta.checkpointInterval": "20"}
    assert found.of("shop.big") == Layout(Vectors.ALWAYS, feed, ("customer_id",))
    assert found.of("shop.events") == Layout(Vectors.NEVER, feed, partition_by=("day",))
    assert settings(deletion_vectors="never").layouts.of("shop.a") == Layout(Vectors.NEVER)
    assert settings().layouts.of("shop.a") == Layout()


def test_times_that_are_long_enough_are_taken() -> None:
    """Whatever keeps commits and files for a week at least, in Delta's forms of a time."""
    for text in ("interval 30 days", "1 week", "INTERVAL 6 days 24 hours"):
        kept = {"delta.logRetentionDuration": text, "delta.deletedFileRetentionDuration": text}
        assert settings(table_properties={"shop.*": kept}).layouts.of("shop.a").properties == kept


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"deletion_vectors": "sometimes"}, "auto"),
        ({"table_properties": {"shop.*": {"sluice.fence": "x"}}}, "not a property of Delta's"),
        ({"table_properties": {"shop.*": {"delta.enableDeletionVectors": True}}}, "use deletion_vectors"),
        ({"table_properties": {"shop.*": {"delta.columnMapping.mode": "name"}}}, "Sluice sets"),
        ({"table_properties": {"shop.*": {"delta.appendOnly": True}}}, "apply: append"),
        ({"table_properties": {"a": {"delta.setTransactionRetentionDuration": "interval 1 hours"}}}, "get them again"),
        ({"table_properties": {"a": {"delta.settransactionretentionduration": "1 hour"}}}, "get them again"),
        ({"table_properties": {"a": {"delta.autoOptimize.autoCompact": "true"}}}, "a second commit"),
        ({"table_properties": {"a": {"delta.isolationLevel": "WriteSerializable"}}}, "Serializable"),
        (
            {"table_properties": {"a": {"delta.coordinatedCommits.commitCoordinator-preview": "x"}}},
            "replace each other",
        ),
        ({"table_properties": {"a": {"delta.enableRowTracking": True}}}, "reloaded"),
        ({"table_properties": {"a": {"delta.universalFormat.enabledFormats": "iceberg"}}}, "column mapping"),
        ({"table_properties": {"a": {"delta.somethingNew": True}}}, "not known"),
        ({"table_properties": {"a": {"delta.enablechangedatafeed": True}}}, "is spelled delta.enableChangeDataFeed"),
        ({"table_properties": {"a": {"delta.logRetentionDuration": "interval 1 day"}}}, "less than 7 days"),
        ({"table_properties": {"a": {"delta.deletedFileRetentionDuration": "6 days 23 hours"}}}, "less than 7 days"),
        ({"table_properties": {"a": {"delta.logRetentionDuration": "a year"}}}, "not a time"),
        ({"cluster_by": {"shop.orders": []}}, "names no column"),
        ({"cluster_by": {"shop.orders": ["a", "a"]}}, "names a column twice"),
        ({"cluster_by": {"shop.orders": ["a", "b", "c", "d", "e"]}}, "Delta takes 4"),
        ({"cluster_by": {"shop.orders": ["a"]}, "partition_by": {"shop.*": ["b"]}}, "one of the two"),
        ({"cluster_by": {"shop.*": ["a"]}, "partition_by": {"shop.orders": ["b"]}}, "one of the two"),
    ],
)
def test_what_no_table_can_have_is_refused(keys: dict[str, Any], said: str) -> None:
    """A layout that contradicts itself, or that Sluice cannot keep, fails when defs.yaml is loaded."""
    with pytest.raises(ValidationError, match=said):
        settings(**keys)
