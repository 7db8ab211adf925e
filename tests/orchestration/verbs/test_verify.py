"""`sluice verify`, against a real MySQL and a real service."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from cdc_core.errors import ConfigError
from orchestration.commands.verb import access_of, run, run_everywhere
from orchestration.stack.mysql.server import MySqlServer
from orchestration.verbs.access import Access
from orchestration.verbs.orders import Verify
from orchestration.verbs.report import Done, Report
from spark_jobs.lake.tables import Lake
from tests.support.shop import opened_shop
from tests.support.small_lake import brought


@pytest.mark.integration
@pytest.mark.parametrize("store", ["disk", pytest.param("s3", marks=pytest.mark.full)])
def test_tables_are_compared_each_in_its_way(
    mysql8: MySqlServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
    store: str,
) -> None:
    """One with a key, one without: a line for each, and the exit code of what differs. The lake is on a disk, and in an
    object store."""
    root = str(tmp_path / "lake") if store == "disk" else f"{request.getfixturevalue('object_store')}/{tmp_path.name}"
    with opened_shop(mysql8, "sc://127.0.0.1:1", tmp_path) as shop:
        shop.lake = replace(shop.lake, lake=Lake(root))
        for table, key in (("keyed", " PRIMARY KEY"), ("copies", "")):
            shop.execute(f"CREATE TABLE {table} (id INT{key}, v INT)", f"INSERT INTO {table} VALUES (1, 1), (2, 2)")
        paths = {table: brought(shop, table) for table in ("keyed", "copies")}
        names = tuple(f"{shop.database}.{table}" for table in ("copies", "keyed"))
        url = shop.connector.http_url
        order, at = Verify(tables=names), access_of("shop", lake=root, conf=tmp_path / "conf", service=url)
        capsys.readouterr()
        assert run(order, at, as_json=True) == 0
        for path in paths.values():
            DeltaTable(path).delete("id = 2")
        assert run(order, at, as_json=True) == 1
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
        assert [(line["table"], line["missing"]) for line in lines] == [
            (names[0], 0), (names[1], 0), (names[0], 1), (names[1], 1)
        ]  # fmt: skip


def test_each_destination_of_the_configuration_is_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever keeps another one from it. Each line names its destination."""
    for name in ("books", "shop", "toys"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "instance.properties").write_text("canal.instance.master.address = 127.0.0.1:3306\n")
    (tmp_path / "canal.properties").write_text("canal.destinations = books,shop,toys\n")
    assert run_everywhere(Compared(), tmp_path, as_json=True) == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["destination"], line.get("table"), line.get("message")) for line in lines] == [
        ("books", "a.t", None), ("shop", None, "the service is away"), ("toys", "a.t", None)
    ]  # fmt: skip


class Compared(Verify):
    """As one table, but at one destination."""

    def run(self, at: Access, report: Report) -> None:
        if at.destination == "shop":
            raise ConfigError("the service is away", hint="Start it.")
        report.each("a.t", lambda: Done("as at the source", {}))
