"""`sluice monitor`: its options, its tables, its lines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from kazoo.client import KazooClient
from typer.testing import CliRunner

from cdc_core.errors import ConfigError
from cdc_core.monitor.door import monitor_door
from cdc_core.monitor.history import LagHistory
from cdc_core.monitor.views import cluster_of
from orchestration.cli import app
from orchestration.commands.monitor import MonitorCall, ServeCall
from orchestration.commands.monitor_tables import show
from orchestration.stack.zookeeper import ZooKeeper
from tests.support.java_canal import java_nodes, write_nodes
from tests.support.monitored import Looks

ROOT = Path(__file__).parents[3]
NARROW = {"COLUMNS": "80", "TERM": "dumb"}


def test_names_of_others_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    """What stands in a node is printed as it is."""
    reader = "/otter/canal/destinations/example/1001/running"
    looks = Looks()
    looks.look(cluster_of("zk", java_nodes() | {reader: b'{"address": "[/x]"}'}))
    show(looks.findings)
    assert "read by [/x]" in capsys.readouterr().out


@pytest.mark.parametrize("hosts", ["", "/canal/g1", "zk:port/canal", "zk1,,zk2", "zk:2181,:x/g"])
def test_a_zookeeper_that_is_none(hosts: str) -> None:
    """The error says how one is written."""
    with pytest.raises(ConfigError, match="names no ZooKeeper") as caught:
        MonitorCall((hosts,)).opened(1)

    assert "zk1:2181,zk2:2181/canal/g1" in caught.value.hint


def test_options_that_contradict_each_other(tmp_path: Path) -> None:
    """A cluster twice, two accounts, a time that is none."""
    with pytest.raises(ConfigError, match="twice"):
        MonitorCall(("zk/g1", "zk/g1/")).opened(1)
    with pytest.raises(ConfigError, match="--mysql-user or --mysql-file"):
        MonitorCall(("zk",), mysql_user="u", mysql_file=tmp_path / "my.cnf").opened(1)
    with pytest.raises(ConfigError, match="'soon'"):
        MonitorCall(("zk",), lag="soon").opened(1)


def test_a_certificate_needs_its_key(tmp_path: Path) -> None:
    """One without the other is refused, and so are files that are none."""
    with pytest.raises(ConfigError, match="needs its key"):
        ServeCall(tls_certificate=tmp_path / "cert.pem").tls()
    with pytest.raises(ConfigError, match="cannot be read") as caught:
        monitor_door(MonitorCall(("zk",)).opened(1), LagHistory(), "127.0.0.1", 0, tls=(tmp_path / "c", tmp_path / "k"))
    assert "--tls-certificate" in str(caught.value.place)


def test_passwords_are_not_shown() -> None:
    """Neither is in the values that hold them."""
    assert "secret" not in repr(MonitorCall(("zk",), auth="u:secret", mysql_user="u", mysql_password="secret"))


def test_help_names_the_option_file() -> None:
    """Its groups are in brackets, which the terminal's markup would swallow."""
    shown = CliRunner().invoke(app, ["monitor", "--help"], env={"COLUMNS": "200"}).stdout

    assert "[client]" in shown
    assert "[HOST:PORT]" in shown


@pytest.mark.integration
def test_once_prints_tables_of_eighty_columns(zookeeper: ZooKeeper, zk: KazooClient, zk_root: str) -> None:
    """Every server, destination and client; what is wrong, and the exit code."""
    write_nodes(zk, java_nodes())
    cluster = f"{zookeeper.hosts}{zk_root}"
    shown = CliRunner().invoke(app, ["monitor", "--zookeeper", cluster, "--once"], env=NARROW)

    assert shown.exit_code == 0, shown.output
    assert f"{cluster}: 2 servers, 1 destination, 1 client" in shown.stdout
    for text in ("10.0.0.1:11111", "a Java Canal server", "1 standby", "mysql-bin.000001:35934751", "no account"):
        assert text in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 80

    zk.delete("/otter/canal/destinations/example/running")
    shown = CliRunner().invoke(app, ["monitor", "--zookeeper", cluster, "--once", "--json"])
    found = json.loads(shown.stdout)
    assert shown.exit_code == 1
    assert [one["kind"] for one in found["alarms"]] == ["no_leader"]
    assert found["clusters"][0]["destinations"][0]["clients"][0]["source"] == "localhost:33061"


@pytest.mark.integration
def test_lines_until_ctrl_c(zookeeper: ZooKeeper, zk: KazooClient, zk_root: str) -> None:
    """One when something begins, one when it ends; Ctrl-C ends the command well."""
    write_nodes(zk, java_nodes())
    command = [sys.executable, "-m", "orchestration", "monitor", "--every", "1", "--port", "0", "--zookeeper"]
    running = "/otter/canal/destinations/example/running"
    with subprocess.Popen(
        [*command, f"{zookeeper.hosts}{zk_root}"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:
        assert process.stdout is not None
        lines = iter(process.stdout)
        try:
            url = next(lines).removeprefix("page: ").strip()
            assert "2 servers, 1 destination" in next(lines)
            assert 'destination="example"' in httpx.get(f"{url}/metrics").text
            zk.delete(running)
            assert "no_leader begins" in next(lines)
            write_nodes(zk, {running: java_nodes()[running]})
            assert "no_leader ends" in next(lines)
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
        finally:
            process.kill()
