"""A table that keeps deleted rows, restored to a place between two merges of its log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.lake.own_columns import DELETED, LAST_OP
from spark_jobs.lake.row_rules import Deletes, LastChange, RowRules
from spark_jobs.lake.tables import Lake
from spark_jobs.past.asked import asked_position
from spark_jobs.undo.restore import LakePlace, Restorer
from tests.support.landed import LandedShop, opened_landed

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("deletes", Deletes)
def test_marks_and_last_changes_are_those_of_the_place(
    mysql8: MySqlServer, spark_remote: str, tmp_path: Path, deletes: Deletes
) -> None:
    """Also of changes that only the log had there: a row that it deleted is marked, or gone."""
    with opened_landed(mysql8, spark_remote, tmp_path) as shop:
        name = shop.named("t")
        rules = RowRules(deletes_by={name: deletes}, columns_by={name: (LastChange.OP, LastChange.POSITION)})
        shop.lake = replace(shop.lake, lake=Lake(tmp_path / "lake", complete=True, rules=rules))
        shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
        shop.execute("DELETE FROM t WHERE id = 1")
        assert shop.land() == []
        shop.merger().whole(name)
        shop.execute("UPDATE t SET v = 20 WHERE id = 2", "DELETE FROM t WHERE id = 3")
        assert shop.land() == []
        place = shop.connector.client_status().cursor
        assert place is not None
        shop.execute("INSERT INTO t VALUES (4, 4)", "DELETE FROM t WHERE id = 2")
        assert shop.land() == []
        shop.merger().whole(name)

        restorer = Restorer(shop.follows, shop.lake.sessions, "run")
        found = restorer.plan(str(place))
        assert found.tables[name].later
        shop.reset(place)
        epoch = shop.connector.client_status().epoch
        restorer.table(found.tables[name], LakePlace(epoch, asked_position(found.position)))

        marked = [(1, 1, "delete"), (3, 3, "delete")] if deletes is Deletes.SOFT else []
        assert _rows(shop) == sorted([(2, 20, "update"), *marked])
        assert shop.land() == []
        shop.merger().whole(name)
        assert shop.differences("t") == {"t": (0, 0, 0)}


def _rows(shop: LandedShop) -> list[tuple[int, int, str]]:
    there = shop.lake.lake.open(shop.lake.lake.path(shop.database, "t")).to_pyarrow_table().to_pylist()
    for row in there:
        assert row.get(DELETED, False) == (row[LAST_OP] == "delete"), row
        assert row["_sluice_position"], row
    return sorted((row["id"], row["v"], row[LAST_OP]) for row in there)
