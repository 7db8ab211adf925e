"""spark_jobs.verify.definition: what a lake table's definition promises."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from cdc_core.rows.columns.batch import arrow_fields
from cdc_core.schema.information_schema import definition
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.lake.types import LakeColumn, lake_columns, spark_type
from spark_jobs.verify.definition import LakeDefinition, definition_differences, holds
from tests.support.judge.oracle import describe

COLUMNS = """
    id INT PRIMARY KEY COMMENT 'the key', u BIGINT UNSIGNED, i INT UNSIGNED, m MEDIUMINT UNSIGNED, t TINYINT UNSIGNED,
    b BOOL, f FLOAT, d DOUBLE, n DECIMAL(20,6) NOT NULL, big DECIMAL(65,2), b1 BIT(1), b9 BIT(9), b64 BIT(64), y YEAR,
    da DATE, ti TIME(6), dt DATETIME(6), ts TIMESTAMP(3) NULL, e ENUM('a','b'), s SET('a','b'), bi BINARY(3),
    vb VARBINARY(9), bl BLOB, tx TEXT CHARACTER SET latin1, ch CHAR(3), j JSON, g GEOMETRY, p POINT,
    g2 INT AS (id + 1) VIRTUAL, `a b` VARCHAR(9) COMMENT 'with ä blank'"""
ID, NAME = LakeColumn("id", "int", "the key"), LakeColumn("name", "string")


def test_equal_definitions_do_not_differ() -> None:
    """A wider type holds every value; NOT NULL stays at the source."""
    wider = LakeColumn("id", "bigint", "the key")

    assert definition_differences([ID, NAME], "c", LakeDefinition((ID, NAME), "c")) == ()
    assert definition_differences([ID, NAME], "c", LakeDefinition((wider, NAME), "c")) == ()


@pytest.mark.parametrize(
    ("lake", "words"),
    [
        (LakeDefinition((ID,)), "the lake has no column 'name'"),
        (LakeDefinition((ID, NAME, LakeColumn("old", "int"))), "the source has no column 'old'"),
        (LakeDefinition((LakeColumn("id", "smallint", "the key"), NAME)), "'id' is smallint in the lake, .* be int"),
        (LakeDefinition((LakeColumn("id", "int"), NAME)), "'id' has the comment '' in the lake, not 'the key'"),
        (LakeDefinition((NAME, ID)), "another order in the lake: name, id"),
        (LakeDefinition((ID, NAME), not_null=("id",)), "'id' refuses NULL in the lake"),
        (LakeDefinition((ID, NAME), "x"), "the table has the comment 'x' in the lake, not ''"),
    ],
)
def test_each_difference_is_reported(lake: LakeDefinition, words: str) -> None:
    """With what the lake has, and what it should have."""
    (found,) = definition_differences([ID, NAME], "", lake)

    assert re.search(words, found)


@pytest.mark.parametrize(
    ("wide", "narrow", "held"),
    [
        ("bigint", "tinyint", True),
        ("tinyint", "bigint", False),
        ("double", "float", True),
        ("float", "double", False),
        ("decimal(12,2)", "decimal(10,2)", True),
        ("decimal(12,4)", "decimal(10,2)", True),
        ("decimal(12,6)", "decimal(10,2)", False),
        ("string", "int", False),
    ],
)
def test_a_type_holds_those_that_are_narrower(wide: str, narrow: str, held: bool) -> None:
    """Within one family."""
    assert holds(wide, narrow) is held


@pytest.mark.integration
@pytest.mark.parametrize("fixture", ["mysql8", "mysql57", "mariadb"])
def test_the_oracle_gives_every_type_and_comment_as_the_lake_has_it(
    request: pytest.FixtureRequest, fixture: str
) -> None:
    """So that a table that Sluice made does not differ from its source."""
    server: MySqlServer = request.getfixturevalue(fixture)
    with server.database() as database:
        server.execute(f"CREATE TABLE t ({COLUMNS}) COMMENT 'it''s ä table'", database=database)
        with server.connect() as connection:
            schema = definition(connection, database, "t")
            oracle = describe(connection, database, "t")

    assert schema is not None
    made = LakeDefinition(lake_columns(pa.schema(arrow_fields(schema)), schema), schema.comment)
    ours = [LakeColumn(column.name, spark_type(column.type), column.comment) for column in oracle.columns]
    assert definition_differences(ours, oracle.comment, made) == ()
    assert made.comment == "it's ä table"
