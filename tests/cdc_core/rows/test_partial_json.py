"""Updates of parts of JSON documents (`binlog_row_value_options=PARTIAL_JSON`) against the text of the server."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from cdc_core.errors import TableStopped
from cdc_core.rows.net import plan_net, read
from orchestration.stack.mysql.server import MySqlServer
from tests.support.annotated import annotated
from tests.support.binlog_files import capture

pytestmark = pytest.mark.integration

DOCUMENT = (
    "JSON_OBJECT('n', {n}, 'text', REPEAT('é', 40), 'list', JSON_ARRAY(1, 2.5, NULL, 'x'), 'deep', "
    "JSON_OBJECT('a b', JSON_ARRAY(JSON_OBJECT('k', 1e30)), 'd', CAST('2024-02-29 01:02:03.5' AS DATETIME(3)), "
    "'m', CAST(12.50 AS DECIMAL(8,3)), 'q\"x', 18446744073709551615))"
)
PATHS = ("$.n", "$.list[1]", "$.list[2]", '$.deep."a b"[0].k', "$.deep.d", '$.deep."q\\\\"x"', "$.new", "$.list[9]")
VALUES = ("1", "-7", "NULL", "'short'", "REPEAT('ü\"', 20)", "CAST('[1, {\"z\": 2}]' AS JSON)", "true", "2.5e0", "1.25")


def updates(table: str, chance: random.Random, count: int) -> list[str]:
    """Updates in place and of several paths at once, of one document or of two; and some that are not partial."""
    made = []
    for _ in range(count):
        path, value = chance.choice(PATHS), chance.choice(VALUES)
        other = chance.choice(PATHS)
        change = chance.choice(
            (
                f"j = JSON_SET(j, '{path}', {value})",
                f"j = JSON_REPLACE(j, '{path}', {value}, '{other}', 3)",
                f"j = JSON_REMOVE(j, '{path}')",
                f"j = JSON_SET(JSON_REMOVE(j, '{path}'), '{other}', {value}), k = JSON_SET(k, '{path}', {value})",
                f"k = JSON_SET(k, '$', {value})",
                f"n = n + 1, j = {DOCUMENT.format(n='n')}",
                "k = NULL",
            )
        )
        made.append(f"UPDATE {table} SET {change} WHERE id % 3 = {chance.randrange(3)}")
    return made


def left(slices: Any, registry: Any, table: str) -> Counter[tuple[Any, ...]]:
    """Copies of each row that the log leaves behind, whole ones only."""
    plan = plan_net(slices, registry, table, None, 2)
    rows: Counter[tuple[Any, ...]] = Counter()
    for split in range(len(plan.splits)):
        for batch in read(plan, split):
            batch.validate(full=True)
            for row in batch.to_pylist():
                values = tuple(
                    v["value"] if isinstance(v, dict) else v for v in (row[n] for n in ("id", "n", "j", "k"))
                )
                rows[values] += row.get("_sluice_count", 2 - row.get("_sluice_op", 1))
    return +rows


@pytest.mark.parametrize("key", [", PRIMARY KEY (id)", ""])
@pytest.mark.parametrize("image", ["FULL", "NOBLOB"])
@pytest.mark.parametrize("server", ["mysql8", "mysql9"])
def test_documents_are_whole(server: str, image: str, key: str, request: pytest.FixtureRequest) -> None:
    """Set, replaced and removed parts give the text that the server casts the document to."""
    mysql: MySqlServer = request.getfixturevalue(server)
    chance = random.Random(f"{server}{image}{key}")
    with mysql.database() as database:
        table = f"{database}.t"
        documents = ", ".join(f"({i}, {i}, {DOCUMENT.format(n=i)}, {DOCUMENT.format(n=-i)})" for i in range(9))
        block = capture(
            mysql,
            f"SET SESSION binlog_row_image = {image}, SESSION binlog_row_value_options = PARTIAL_JSON, sql_mode = ''",
            f"CREATE TABLE {table} (id INT, n INT, j JSON, k JSON{key})",
            f"INSERT INTO {table} VALUES {documents}",
            *updates(table, chance, 120),
        )
        slices, registry = annotated(mysql, block)
        partial = int((block.index["type"] == 39).sum())
        with mysql.root() as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT id, n, CAST(j AS CHAR), CAST(k AS CHAR) FROM {table}")
            wanted = Counter(tuple(row) for row in cursor.fetchall())

        assert left(slices, registry, table) == wanted
        assert partial > 50


def test_a_change_without_its_document_stops_the_table(mysql8: MySqlServer) -> None:
    """A minimal before image lacks the document."""
    with mysql8.database() as database:
        block = capture(
            mysql8,
            f"CREATE TABLE {database}.t (id INT PRIMARY KEY, j JSON)",
            f"INSERT INTO {database}.t VALUES (1, {DOCUMENT.format(n=1)})",
            "SET SESSION binlog_row_image = MINIMAL, SESSION binlog_row_value_options = PARTIAL_JSON",
            f"UPDATE {database}.t SET j = JSON_SET(j, '$.n', 2)",
        )
        slices, registry = annotated(mysql8, block)

        with pytest.raises(TableStopped, match="lacks the document") as stopped:
            plan_net(slices, registry, f"{database}.t")

        assert "binlog_row_image=FULL" in stopped.value.hint
