"""Rows that the lake cannot hold stop their table when a claim is read. Nothing else notices."""

from __future__ import annotations

import pytest

from cdc_core.contract.stopped_table import StoppedTable
from cdc_core.rows.columns import batch
from tests.bad_input.world import World

pytestmark = pytest.mark.integration


def stopped(world: World) -> StoppedTable:
    """The one stopped table, after a run that worked. Its destination is well."""
    world.read()
    assert world.run().success
    (stop,) = world.connector().client_status().stopped
    assert (world.status()["state"], world.status()["error"]) == ("running", None)
    return stop


@pytest.mark.in_turn
@pytest.mark.parametrize("key", ["PRIMARY KEY", ""], ids=["sent with the statement", "pulled by Spark"])
def test_a_zero_date(world: World, spark_remote: str, key: str) -> None:
    """The reason has the position, the value and the remedy; rows of another table arrive."""
    world.spark = spark_remote
    world.write_defs()
    world.sql(f"CREATE TABLE visits (id INT {key}, at DATETIME)", "INSERT INTO orders VALUES (1, 'fine')")
    journal, _ = world.mysql.position()
    world.sql("SET SESSION sql_mode = ''", "INSERT INTO visits VALUES (1, '0000-00-00')")

    stop = stopped(world)

    assert stop.table == f"{world.databases['shop']}.visits"
    assert all(part in stop.reason for part in ("zero", "0000-00-00 00:00:00", f"{journal}:"))
    assert "source" in stop.hint
    assert [row["id"] for row in world.rows()] == [1]
    world.other_goes_on()


def test_an_unknown_type(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A type without a place in the lake stops its table; the others come. GEOMETRY plays the unknown type."""
    monkeypatch.delitem(batch._FAMILIES, 255)
    world.sql("CREATE TABLE places (id INT PRIMARY KEY, at POINT NOT NULL)")
    world.sql("INSERT INTO places VALUES (1, ST_GeomFromText('POINT(1 1)'))")

    stop = stopped(world)

    assert stop.table == f"{world.databases['shop']}.places"
    assert "type 255 is not supported" in stop.reason
    assert "canal.instance.filter.black.regex" in stop.hint
    world.sql("INSERT INTO orders VALUES (1, 'fine')")
    assert world.drain() == [(1, "fine")]
    world.other_goes_on()
