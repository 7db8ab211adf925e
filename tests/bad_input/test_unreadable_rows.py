"""Rows that the binlog holds soundly and that have no place in the lake: found when a claim is read, shown everywhere."""

from __future__ import annotations

import pytest

from orchestration import assets
from tests.bad_input.world import World

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assets, "RETRY_SECONDS", 0.01)


def test_a_zero_date(world: World, spark_remote: str) -> None:
    """The run fails with the position, the service shows it too; read as NULL by configuration it goes through."""
    world.spark = spark_remote
    world.write_defs()
    world.sql("CREATE TABLE visits (id INT PRIMARY KEY, at DATETIME)", "INSERT INTO orders VALUES (1, 'fine')")
    journal, _ = world.mysql.position()
    world.sql("SET SESSION sql_mode = ''", "INSERT INTO visits VALUES (1, '0000-00-00')")
    before = world.cursor()
    table = f"{world.databases['shop']}.visits"

    shown = world.failed(world.run())

    error = world.told("DecodeError", "zero", f"{journal}:", "sluice.zero.dates")
    assert table in error["message"] + error["place"]
    assert all(error[part] in shown for part in ("message", "place", "hint"))
    world.other_goes_on()
    assert world.cursor() == before
    since = error["since"]
    assert not world.run().success
    assert world.status()["error"]["since"] == since
    world.configure(zero_dates="null")
    world.healed()
    assert world.run().success
    assert world.rows(table="visits") == [{"id": 1, "at": None}]
    assert world.rows() == [{"id": 1, "note": "fine"}]
    assert world.cursor() != before


def test_a_type_that_is_not_known(world: World, spark_remote: str) -> None:
    """GEOMETRY is refused; with its table left out the others come."""
    world.spark = spark_remote
    world.write_defs()
    world.sql("CREATE TABLE places (id INT PRIMARY KEY, at POINT NOT NULL)", "INSERT INTO orders VALUES (1, 'fine')")
    world.sql("INSERT INTO places VALUES (1, ST_GeomFromText('POINT(1 1)'))")
    before = world.cursor()

    shown = world.failed(world.run())

    table = f"{world.databases['shop']}.places"
    error = world.told("SchemaError", "type GEOMETRY is not supported", table, "canal.instance.filter.black.regex")
    assert all(error[part] in shown for part in ("message", "place", "hint"))
    world.other_goes_on()
    assert world.cursor() == before
    world.configure(black=rf"{world.databases['shop']}\\.places")
    world.healed()
    assert world.run().success
    assert world.rows() == [{"id": 1, "note": "fine"}]
