"""Computed columns of a snapshot's rows, against the server's own values of the same expressions."""

from __future__ import annotations

import re
from contextlib import closing
from datetime import date
from random import Random
from typing import Any

import pytest

from cdc_core.rules.rules import Rules
from cdc_core.rules.table_rule import TableRule
from cdc_core.schema.information_schema import definition
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.snapshot.reading import read_rows
from spark_jobs.snapshot.source import Source, connect
from tests.support.random_expressions import CREATE, expression_for, row

pytestmark = pytest.mark.integration
_EXPRESSIONS, _ROWS = 60, 60
_MEMBER = re.compile(r"(doc->>'[^']*')")


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(1, 6))])
def test_expressions_have_the_values_that_the_server_gives(mysql8: MySqlServer, seed: int) -> None:
    """Where it neither warns nor converts: random ones, over random rows."""
    rng = Random(seed)
    source = Source(mysql8.host, mysql8.port, mysql8.user, mysql8.password)
    texts = [expression_for(rng) for _ in range(_EXPRESSIONS)]
    filled = f"INSERT INTO t VALUES {', '.join(row(rng, n) for n in range(_ROWS))}"
    with mysql8.database() as database, closing(connect(source)) as connection, connection.cursor() as cursor:
        mysql8.execute("SET sql_mode = ''", CREATE.format("t"), filled, database=database)  # an ENUM may be 0
        cursor.execute("SET NAMES utf8mb4 COLLATE utf8mb4_0900_bin")
        schema = definition(connection, database, "t")
        assert schema is not None
        rule = TableRule(computed=tuple((f"c{number}", text) for number, text in enumerate(texts)))
        seen = Rules({f"{database}.t": rule}).view(schema)
        assert not seen.defect, seen.defect
        found = [one for batch in read_rows(connection, seen, "fail") for one in batch.to_pylist()]
        ours = {one["id"]: one for one in found}
        cursor.execute("SET character_set_results = utf8mb4")
        for number, text in enumerate(texts):
            asked = _MEMBER.sub(r"(\1 COLLATE utf8mb4_0900_bin)", text)  # its own collation mixes with no other one
            cursor.execute(f"SELECT id, {asked} FROM {database}.t")
            for key, value in cursor.fetchall():
                mine = ours[key][f"c{number}"]
                assert _plain(mine) == _plain(value), (text, ours[key], value)


def _plain(value: Any) -> Any:
    """True and false are numbers in MySQL, NULLIF makes texts of its dates, and the driver's texts may be bytes."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, date):
        return str(value)
    return int(value) if isinstance(value, bool) else value
