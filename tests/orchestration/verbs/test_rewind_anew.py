"""A destination whose place the source has lost, set to the source's end by the job; Spark is not asked."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from cdc_core.contract.stopped_table import CHANGES_PURGED
from cdc_core.errors import SessionError
from cdc_core.rules.rules import Rules
from cdc_core.rules.table_rule import TableRule
from orchestration.jobs.by_hand import job_of
from orchestration.names import Names
from orchestration.resources import CanalResource, LakeResource
from orchestration.sensors.round import Round
from orchestration.sensors.snapshots import snapshot_sensor
from orchestration.settings import Settings
from orchestration.stack.mysql.server import MySqlServer
from orchestration.verbs.orders import Reset, Snapshot
from tests.support.jobs import NOWHERE, executed
from tests.support.servers import MySqlFactory, purge
from tests.support.shop import Shop, opened_shop, until_running

pytestmark = pytest.mark.integration


def test_a_purged_place_is_left_for_the_end(mysql8: MySqlServer, tmp_path: Path) -> None:
    """The error spells out the commands and the jobs. `when_needed` asks for the rewind by itself, once; it leaves its
    reason at the store and at each table, and all tables wait for their snapshots, which are asked for next. A stop is
    not lifted without one."""
    conf = tmp_path / "conf"
    with opened_shop(mysql8, NOWHERE, tmp_path) as shop:
        shop.execute("CREATE TABLE orders (id INT PRIMARY KEY)", "INSERT INTO orders VALUES (1)")
        shop.skip()
        shop.connector.by_hand.stop()
        shop.execute("INSERT INTO orders VALUES (2)", "CREATE TABLE log (line INT)", "FLUSH BINARY LOGS")
        purge(mysql8, mysql8.position()[0])
        shop.connector.by_hand.start()
        error = failed(shop)
        assert error["error"] == "PositionPurged"
        assert "was purged" in error["message"]
        for words in (
            "`sluice reset shop --anew --yes`",
            "`sluice snapshot shop --lake",
            "reset_shop",
            "snapshot_shop",
        ):
            assert words in error["hint"]

        (request,) = ticked(shop, conf)
        assert request.job_name == "reset_shop"
        config = request.run_config["ops"]["reset_shop_op"]["config"]
        hidden = Rules({f"{shop.database}.log": TableRule(exclude=("line",))}).to_json()
        done = executed(Reset, shop.connector.http_url, conf, rules=hidden, **config)
        assert done.success, done.failure
        told = dict(done.history[1:])
        names, both = Names("shop"), [f"{shop.database}.log", f"{shop.database}.orders"]
        for asset in (names.store, *map(names.delta, both)):
            assert error["message"] in told[asset.to_user_string()]["reason"]

        until_running(shop.connector)
        stopped = {stop.table: stop for stop in shop.connector.client_status().stopped}
        assert sorted(stopped) == both
        assert {stop.reason for stop in stopped.values()} == {CHANGES_PURGED}
        with pytest.raises(SessionError, match="the lake would miss them"):
            shop.connector.lift_stop(both[0])
        shop.execute("INSERT INTO orders VALUES (3)")
        claim = shop.claim(10, owner="run")
        assert (claim.rows, sorted(claim.stopped)) == (1, both)
        (request,) = ticked(shop, conf)
        assert request.run_config["ops"]["snapshot_shop_op"]["config"]["tables"] == both


@pytest.mark.parametrize("by_gtid", [False, True])
def test_a_source_restored_from_a_backup(new_mysql: MySqlFactory, tmp_path: Path, *, by_gtid: bool) -> None:
    """It lacks what the lake has. The error spells out what reloads the tables, and nothing does so by itself."""
    mysql = new_mysql("8.0.31")
    keys = {"canal_instance_gtidon": "true"} if by_gtid else {}
    with opened_shop(mysql, NOWHERE, tmp_path, **keys) as shop:
        shop.execute("CREATE TABLE orders (id INT PRIMARY KEY)")
        shop.skip()
        shop.connector.by_hand.stop()
        data = mysql._directory / "data"
        mysql.kill()
        shutil.copytree(data, tmp_path / "backup")
        mysql.start()
        shop.connector.by_hand.start()
        shop.execute("INSERT INTO orders VALUES (1)")
        shop.skip()
        shop.connector.by_hand.stop()
        mysql.kill()
        shutil.rmtree(data)
        shutil.copytree(tmp_path / "backup", data)
        mysql.start()
        shop.connector.by_hand.start()

        error = failed(shop)
        assert error["error"] == "SourceSetBack"
        assert "`sluice reset shop --anew --yes`" in error["hint"]
        assert ticked(shop, tmp_path / "conf") == []
        config: dict[str, Any] = {"reason": "restored", "anew": True, "dry_run": False}
        assert executed(Reset, shop.connector.http_url, tmp_path / "conf", **config).success
        until_running(shop.connector)
        assert [stop.table for stop in shop.connector.client_status().stopped] == [f"{shop.database}.orders"]


def failed(shop: Shop) -> dict[str, str]:
    """The destination's error, once it has one."""
    deadline = time.monotonic() + 120
    while (error := shop.connector.status().error) is None:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return error.parts


def ticked(shop: Shop, conf: Path) -> list[dg.RunRequest]:
    """What one tick of the sensor asks for."""
    settings = Settings(destination="shop", lake=str(conf / "lake"), conf=str(conf), snapshot="when_needed")
    canal = CanalResource(destination="shop", http_url=shop.connector.http_url)
    lake = LakeResource(root=settings.lake, remote=NOWHERE, conf=str(conf))
    jobs = job_of(Snapshot, settings), job_of(Reset, settings)
    sensor = snapshot_sensor(settings, *jobs, canal.connect, lake, Round())
    with dg.DagsterInstance.ephemeral() as instance, dg.build_sensor_context(instance=instance) as context:
        return list(sensor.evaluate_tick(context).run_requests)
