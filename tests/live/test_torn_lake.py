"""A lake that lost the last commits of a table, as a power cut can leave it, although they were acked."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cdc_core import config
from orchestration.stack.mysql.server import MySqlServer
from tests.support.ddl_runs import Runs, differences
from tests.support.shop import Shop, opened_shop

pytestmark = pytest.mark.integration


def _torn(log: Path) -> None:
    """The last commit has its name and no bytes."""
    sorted(log.glob("*.json"))[-1].write_bytes(b"")


def _lost(log: Path) -> None:
    """The last commit has not even a name."""
    last = sorted(log.glob("*.json"))[-1].stem
    for file in log.glob(f"*{last}*"):
        file.unlink()


def _gone(log: Path) -> None:
    """Nothing of the table is there."""
    shutil.rmtree(log.parent)


@pytest.mark.in_turn(2)
@pytest.mark.parametrize("harm", [_torn, *(pytest.param(harm, marks=pytest.mark.full) for harm in (_lost, _gone))])
def test_a_table_that_lost_its_last_commit_is_copied(
    harm: Callable[[Path], None], mysql8: MySqlServer, spark_remote: str, tmp_path: Path
) -> None:
    """By the next run that comes to it, also where it is renamed first; a table that lost nothing is merged."""
    with opened_shop(mysql8, spark_remote, tmp_path) as shop:
        shop.execute(*(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)" for name in ("a", "b", "c")))
        runs = Runs(shop, config.load_instance(tmp_path / "conf", "shop")[0])
        for number in (1, 2):
            _insert(shop, number, "a", "b", "c")
            runs.drain(1000, copying=True)
        assert not runs.copied
        for name in ("a", "b"):
            harm(Path(shop.lake.lake.path(shop.database, name), "_delta_log"))
        shop.execute("RENAME TABLE b TO d")
        _insert(shop, 3, "a", "c", "d")
        runs.drain(1000, copying=True)
        assert runs.copied >= 2  # `b` may count as well: the source has it no more
        assert not runs.parked
        assert not differences(runs, [shop.database], [(shop.database, name) for name in ("a", "c", "d")])


def _insert(shop: Shop, number: int, *tables: str) -> None:
    shop.execute(*(f"INSERT INTO {name} VALUES ({number}, {number})" for name in tables))
