"""Rows that the binlog holds soundly and the lake has no place for: found when a claim is read, shown everywhere."""

from __future__ import annotations

import pytest

from cdc_core.binlog.columns import batch
from orchestration import assets
from tests.bad_input.world import World

pytestmark = pytest.mark.integration


def test_a_zero_date(world: World, spark_remote: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run fails with the position, the service shows it too; read as NULL by configuration it goes through."""
    monkeypatch.setattr(assets, "MAX_RETRIES", 0)
    world.spark = spark_remote
    world.write_defs()
    world.sql("CREATE TABLE visits (id INT PRIMARY KEY, at DATETIME)")
    journal, _ = world.mysql.position()
    world.sql("SET SESSION sql_mode = ''", "INSERT INTO visits VALUES (1, '0000-00-00')")
    table = f"{world.databases['shop']}.visits"

    shown = world.failed(world.run())

    before = world.cursor()
    error = world.told("DecodeError", "zero", f"{journal}:", "sluice.zero.dates")
    assert table in error["message"] + error["place"]
    assert all(error[part].rstrip(".") in shown for part in ("message", "place", "hint"))
    world.other_goes_on()
    world.drain_fails("DecodeError")
    assert world.status()["error"] == error
    assert world.cursor() == before
    assert "0000-00-00 00:00:00" in error["message"]
    world.configure(zero_dates="null")
    world.healed()
    assert world.drain(table="visits") == [(1, None)]


def test_a_type_that_is_not_known(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused; with its table left out the others come. As if GEOMETRY were one."""
    monkeypatch.delitem(batch._FAMILIES, 255)
    world.sql("CREATE TABLE places (id INT PRIMARY KEY, at POINT NOT NULL)")
    world.sql("INSERT INTO places VALUES (1, ST_GeomFromText('POINT(1 1)'))")

    shown = world.failed(world.run())

    before = world.cursor()
    table = f"{world.databases['shop']}.places"
    error = world.told("SchemaError", "type 255 is not supported", table, "canal.instance.filter.black.regex")
    assert all(error[part] in shown for part in ("message", "place", "hint"))
    world.other_goes_on()
    assert world.cursor() == before
    world.sql("INSERT INTO orders VALUES (1, 'fine')")
    world.configure(black=rf"{world.databases['shop']}\\\\.places")
    world.healed()
    assert world.drain() == [(1, "fine")]
