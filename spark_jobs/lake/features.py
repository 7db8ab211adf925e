"""Names of Delta's features and of the properties that bring them, and what a table's features say of its files.

Spark's workers import this module, so it does without Spark's client.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from deltalake import DeltaTable

VECTORS = "deletionVectors"
ENABLE_VECTORS = "delta.enableDeletionVectors"
FEED, CHANGE_FEED = "changeDataFeed", "delta.enableChangeDataFeed"
APPEND_ONLY = "delta.appendOnly"
MAPPING = "delta.columnMapping.mode"
BY_FEATURES = 7  # the protocol of writers that lists a table's features
BY_DELTA_RS = frozenset({"appendOnly", "invariants", "timestampNtz", "variantType"})  # those that it writes as Spark
_PLAIN_PROTOCOL = 2  # the last one of writers that asks nothing of files but their columns


def features_of(table: DeltaTable) -> frozenset[str]:
    """Returns the features that readers or writers of the table must know."""
    protocol = table.protocol()
    return frozenset([*(protocol.reader_features or ()), *(protocol.writer_features or ())])


def is_on(properties: Mapping[str, str], name: str) -> bool:
    """Whether a property is set to true, which Delta reads in capitals as well."""
    return properties.get(name, "").lower() == "true"


def takes_any_files(table: DeltaTable, known: Collection[str]) -> bool:
    """Whether a commit may replace the table's files by any others with its columns: it has no features but `known`
    ones, and a file needs no more than its name, size and number of rows."""
    writers, metadata = table.protocol().min_writer_version, table.metadata()
    if writers > _PLAIN_PROTOCOL and not (writers == BY_FEATURES and features_of(table) <= set(known)):
        return False
    if metadata.partition_columns or any(is_on(metadata.configuration, one) for one in (APPEND_ONLY, CHANGE_FEED)):
        return False
    return all(field.nullable and not field.metadata.keys() - {"comment"} for field in table.schema().fields)
