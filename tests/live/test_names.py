"""Tables of any name, from the binlog of MySQL into Delta, compared with the source."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_core.schema.names import full_name
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.lake.folders import name_of
from tests.support.odd_names import ODD_NAMES
from tests.support.shop import opened_shop

pytestmark = pytest.mark.integration

DATABASE = "odd.größe/`x`"
WORST = ("a/../b", "a%2Fb", "${env:HOME}", "_delta_log", "注文" * 25)


@pytest.mark.parametrize("names", [WORST, pytest.param(ODD_NAMES, marks=pytest.mark.full)], ids=["worst", "all"])
def test_tables_of_any_name_arrive(
    mysql8: MySqlServer, spark_remote: str, tmp_path: Path, names: tuple[str, ...]
) -> None:
    """In a database of any name; their folders show the names, a comment is kept as it is, and each can be stopped."""
    fitting = [name for name in names if len(name.encode("utf-8")) < 160]  # MySQL's own names of files are longer
    column = "v INT COMMENT '${env:HOME}'"
    with opened_shop(mysql8, spark_remote, tmp_path, canal_instance_filter_regex="odd.*") as shop:
        tables = [f"{_quoted(DATABASE)}.{_quoted(name)}" for name in fitting]
        shop.execute(f"DROP DATABASE IF EXISTS {_quoted(DATABASE)}", f"CREATE DATABASE {_quoted(DATABASE)}")
        try:
            shop.execute(*(f"CREATE TABLE {table} (id INT PRIMARY KEY, {column})" for table in tables))
            shop.execute(*(f"INSERT INTO {table} VALUES (1, {n}), (2, {n})" for n, table in enumerate(tables)))
            assert shop.drain() == []
            shop.execute(*(f"UPDATE {table} SET v = v + 100 WHERE id = 1" for table in tables[::4]))
            assert shop.drain() == []

            clean = dict.fromkeys(fitting, (0, 0, 0))
            assert shop.differences(*fitting, database=DATABASE) == clean
            (database,) = [path for path in (tmp_path / "lake").iterdir() if path.name != "_sluice"]
            assert name_of(database.name) == DATABASE
            assert {name_of(path.name) for path in database.iterdir()} == set(fitting)
            there = shop.lake.lake.open(shop.lake.lake.path(DATABASE, fitting[0])).schema()
            assert there.fields[1].metadata["comment"] == "${env:HOME}"
            assert {table.name for table in shop.connector.tables()} == {full_name(DATABASE, name) for name in fitting}
        finally:
            shop.execute(f"DROP DATABASE {_quoted(DATABASE)}")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
