"""Small tables of every type, many at a time and each by itself: the same rows in the lake, to the last bit."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from cdc_core import config
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.lake.tables import Lake
from spark_jobs.load.loader import Loader
from spark_jobs.load.reader import Manner
from spark_jobs.load.result import Copied
from tests.support import matrix_characters, type_matrix
from tests.support.matrix_runs import grouped, make
from tests.support.quiet_source import quiet_source
from tests.support.shop import opened_shop

pytestmark = [pytest.mark.integration, pytest.mark.full]

_MODE = "SET SESSION sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'"
_SERVERS = ["mysql8", "mysql57", "mysql9", "mariadb"]


@pytest.mark.in_turn
@pytest.mark.parametrize("name", _SERVERS)
def test_both_ways_give_the_same_rows(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Edge values and random ones of each type, character sets, zero dates as NULL; without a key too. Columns, their
    comments, the table's and its properties are the same as well."""
    server: MySqlServer = request.getfixturevalue(name)
    families = (type_matrix.FAMILIES | type_matrix.OWN.get(name, {})).values()
    cases = [case for family in families for case in family(random.Random(name))]
    cases += [*type_matrix.zero_dates(random.Random(2)), *matrix_characters.samples(random.Random(1), charsets(server))]
    groups = grouped(cases)
    with server.database("values") as database:
        make(server, database, groups)
        for group in groups:
            server.execute(_MODE, *group.inserts(), database=database)
        server.execute(
            _MODE,
            "CREATE TABLE unkeyed LIKE t0",
            "ALTER TABLE unkeyed DROP PRIMARY KEY, COMMENT 'wi''thout'",
            "INSERT INTO unkeyed SELECT * FROM t0",
            database=database,
        )
        keys = {"canal_instance_filter_regex": rf"{database}\\..*", "sluice_zero_dates": "null"}
        with quiet_source(), opened_shop(server, "sc://127.0.0.1:1", tmp_path, **keys) as shop:
            instance, _ = config.load_instance(tmp_path / "conf", "shop")
            tables = [f"{database}.{table}" for table in (*(group.table for group in groups), "unkeyed")]
            together = Loader(shop.connector, instance, shop.lake.lake, shop.lake.sessions, Manner(read_on="driver"))
            alone = replace(together, lake=Lake(tmp_path / "other", complete=True))
            found = {loading.name: loading for loading in together.tables(tables)}
            assert [one.name for one in found.values() if one.seconds is None] == []
            assert all(isinstance(one.outcome(), Copied) for one in found.values())
            assert all(isinstance(alone.table(*table.split(".")), Copied) for table in tables)
            for table in tables:
                one, other = (known(loader.lake, *table.split(".")) for loader in (together, alone))
                assert one == other, table


def charsets(server: MySqlServer) -> list[str]:
    with server.root() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT character_set_name FROM information_schema.character_sets")
        return [row[0] for row in cursor.fetchall()]


def known(lake: Lake, database: str, table: str) -> dict[str, Any]:
    """What the lake has of a table: rows in an order, floats as their bits, moments as their numbers."""
    state, there = lake.state(lake.path(database, table), ""), DeltaTable(lake.path(database, table))
    assert state is not None
    rows = there.to_pyarrow_table()
    columns = {}
    for name in rows.column_names:
        values = rows[name].combine_chunks()
        if pa.types.is_floating(values.type) or pa.types.is_temporal(values.type):
            values = values.view(pa.int32() if values.type.bit_width == 32 else pa.int64())
        columns[name] = values.to_pylist()
    listed = sorted(zip(*columns.values(), strict=True), key=repr)
    ours = {key: value for key, value in state.properties.items() if "fence" not in key and "copied" not in key}
    return {"rows": listed, "columns": state.columns, "comment": state.comment, "properties": ours}
