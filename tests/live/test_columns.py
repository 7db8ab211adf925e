"""Columns, indexes and partitions that are out of the ordinary, from the binlog of MySQL into Delta."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from orchestration.stack.mysql.server import MySqlServer
from tests.support.shop import opened_shop

pytestmark = pytest.mark.integration

TABLE = """
    CREATE TABLE odd (
      `a b` INT COMMENT 'a blank', `c,d;{e}` VARCHAR(20), `x=y` INT INVISIBLE DEFAULT 5, `größe.t` DECIMAL(8,2),
      `back``tick` INT AS (`a b` * 2) STORED, j JSON, place POINT NOT NULL SRID 4326, PRIMARY KEY (`a b`),
      INDEX twice ((`a b` + `x=y`)), INDEX many ((CAST(j->'$.ids' AS UNSIGNED ARRAY))), SPATIAL INDEX there (place)
    ) COMMENT 'odd columns'"""
INSERT = (
    "INSERT INTO odd (`a b`, `c,d;{{e}}`, `größe.t`, j, place) VALUES "
    "({0}, 'row {0}', {0}.5, '{{\"ids\": [1,{0}]}}', ST_SRID(POINT({0}, 2), 4326))"
)


@pytest.mark.in_turn
def test_odd_columns_indexes_and_partitions_are_followed(
    mysql8: MySqlServer, spark_remote: str, tmp_path: Path
) -> None:
    """Names that need Delta's column mapping, functional and multi-valued indexes, invisible and stored columns, SRIDs,
    and a table that is repartitioned. Types, comments and order are the source's too."""
    with opened_shop(mysql8, spark_remote, tmp_path) as shop:
        shop.execute(
            TABLE,
            "CREATE TABLE parts (id INT PRIMARY KEY, v INT) PARTITION BY HASH (id) PARTITIONS 4",
            *(INSERT.format(number) for number in (1, 2, 3)),
            "INSERT INTO parts VALUES (1, 1), (2, 2), (3, 3)",
        )
        assert shop.drain() == []
        shop.execute(
            "UPDATE odd SET `c,d;{e}` = 'changed', `x=y` = 6 WHERE `a b` = 2",
            "UPDATE odd SET `a b` = 9, j = '{\"ids\": []}' WHERE `a b` = 3",
            "DELETE FROM odd WHERE `a b` = 1",
            "ALTER TABLE parts COALESCE PARTITION 2",
            "UPDATE parts SET v = v + 10",
            "ALTER TABLE parts REMOVE PARTITIONING",
            "INSERT INTO parts VALUES (4, 4)",
        )
        assert shop.drain() == []

        compared = {row.table.partition(".")[2]: row for row in shop.compared("odd", "parts")}
        log = DeltaTable(shop.lake.lake.path(shop.database, "odd"))

    assert {name: (row.differences, row.definition, row.error) for name, row in compared.items()} == {
        "odd": (0, (), ""),
        "parts": (0, (), ""),
    }
    assert log.metadata().configuration["delta.columnMapping.mode"] == "name"
