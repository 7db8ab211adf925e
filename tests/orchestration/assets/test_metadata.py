"""orchestration.assets.metadata: what Dagster shows of a table."""

from __future__ import annotations

from cdc_core.position import EntryPosition
from cdc_core.schema.ddl import EffectKind
from orchestration.assets.metadata import ddl_metadata
from spark_jobs.apply.result import Followed


def test_statements_are_shown_by_table() -> None:
    """The last one's kind and position, and the text and outcome of each."""
    first, second = EntryPosition("bin.000001", 100), EntryPosition("bin.000001", 200)
    found = ddl_metadata(
        [
            Followed("shop.a", "drop", "DROP TABLE a, b", first, "kept"),
            Followed("shop.b", "drop", "DROP TABLE a, b", first, "kept"),
            Followed("shop.a", EffectKind.CREATE, "CREATE TABLE a (i int)", second, "made again"),
        ]
    )
    assert type(found["shop.a"]["ddl"]) is str  # Dagster refuses an enumeration
    assert found["shop.a"] == {
        "ddl": "create",
        "ddl_position": "bin.000001:200",
        "ddl_statements": [
            "bin.000001:100: DROP TABLE a, b (kept)",
            "bin.000001:200: CREATE TABLE a (i int) (made again)",
        ],
    }
    assert found["shop.b"]["ddl"] == "drop"
