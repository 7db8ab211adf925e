"""Rows whose image has no column at all, as real servers write them with MINIMAL images."""

from __future__ import annotations

from typing import Any

import pytest

from cdc_core.errors import TableStopped
from cdc_core.rows.net import plan_net, read
from orchestration.stack.mysql.server import MySqlServer
from tests.support.annotated import annotated
from tests.support.binlog_files import capture

pytestmark = pytest.mark.integration

MINIMAL = "SET SESSION binlog_row_image = MINIMAL"


@pytest.mark.parametrize("fixture", ["mysql8", "mysql57", "mysql9", "mariadb"])
def test_a_row_of_defaults_is_one_row(request: pytest.FixtureRequest, fixture: str) -> None:
    """`INSERT INTO t () VALUES ()` is one row, however many columns the table has. MariaDB logs the values."""
    server: MySqlServer = request.getfixturevalue(fixture)
    widths = (1, 8, 9, 17)
    with server.database() as db:
        tables = [f"{db}.t{width}" for width in widths]
        make = [_create(table, width) for table, width in zip(tables, widths, strict=True)]
        inserts = [f"INSERT INTO {table} {values}" for table in tables for values in ("() VALUES ()", "SET c0 = 7")]
        slices, registry = annotated(server, capture(server, *make, MINIMAL, *inserts, *inserts))
        found = {width: _rows(slices, registry, table) for width, table in zip(widths, tables, strict=True)}

    for width, rows in found.items():
        default = [f"c{n}" for n in range(width)] if fixture != "mariadb" else list(range(width))
        assert sorted(rows, key=str) == sorted(2 * [default, [7, *default[1:]]], key=str)


@pytest.mark.parametrize("fixture", ["mysql8", "mysql57", "mysql9", "mariadb"])
def test_a_key_that_is_left_to_its_default_stops_its_table(request: pytest.FixtureRequest, fixture: str) -> None:
    """The row's key is nowhere in the binlog. Another table of the range is read."""
    server: MySqlServer = request.getfixturevalue(fixture)
    with server.database() as db:
        create = f"CREATE TABLE {db}.t (id INT PRIMARY KEY DEFAULT 5, v INT DEFAULT 3)", _create(f"{db}.u", 3)
        insert = f"INSERT INTO {db}.t () VALUES ()", f"INSERT INTO {db}.u (c0) VALUES (1)"
        slices, registry = annotated(server, capture(server, *create, MINIMAL, *insert))

    with pytest.raises(TableStopped, match="lacks columns that identify its row") as caught:
        plan_net(slices, registry, f"{db}.t")
    assert "Name the key in every INSERT" in caught.value.hint
    assert len(_rows(slices, registry, f"{db}.u")) == 1


def _create(table: str, width: int) -> str:
    return f"CREATE TABLE {table} ({', '.join(f'c{n} INT DEFAULT {n}' for n in range(width))})"


def _rows(slices: Any, registry: Any, table: str) -> list[list[Any]]:
    """Each row's values; its name in place of a column that the image leaves out."""
    plan = plan_net(slices, registry, table)
    found = []
    for row in (row for batch in read(plan, 0) for row in batch.to_pylist()):
        values = [row[name] for name in row if name.startswith("c")]
        names = [name for name in row if name.startswith("c")]
        if plan.partial:
            values = [name if value is None else value["value"] for name, value in zip(names, values, strict=True)]
        found += [values] * row["_sluice_count"]
    return found
