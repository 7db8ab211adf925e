"""`sluice up` on a real source, with real processes."""

from __future__ import annotations

import os
import signal
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from cryptography import x509

from cdc_core.errors import LakeError
from orchestration.commands.sql import run
from orchestration.stack.artifacts import artifacts_dir
from orchestration.stack.metastore import metastore_in
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.ports import listening
from orchestration.stack.spark import SPARK_PORT
from spark_jobs.lake.tables import Lake
from tests.support.certificates import Authority
from tests.support.plain_lake import rows_of
from tests.support.up import Up, launched
from tests.support.waiting import until

pytestmark = pytest.mark.integration


@pytest.fixture
def up(mysql8: MySqlServer, tmp_path: Path) -> Iterator[Up]:
    """Its Spark is one that nobody asks."""
    with launched(mysql8, tmp_path, "sc://127.0.0.1:1") as one:
        yield one


@pytest.mark.in_turn(2)
@pytest.mark.timeout(600)
@pytest.mark.full
def test_parts_that_are_killed_are_started_again(up: Up, mysql8: MySqlServer) -> None:
    """Also while others start. A destination without tables waits for its first one; nothing ends but by Ctrl-C."""
    until(lambda: up.part("code_server") or up.process.poll() is not None)  # Dagster's code server starts
    service = up.part("orchestration.cli")
    os.kill(service or 0, signal.SIGKILL)
    until(lambda: "Ctrl-C stops everything" in up.said or up.process.poll() is not None)
    until(lambda: "the capture service runs again" in up.said, 60)
    assert "the capture service was killed by SIGKILL" in up.said
    until(lambda: "waiting_mine" in up.sensors() or up.process.poll() is not None)

    mysql8.execute(f"CREATE TABLE {up.database}.t (id int PRIMARY KEY)")
    until(lambda: "Dagster has loaded" in up.said)
    assert "cdc_shop_backlog" in up.sensors()

    for word, name in (
        ("code_server", "code server"),
        ("dagster-daemon", "daemon"),
        ("dagster-webserver", "webserver"),
    ):
        before = up.part(word)
        os.kill(before or 0, signal.SIGKILL)
        until(lambda name=name: f"Dagster's {name} runs again" in up.said)
        assert up.part(word) not in (None, before)
    assert "cdc_shop_backlog" in until(up.sensors)
    parts = [child.pid for child in psutil.Process(up.process.pid).children()]
    up.process.send_signal(signal.SIGINT)
    assert up.process.wait(60) == 0
    until(lambda: not any(map(psutil.pid_exists, parts)), 60)


@pytest.mark.in_turn
@pytest.mark.full
@pytest.mark.timeout(900)
def test_a_certificate_is_renewed_under_a_drain(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> None:
    """Again and again, while rows come: no run fails, no part is started again, and the lake has every row."""
    (tmp_path / "tls").mkdir()
    authority, over = Authority(tmp_path / "tls"), threading.Event()
    authority.issue(1)
    keys = {"certificate": authority.certificate, "key": authority.key, "ca": authority.path}
    tls = {f"sluice.tls.{name}": path for name, path in keys.items()}
    with launched(mysql8, tmp_path, spark_remote, tls) as up:
        mysql8.execute(f"CREATE TABLE {up.database}.t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(100))")
        until(lambda: "Ctrl-C stops everything" in up.said or up.process.poll() is not None)

        def write() -> None:
            rows = ", ".join(["(REPEAT('x', 80))"] * 500)
            with mysql8.root(up.database) as connection, connection.cursor() as cursor:
                while not over.wait(0.2):
                    cursor.execute(f"INSERT INTO t (v) VALUES {rows}")

        writer = threading.Thread(target=write)
        writer.start()
        try:
            lake = Lake(tmp_path / "lake")
            path = lake.path(up.database, "t")
            until(lambda: rows_of(lake, path))
            for number in range(2, 6):
                authority.issue(number)
                until(lambda number=number: shown(up.http_port, authority) == number)
        finally:
            over.set()
            writer.join()
        with mysql8.root(up.database) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT COUNT(*) FROM t")
            (count,) = cursor.fetchone() or (0,)
        until(lambda: len(rows_of(lake, path)) == count)
        assert up.runs("FAILURE") == 0
        assert "runs again" not in up.said
        assert up.process.poll() is None


def shown(port: int, authority: Authority) -> int:
    """The number of the certificate that the service shows."""
    pem = ssl.get_server_certificate(("127.0.0.1", port), ca_certs=str(authority.path))
    return x509.load_pem_x509_certificate(pem.encode()).serial_number


@pytest.mark.in_turn
@pytest.mark.full
@pytest.mark.timeout(600)
def test_a_table_has_a_name_in_the_spark_that_is_started(
    mysql8: MySqlServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody asks for it in defs.yaml; `sluice sql` reads it by that name. The metastore is in the lake."""
    if listening(SPARK_PORT):
        pytest.skip(f"port {SPARK_PORT} is taken")
    (tmp_path / "artifacts").symlink_to(artifacts_dir())
    with launched(mysql8, tmp_path, "") as one:
        mysql8.execute(
            f"CREATE TABLE {one.database}.t (id int PRIMARY KEY)", f"INSERT INTO {one.database}.t VALUES (7)"
        )

        def answered() -> bool:
            with suppress(LakeError):
                return run(f"SELECT id FROM {one.database}.t", f"sc://127.0.0.1:{SPARK_PORT}", "", 1, as_json=True) == 0
            return False

        until(answered, 400)
        assert capsys.readouterr().out.splitlines()[-1] == '{"id": 7}'
    assert (metastore_in(str(tmp_path / "lake")) / "derby").is_dir()
