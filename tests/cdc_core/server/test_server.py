"""All destinations of a directory: one failing alone, added, changed, removed; and the service as a process."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from structlog.testing import capture_logs

from cdc_core import config, log
from cdc_core.config import load_service
from cdc_core.errors import ConfigError, SessionError, SourceUnavailable, UnknownDestination
from cdc_core.serve import check_open, only_user, serve, token_of
from cdc_core.server.server import CanalServer
from orchestration.stack.mysql.server import MySqlServer
from tests.support.servers import free_port
from tests.support.waiting import until


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    directory = tmp_path / "conf"
    directory.mkdir()
    (directory / "canal.properties").write_text(
        f"canal.metrics.pull.port = {free_port()}\nsluice.flight.port = {free_port()}\ncanal.auto.scan.interval = 1\n"
    )
    return directory


def destination(conf: Path, name: str, text: str = "canal.instance.master.address=127.0.0.1:9\n") -> Path:
    path = conf / name / "instance.properties"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def server(conf: Path) -> Iterator[CanalServer]:
    """A server whose destinations have no MySQL."""
    destination(conf, "shop")
    server = CanalServer(load_service(conf, {})[0], conf)
    server.start()
    yield server
    server.stop()


def test_a_broken_destination_fails_alone(conf: Path, server: CanalServer) -> None:
    """Its status has the place and the remedy, its calls raise it; the other is as it was; mended it starts."""
    shop = server.destination("shop").capture
    path = destination(conf, "bad", "canal.instance.memory.buffer.size=many\n")
    destination(conf, "regex", "canal.instance.filter.regex=shop.(\n")
    server.scan()

    assert server.destinations() == ["bad", "regex", "shop"]
    status = server.destination("bad").status()
    assert status.state == "failed"
    assert status.error.place == f"{path}:1: canal.instance.memory.buffer.size"
    with pytest.raises(ConfigError):
        server.destination("bad").service().claim(1001, 1, 0, "me", 60)
    assert server.destination("regex").status().error.error == "ConfigError"
    assert server.destination("shop").capture is shop

    destination(conf, "bad")
    server.scan()
    assert server.destination("bad").status().state in ("starting", "failed")
    assert server.destination("bad").config.host == "127.0.0.1"


def test_the_directory_is_scanned(conf: Path, server: CanalServer) -> None:
    """New ones start, changed ones start again, removed ones stop."""
    destination(conf, "second")
    until(lambda: server.destinations() == ["second", "shop"])

    before = server.destination("shop").capture
    destination(conf, "shop", "canal.instance.master.address=127.0.0.1:10\n")
    until(lambda: server.destination("shop").capture not in (before, None))
    assert before.status().state == "stopped"

    destination(conf, "second").unlink()
    until(lambda: server.destinations() == ["shop"])
    until(lambda: server.destination("shop").status().state == "failed")
    with pytest.raises(UnknownDestination, match="second"):
        server.destination("second")


def test_one_stopped_by_hand_rests_until_it_is_started(conf: Path, server: CanalServer) -> None:
    """Over scans; its calls are refused with the remedy; another configuration starts it too. Others go on."""
    destination(conf, "other")
    server.scan()
    other = server.destination("other").capture
    ran = server.destination("shop").capture
    assert server.stop_destination("shop").note == "stopped by an operator"
    assert ran.status().state == "stopped"
    server.scan()
    assert server.stop_destination("shop").state == "stopped"
    with pytest.raises(SessionError, match="stopped by an operator") as refused:
        server.destination("shop").service().claim(1001, 1, 0, "me", 60)
    assert refused.value.hint == "Start it: sluice destination start shop"
    assert server.start_destination("shop").note is None
    running = server.destination("shop").capture
    assert running is not None
    server.start_destination("shop")
    assert server.destination("shop").capture is running

    server.stop_destination("shop")
    destination(conf, "shop", "canal.instance.master.address=127.0.0.1:10\n")
    server.scan()
    assert server.destination("shop").status().source.address == "127.0.0.1:10"
    assert server.destination("shop").status().note is None
    assert server.destination("other").capture is other is not None
    with pytest.raises(UnknownDestination):
        server.stop_destination("nobody")


def test_a_reload_starts_again_with_the_present_configuration(conf: Path, server: CanalServer) -> None:
    """Without waiting for a scan, also where nothing changed; a mistake in it is reported."""
    before = server.destination("shop").capture
    server.reload_destination("shop")
    assert server.destination("shop").capture not in (before, None)
    assert before.status().state == "stopped"
    destination(conf, "shop", "canal.instance.memory.buffer.size=many\n")
    assert server.reload_destination("shop").error.error == "ConfigError"


def test_a_lazy_destination_is_read_when_a_client_asks(conf: Path, server: CanalServer) -> None:
    """Not by a look at its state, nor by a scan; its own key is over that of all."""
    lines = "canal.instance.master.address=127.0.0.1:9\ncanal.instance.global.lazy=false\n"
    destination(conf, "late", lines + "canal.instance.late.lazy=true\n")
    server.scan()
    late = server.destination("late")
    assert (late.status().state, late.status().source.address) == ("lazy", "127.0.0.1:9")
    server.scan()
    assert late.status().state == "lazy"
    assert late.capture is None

    with pytest.raises(SourceUnavailable):
        late.service().client(1001)
    woken = late.capture
    assert woken is not None
    assert woken.status().state == "failed"
    with pytest.raises(SourceUnavailable):
        late.service().client(1001)
    assert late.capture is woken

    assert server.stop_destination("late").note == "stopped by an operator"
    with pytest.raises(SessionError, match="stopped by an operator"):
        late.service().client(1001)
    assert server.start_destination("late").note is None
    assert server.reload_destination("late").state == "lazy"


def test_a_scan_reads_what_was_written_since(conf: Path, server: CanalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what was refused, whose reason may be gone without that."""
    destination(conf, "bad", "canal.instance.filter.regex=shop.(\n")
    server.scan()
    read: list[str] = []
    load = config.load_instance
    monkeypatch.setattr(config, "load_instance", lambda at, name: read.append(name) or load(at, name))
    server._stop.set()  # no look but ours
    for thread in threading.enumerate():
        if thread.name == "scan":
            thread.join(60)
    read.clear()

    server.scan()
    assert read == ["bad"]
    os.utime(conf / "shop" / "instance.properties", ns=(1, 1))
    server.scan()
    assert read == ["bad", "bad", "shop"]
    os.utime(conf / "canal.properties", ns=(1, 1))
    server.scan()
    assert read[3:] == ["bad", "shop"]


def test_a_scan_that_fails_ends_nothing(conf: Path, server: CanalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one looks again."""
    shop = server.destination("shop").capture
    with monkeypatch.context() as broken:
        looks: list[str] = []

        def broken_look(name: str) -> None:
            looks.append(name)
            raise ZeroDivisionError

        broken.setattr(server, "_look_at", broken_look)
        until(lambda: len(looks) >= 2)
    destination(conf, "second")
    until(lambda: server.destinations() == ["second", "shop"])
    assert server.destination("shop").capture is shop is not None


def test_all_stop_side_by_side(conf: Path, server: CanalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each waits for its own threads; a hundred in a row would take longer than a supervisor grants."""
    destination(conf, "other")
    server.scan()
    together = threading.Barrier(2, timeout=60)
    for name in ("shop", "other"):
        capture = server.destination(name).capture
        assert capture is not None
        monkeypatch.setattr(capture, "stop", lambda seconds, stop=capture.stop: (together.wait(), stop(seconds)))
    server.stop()
    assert not together.broken
    monkeypatch.undo()


def test_an_unreachable_source_is_reported(server: CanalServer) -> None:
    """failed, with address and reason; since when stays while it lasts."""
    until(lambda: server.destination("shop").status().state == "failed")

    first = server.destination("shop").status().error
    assert (first.error, first.place) == ("SourceUnavailable", "127.0.0.1:9")
    assert server.destination("shop").status().error.since == first.since
    until(lambda: server.destination("shop").metrics().reconnects >= 1)


def test_the_token_comes_from_a_key_or_a_file(conf: Path, tmp_path: Path) -> None:
    """An empty or missing file is an error, not an open door."""
    config = load_service(conf, {})[0]
    assert token_of(config) is None

    path = tmp_path / "token"
    by_file = config.model_copy(update={"token_file": path})
    with pytest.raises(ConfigError, match="cannot read the token"):
        token_of(by_file)
    path.write_text("\n")
    with pytest.raises(ConfigError, match="empty"):
        token_of(by_file)
    path.write_text("abc\n")
    assert token_of(by_file) == "abc"


def test_other_hosts_need_a_token(conf: Path) -> None:
    """Off loopback the service starts with a token, or where a key says that none is wanted."""
    config = load_service(conf, {})[0]
    for host in ("127.0.0.1", "localhost", "::1"):
        check_open(config.model_copy(update={"host": host}), None)
    for host in ("0.0.0.0", "192.0.2.1", "db.example", "::"):
        reached = config.model_copy(update={"host": host})
        with pytest.raises(ConfigError, match=r"sluice\.http\.anyone"):
            check_open(reached, None)
        check_open(reached, "s3cret")
        check_open(reached.model_copy(update={"http_anyone": True}), None)


def test_one_service_uses_a_data_directory(conf: Path) -> None:
    """A second one, as during a rolling update, is refused until the first has ended."""
    config = load_service(conf, {})[0]
    with only_user(config):
        with pytest.raises(ConfigError, match="another service uses the data directory"), only_user(config):
            pass
        with only_user(config.model_copy(update={"zk_servers": "127.0.0.1:2181"})):
            pass
    with only_user(config):
        assert (config.data_dir / "service.lock").stat().st_mode & 0o777 == 0o600


def test_a_bad_start_exits_with_the_reason(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No such directory; a malformed value; a port that is taken."""
    assert serve(conf / "nothing") == 1
    assert "canal.properties" in capsys.readouterr().err

    config = load_service(conf, {})[0]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", config.http_port))
        taken.listen()
        assert serve(conf) == 1
    assert f"127.0.0.1:{config.http_port}" in capsys.readouterr().err

    (conf / "canal.properties").write_text("canal.metrics.pull.port = 111111\n")
    assert serve(conf) == 1
    assert "canal.properties:1: canal.metrics.pull.port" in capsys.readouterr().err


@pytest.mark.in_turn
@pytest.mark.integration
def test_the_process_serves_and_ends_on_sigterm(conf: Path, mysql8: MySqlServer) -> None:
    """Health, status and a password in the environment; exit code 0, and no secret in the log."""
    destination(
        conf,
        "shop",
        f"canal.instance.master.address={mysql8.host}:{mysql8.port}\ncanal.instance.dbUsername={mysql8.user}\n"
        "canal.instance.dbPassword=${SHOP_PASSWORD}\nsluice.what=1\n",
    )
    url = f"http://127.0.0.1:{load_service(conf, {})[0].http_port}"
    environment = {**os.environ, "SHOP_PASSWORD": mysql8.password}
    process = subprocess.Popen(
        [sys.executable, "-m", "cdc_core.serve", "--conf", str(conf)], env=environment, stderr=subprocess.PIPE
    )
    try:
        until(lambda: answers(f"{url}/readyz"), seconds=60)
        (status,) = httpx.get(f"{url}/v1/destinations", timeout=60).json()
        assert (status["destination"], status["state"], status["source"]["version"]) == ("shop", "running", "8.0.31")
        assert httpx.get(f"{url}/v1/destinations/shop/clients/1001", timeout=60).json()["cursor"] == status["position"]
    finally:
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=120)

    assert process.returncode == 0
    events = [json.loads(line) for line in err.decode().splitlines()]
    assert {"event": "unknown keys", "keys": ["sluice.what"]}.items() <= events[0].items()
    assert mysql8.password not in err.decode()
    assert (conf / "shop" / "cursors.json").stat().st_mode & 0o777 == 0o600


def answers(url: str) -> bool:
    try:
        return httpx.get(url).status_code == 200
    except httpx.TransportError:
        return False


def test_secrets_do_not_reach_the_log() -> None:
    """By their name, at any depth."""
    import structlog

    stream = io.StringIO()
    log.configure(stream, as_json=True)
    structlog.get_logger().info("hello", password="a1", at={"token": "b2", "fine": 1}, batches=[1])
    line = json.loads(stream.getvalue())
    structlog.reset_defaults()

    assert (line["event"], line["level"], line["at"]) == ("hello", "info", {"token": "***", "fine": 1})
    assert line["password"] == "***"


def test_a_store_on_disk_that_nobody_uses_is_reported(conf: Path) -> None:
    """Once, and it stays: a destination that comes back has it, or another service."""
    destination(conf, "shop")
    for name in ("shop", "gone"):
        (conf / "store" / name).mkdir(parents=True)
        (conf / "store" / name / "store.json").write_text("{}")
    server = CanalServer(load_service(conf, {})[0], conf)
    with capture_logs() as logs:
        server.load()
        server.scan()
    told = [one for one in logs if one["event"] == "no destination uses this store on disk"]
    assert [one["place"] for one in told] == [str(conf / "store" / "gone")]
    assert (conf / "store" / "gone" / "store.json").exists()
