"""The stack's building blocks, on real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from cdc_core.errors import ConfigError
from orchestration.stack import artifacts, prerequisites
from orchestration.stack.artifacts import Artifact
from orchestration.stack.home import free_port, listening
from orchestration.stack.mysql import MySqlServer
from orchestration.stack.process import Process, ProcessError
from orchestration.stack.zookeeper import ZooKeeper

SLEEPER = [sys.executable, "-c", "import subprocess, time; subprocess.Popen(['sleep', '600']); time.sleep(600)"]


def test_a_process_ends_with_all_that_it_started(tmp_path: Path) -> None:
    """`stop` leaves nobody of the group behind."""
    process = Process("sleeper", SLEEPER, log=tmp_path / "log", ready=lambda: True).start()
    group = process.pid
    assert group is not None
    process.stop()

    assert not process.running
    with pytest.raises(ProcessLookupError):
        os.killpg(group, 0)


def test_a_process_that_ends_early_shows_its_log(tmp_path: Path) -> None:
    """The error carries the child's own words and the log's place."""
    command = [sys.executable, "-c", "raise SystemExit('no luck')"]
    with pytest.raises(ProcessError, match="no luck") as caught:
        Process("loser", command, log=tmp_path / "log", ready=lambda: False).start()

    assert caught.value.place == str(tmp_path / "log")


def test_a_killed_parent_leaves_no_orphan(tmp_path: Path) -> None:
    """The guard ends the children of a parent that had no time to."""
    script = f"""
import sys, time
from pathlib import Path
from orchestration.stack.process import Process
child = Process("c", {SLEEPER!r}, log=Path({str(tmp_path / "log")!r}), ready=lambda: True).start()
print(child.pid, flush=True)
time.sleep(600)
"""
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    group = int(parent.stdout.readline())
    parent.send_signal(signal.SIGKILL)
    parent.wait()

    assert _gone_within(group, 5.0)


def test_a_jar_with_other_bytes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not have the pinned hash is not kept."""
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path))
    artifact = Artifact("o", "n", "1", "0" * 64, 1)

    def deliver(_: Artifact, scratch: Path, __: object) -> Path:
        jar = scratch / "n-1.jar"
        jar.write_bytes(b"something else")
        return jar

    monkeypatch.setattr(artifacts, "_retrieve", deliver)
    with pytest.raises(ConfigError, match="expected 0000"):
        artifacts.fetch(artifact)

    assert list((tmp_path / "artifacts").iterdir()) == []


def test_a_missing_package_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who may not install is told the exact command."""
    monkeypatch.setattr(prerequisites, "_may_install", lambda: False)
    with pytest.raises(ConfigError) as caught:
        prerequisites.need("libaio", lambda: False, ["libaio1"])

    assert caught.value.hint == "Run: sudo apt-get install -y --no-install-recommends libaio1"


@pytest.mark.integration
def test_mysql_gives_a_fresh_database_and_a_capturing_account(mysql8: MySqlServer) -> None:
    """Root writes, the account reads and may see the binlogs, and the database is gone afterwards."""
    with mysql8.database() as name:
        mysql8.execute("CREATE TABLE t (a INT)", "INSERT INTO t VALUES (7)", database=name)
        with mysql8.connect(name) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT a FROM t")
            assert cursor.fetchall() == ((7,),)
            assert cursor.execute("SHOW BINARY LOGS") >= 1
    with mysql8.root() as connection, connection.cursor() as cursor:
        assert cursor.execute("SHOW DATABASES LIKE %s", (name,)) == 0


@pytest.mark.integration
def test_mysql_recovers_from_a_kill(tmp_path: Path) -> None:
    """A committed row survives `kill`, on the same port with the same password."""
    server = MySqlServer("8.0.31", tmp_path).start()
    try:
        server.execute("CREATE DATABASE d", "CREATE TABLE d.t (a INT)", "INSERT INTO d.t VALUES (1)")
        server.kill()
        assert not listening(server.port)
        server.start()
        with server.connect("d") as connection, connection.cursor() as cursor:
            assert cursor.execute("SELECT * FROM t") == 1
    finally:
        server.stop()


@pytest.mark.integration
def test_passwords_are_in_no_repr_and_for_the_owner_alone(mysql8: MySqlServer, tmp_path: Path) -> None:
    """Not shown, not readable by others."""
    assert mysql8.password not in repr(mysql8)
    server = MySqlServer("8.0.31", tmp_path)
    assert (tmp_path / "passwords.json").stat().st_mode & 0o077 == 0
    assert server.password != mysql8.password


@pytest.mark.integration
def test_zookeeper_keeps_its_nodes_over_a_kill(tmp_path: Path) -> None:
    """A node written before a crash is there after the next start."""
    server = ZooKeeper(tmp_path, free_port()).start()
    try:
        _with_client(server.hosts, lambda client: client.create("/kept", b"x"))
        server.kill()
        server.start()
        assert _with_client(server.hosts, lambda client: client.get("/kept")[0]) == b"x"
    finally:
        server.stop()


def _with_client(hosts: str, act):  # type: ignore[no-untyped-def]
    client = KazooClient(hosts)
    client.start(timeout=20)
    try:
        return act(client)
    finally:
        client.stop()
        client.close()


def _gone_within(group: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False
