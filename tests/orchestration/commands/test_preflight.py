"""`sluice check` before the first start: what it finds of configuration, cursors, sources, lake and Spark."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from cdc_core.preflight import checked
from orchestration.commands import preflight
from orchestration.commands.found import show
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.zookeeper import ZooKeeper
from spark_jobs.check.findings import Finding

_SERVICE = "canal.auto.scan = true\n"


def configured(folder: Path, address: str, user: str, password: str, service: str = _SERVICE) -> Path:
    """A configuration of one destination."""
    (folder / "shop").mkdir(parents=True)
    (folder / "canal.properties").write_text(service)
    (folder / "shop" / "instance.properties").write_text(
        f"canal.instance.master.address = {address}\ncanal.instance.dbUsername = {user}\n"
        f"canal.instance.dbPassword = {password}\n"
    )
    return folder


def test_each_part_that_is_missing_has_a_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A source and a ZooKeeper that are away are two findings; the lake and the rest are looked at all the same."""
    conf = configured(tmp_path / "conf", "127.0.0.1:9", "me", "x", f"{_SERVICE}canal.zkServers = 127.0.0.1:9\n")

    assert preflight.run(conf, str(tmp_path / "lake"), "", "", as_json=True) == 1

    found = {one["what"]: one for one in json.loads(capsys.readouterr().out)}
    assert {what for what, one in found.items() if not one["good"]} - {"Spark"} == {"ZooKeeper", "the source of shop"}
    assert all(one["remedy"] for one in found.values() if not one["good"])
    assert found["the lake"]["good"]


@pytest.mark.parametrize(
    ("service", "what"),
    [(None, "the configuration"), ("canal.port = many\n", "the configuration"), (_SERVICE, "the destinations")],
)
def test_a_configuration_without_a_destination_is_wrong(tmp_path: Path, service: str | None, what: str) -> None:
    """As is one that is absent, or has a value that is none."""
    if service is not None:
        (tmp_path / "canal.properties").write_text(service)

    assert [one.what for one in checked(tmp_path) if one.remedy] == [what]


def test_a_warning_is_seen_as_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has a mark of its own and no remedy, and keeps nothing from starting."""
    (tmp_path / "canal.properties").write_text("sluice.no = 1\n")
    (found,) = [one for one in checked(tmp_path) if one.warning]
    console = Console(width=80, file=io.StringIO())

    show(console, [Finding(found.what, (found.where,), found.found, warning=True)])

    assert (found.what, found.remedy) == ("the configuration", "")
    assert "sluice.no" in found.found
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert [line.strip()[0] for line in lines if "the configuration" in line] == ["!"]


@pytest.mark.integration
def test_a_source_is_ready_or_says_the_grant_that_it_lacks(
    tmp_path: Path, mysql8: MySqlServer, zookeeper: ZooKeeper
) -> None:
    """By the account of the configuration; ZooKeeper answers."""
    address, password = f"{mysql8.host}:{mysql8.port}", "pass-word-1"
    mysql8.execute(f"CREATE USER 'preflight'@'%' IDENTIFIED BY '{password}'")
    try:
        service = f"{_SERVICE}canal.zkServers = {zookeeper.hosts}\n"
        conf = configured(tmp_path, address, "preflight", password, service)
        refused = {one.what: one for one in checked(conf)}
        mysql8.execute("GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'preflight'@'%'")
        ready = {one.what: one.remedy for one in checked(conf)}
    finally:
        mysql8.execute("DROP USER 'preflight'@'%'")

    assert "GRANT SELECT" in refused["the source of shop"].remedy
    assert not refused["ZooKeeper"].remedy
    assert not any(ready.values())
