"""orchestration.assets.metadata: what Dagster shows of a table."""

from __future__ import annotations

import dagster as dg

from cdc_core.position import EntryPosition
from cdc_core.rules.table_rule import TableRule
from cdc_core.schema.ddl import EffectKind
from orchestration.assets.metadata import column_lineage, ddl_metadata
from spark_jobs.apply.result import Followed
from tests.support.canal_double import ORDERS


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


def test_columns_come_from_the_source_columns() -> None:
    """A renamed column from that of the other name, a computed one from all that its expression has."""
    rule = TableRule(rename=(("note", "remark"),), computed=(("label", "CONCAT(CAST(id AS CHAR), note)"),))
    source = dg.AssetKey(["mysql", "shop", "shop", "orders"])

    found = column_lineage(rule.view(ORDERS), source).deps_by_column

    assert {name: [dep.column_name for dep in deps] for name, deps in found.items()} == {
        "id": ["id"],
        "remark": ["note"],
        "label": ["id", "note"],
    }
    assert {dep.asset_key for deps in found.values() for dep in deps} == {source}
