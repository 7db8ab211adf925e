"""The command as a user types it: exit codes, help, errors in three parts."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cdc_core.client.connector import Connector
from cdc_core.destination.rewind import RewindTarget
from cdc_core.doors.http import HttpDoor
from cdc_core.errors import ConfigError
from cdc_core.position import EntryPosition
from orchestration.commands.mirror import server_of
from orchestration.stack.ports import Ports, free_port
from orchestration.stack.service import Service
from spark_jobs.lake.consent import PROPOSAL
from tests.support.certificates import Authority
from tests.support.door_double import Destination, Server, opened


def sluice(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "orchestration.cli", *arguments]
    variables = os.environ | environment
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=variables)


@pytest.mark.parametrize(
    "command",
    [
        "init",
        "demo",
        "up",
        "server",
        "status",
        "check",
        "alert",
        "positions",
        "reset",
        "verify",
        "copy",
        "maintain",
        "explain",
        "drain",
    ],
)
def test_every_command_explains_itself(command: str) -> None:
    """Each command has help, with --json among its options."""
    done = sluice(command, "--help")

    assert done.returncode == 0
    assert "--json" in done.stdout


def test_help_fits_eighty_columns() -> None:
    """No word is cut, and no paragraph has a line break of its own."""
    code = (
        "import typer, orchestration.cli as cli; from typer.testing import CliRunner\n"
        "def walk(command, *path):\n"
        "    print(CliRunner().invoke(cli.app, [*path, '--help']).output)\n"
        "    for name, one in getattr(command, 'commands', {}).items():\n"
        "        assert not [part for part in (one.help or '').split('\\n\\n') if '\\n' in part.strip()], name\n"
        "        walk(one, *path, name)\n"
        "walk(typer.main.get_command(cli.app))"
    )
    environment = os.environ | {"COLUMNS": "80", "TERMINAL_WIDTH": "80"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)

    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if "…" in line or len(line) > 80] == []


@pytest.mark.parametrize("target", ["mysql://me@host:three/shop", "mysql://me@[::1/shop", "shop", "mysql://host/shop"])
def test_a_malformed_target_has_its_form_as_the_remedy(target: str) -> None:
    """Whatever part of it is wrong."""
    with pytest.raises(ConfigError, match="malformed") as failed:
        server_of(target, "")
    assert "mysql://user@host:port/database" in failed.value.hint


def test_help_imports_nothing_heavy() -> None:
    """Help answers at once: neither Dagster nor Spark nor the compiler nor apprise is loaded."""
    heavy = ("dagster", "pyspark", "numba", "apprise")
    code = f"import sys, orchestration.cli; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


@pytest.mark.in_turn
@pytest.mark.integration
def test_a_service_with_tls_is_asked_by_its_authority(tmp_path: Path) -> None:
    """`sluice server` answers over TLS alone, to commands that know the authority."""
    authority, (http, flight, tcp) = Authority(tmp_path), (free_port() for _ in range(3))
    authority.issue()
    conf = tmp_path / "conf"
    (conf / "shop").mkdir(parents=True)
    (conf / "shop" / "instance.properties").write_text("canal.instance.master.address = 127.0.0.1:9\n")
    (conf / "canal.properties").write_text(
        f"canal.metrics.pull.port = {http}\nsluice.flight.port = {flight}\ncanal.port = {tcp}\n"
        f"sluice.tls.ca = {authority.path}\nsluice.tls.certificate = {authority.certificate}\n"
        f"sluice.tls.key = {authority.key}\n"
    )
    url = f"https://127.0.0.1:{http}"
    with Service(conf, tmp_path, url=url, ca=authority.pem, wait_ready=False):
        known = sluice("status", "--json", "--service", url, SLUICE_CA=str(authority.path))
        unknown = sluice("status", "--service", url)
        configured = sluice("ddl", "list", "shop", "--conf", str(conf))
    (status,) = json.loads(known.stdout)
    assert (known.returncode, status["destination"]) == (1, "shop")  # its source is away
    assert (unknown.returncode, "certificate" in unknown.stderr) == (1, True)
    assert "certificate" not in configured.stderr
    assert "shop" in configured.stderr  # the service's own words


def test_bad_usage_is_two() -> None:
    """An unknown option ends with exit code 2."""
    assert sluice("status", "--nonsense").returncode == 2


def test_the_version_is_shown() -> None:
    """In a form for people and one for programs."""
    assert sluice("--version").stdout.startswith("sluice 0.")
    assert json.loads(sluice("--json", "--version").stdout)["version"].startswith("0.")


@pytest.mark.in_turn
@pytest.mark.full
def test_a_waiting_statement_is_shown_and_decided_by_name(tmp_path: Path) -> None:
    """Only stops that wait for approval are listed; only what waits can be approved or rejected."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "instance.properties").write_text("canal.instance.master.address = 127.0.0.1:9\n")
    (tmp_path / "canal.properties").write_text("canal.destinations = shop\n")
    with (
        opened(HttpDoor(Server(Destination()), "127.0.0.1", 0)) as door,
        Connector(door.url, "shop") as connector,
    ):
        options = ("--service", door.url, "--conf", str(tmp_path))
        nothing = sluice("ddl", "list", "shop", *options)
        at = EntryPosition("mysql-bin.000001", 4)
        connector.stop_table("shop.a", reason=f"{PROPOSAL}: DROP TABLE a", hint="", position=at)
        connector.stop_table("shop.b", reason="a key is there twice", hint="", position=at)
        listed = sluice("ddl", "list", "shop", "--json", *options)
        refused = sluice("ddl", "approve", "shop", "shop.b", "--lake", str(tmp_path), *options)
        rejected = sluice("ddl", "reject", "shop", "shop.a", "--reason", "needed", "--json", *options)
        again = sluice("ddl", "reject", "shop", "shop.a", *options)
        stop = next(stop for stop in connector.client_status().stopped if stop.table == "shop.a")
    assert "no statement waits" in nothing.stdout
    assert json.loads(listed.stdout) == {
        "table": "shop.a",
        "statement": "DROP TABLE a",
        "position": "mysql-bin.000001:4",
    }
    assert (refused.returncode, "no statement of shop.b waits" in refused.stderr) == (1, True)
    told = {"table": "shop.a", "rejected": True, "statement": "DROP TABLE a", "reason": "needed"}
    assert json.loads(rejected.stdout) == told
    assert stop.reason == "a change was rejected (needed): DROP TABLE a"
    assert "sluice copy shop shop.a" in stop.hint
    assert (again.returncode, "no statement of shop.a waits" in again.stderr) == (1, True)


@pytest.mark.parametrize("verb", ["start", "stop", "reload"])
def test_a_destination_is_switched(verb: str) -> None:
    """The service does it, and the new status is shown; an unknown destination is a failure."""
    with opened(HttpDoor(Server(Destination()), "127.0.0.1", 0)) as door:
        done = sluice("destination", verb, "shop", "--json", "--service", door.url)
        assert (done.returncode, json.loads(done.stdout)["destination"]) == (0, "shop")
        assert "shop" in sluice("destination", verb, "shop", "--service", door.url).stdout
        missing = sluice("destination", verb, "nobody", "--service", door.url)
    assert missing.returncode == 1
    assert "no destination 'nobody'" in missing.stderr
    assert "--json" in sluice("destination", verb, "--help").stdout
    assert sluice("destination", verb).returncode == 2


def test_positions_are_shown() -> None:
    """A table for people and a list for programs; a destination that fails does not hide the others."""
    server = Server(Destination())
    with opened(HttpDoor(server, "127.0.0.1", 0)) as door:
        shown = sluice("positions", "shop", "--service", door.url)
        told = sluice("positions", "--json", "--service", door.url)
        server.away = True
        away = sluice("positions", "--json", "--service", door.url)
        named = sluice("positions", "shop", "--service", door.url)
    assert shown.returncode == 0
    assert "8,996" in shown.stdout
    assert [one["destination"] for one in json.loads(told.stdout)] == ["shop"]
    assert (away.returncode, json.loads(away.stdout)[0]["error"]["error"]) == (1, "SourceUnavailable")
    assert (named.returncode, "cannot be reached" in named.stderr) == (1, True)


def test_clients_are_shown_and_forgotten() -> None:
    """All of them with what they hold; one that is not there is named before anything is done."""
    destination = Destination()
    destination.put(3)
    destination.claim(1001, 1, 0.0, "test", 60.0)
    with opened(HttpDoor(Server(destination), "127.0.0.1", 0)) as door:
        shown = sluice("client", "list", "shop", "--service", door.url)
        told = sluice("client", "list", "shop", "--json", "--service", door.url)
        absent = sluice("client", "remove", "shop", "1002", "--service", door.url)
        before = list(destination.calls)
        gone = sluice("client", "remove", "shop", "1001", "--json", "--service", door.url)
    assert (shown.returncode, "1001" in shown.stdout) == (0, True)
    assert [len(client["claims"]) for client in json.loads(told.stdout)] == [1]
    assert (absent.returncode, "client 1002 is not subscribed" in absent.stderr) == (1, True)
    assert ("unsubscribe", 1002) not in before
    assert (gone.returncode, json.loads(gone.stdout)["removed"]) == (0, True)
    assert ("unsubscribe", 1001) in destination.calls


@pytest.mark.in_turn
def test_a_reset_is_shown_before_it_is_done() -> None:
    """Nothing happens without --yes, nothing is skipped without --skip. Exactly one well-formed place is allowed."""
    destination = Destination()
    with opened(HttpDoor(Server(destination), "127.0.0.1", 0)) as door:
        told = sluice("reset", "shop", "--earliest", "--service", door.url)
        sluice("reset", "shop", "--timestamp", "2026-11-21T12:00:00.5Z", "--service", door.url)
        ahead = ("reset", "shop", "--position", "bin.000002:4", "--all", "--yes", "--json", "--service", door.url)
        refused, done = sluice(*ahead), sluice(*ahead, "--skip")
    assert (told.returncode, "Nothing was done" in told.stdout, "77 bytes" in told.stdout) == (0, True, True)
    assert (refused.returncode, "would be skipped" in refused.stdout) == (1, True)
    assert json.loads(done.stdout)["done"] is True
    assert [(target, dry) for _, target, dry in destination.calls] == [
        (RewindTarget("earliest", 1001), True),
        (RewindTarget(1_795_262_400_500, 1001), True),
        (RewindTarget(EntryPosition("bin.000002", 4)), True),
        (RewindTarget(EntryPosition("bin.000002", 4)), True),
        (RewindTarget(EntryPosition("bin.000002", 4)), False),
    ]
    for wrong in ([], ["--earliest", "--latest"], ["--position", "bin:x"], ["--timestamp", "noon"]):
        assert sluice("reset", "shop", *wrong).returncode == 2


def test_a_failure_has_message_place_and_remedy() -> None:
    """There is no traceback, and the exit code is 1."""
    url = f"http://127.0.0.1:{free_port()}"
    done = sluice("status", "--service", url)

    assert done.returncode == 1
    assert done.stderr.startswith("error: the service does not answer")
    assert f"at: {url}" in done.stderr
    assert "hint: " in done.stderr
    assert "Traceback" not in done.stderr


def test_a_failure_as_json_has_the_same_parts() -> None:
    """A program can read message, place and hint."""
    done = sluice("status", "--json", "--service", f"http://127.0.0.1:{free_port()}")

    assert set(json.loads(done.stdout)) == {"error", "message", "place", "hint"}
    assert done.returncode == 1


def test_up_names_the_missing_file(tmp_path: Path) -> None:
    """A configuration directory without canal.properties is refused."""
    done = sluice("up", "--conf", str(tmp_path), "--lake", str(tmp_path / "lake"))

    assert done.returncode == 1
    assert str(tmp_path / "canal.properties") in done.stderr


def test_a_taken_port_is_named_with_its_remedy(tmp_path: Path) -> None:
    """Before anything is started."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError) as caught:
            Ports(free_port(), free_port(), port).check_free()

    assert str(caught.value).startswith(f"port {port} is taken")
    assert "--dagster-port" in caught.value.hint


@pytest.mark.parametrize(
    ("settings", "also"),
    [
        ("", {"tcp": 11111}),
        ("canal.withoutNetty = true", {}),
        ("canal.admin.passwd = 6BB4837EB74329105EE4568DDA7DC67ED2CA2AD9", {"tcp": 11111, "admin": 11110}),
    ],
)
def test_the_server_reports_its_open_doors(tmp_path: Path, settings: str, also: dict[str, int]) -> None:
    """As JSON, before it serves: the ports that are open, and no others."""
    http = free_port()
    (tmp_path / "canal.properties").write_text(f"canal.metrics.pull.port = {http}\n{settings}\n")
    taken = socket.create_server(("127.0.0.1", http))  # so that it ends by itself
    try:
        told = sluice("server", "--json", "--conf", str(tmp_path))
    finally:
        taken.close()
    assert told.returncode == 1
    assert json.loads(told.stdout.splitlines()[0]) == {"http": http, "flight": 11113, **also}


def test_what_a_command_starts_in_the_background_ignores_no_signal() -> None:
    """A shell without job control starts a program in the background with an ignored SIGINT. What it starts in turn
    must not have it: Dagster takes its own handling of SIGTERM from there."""
    code = (
        "import subprocess, orchestration.cli as cli\n"
        "cli.app = lambda **_: print(subprocess.check_output(['grep', 'SigIgn', '/proc/self/status'], text=True))\n"
        "cli.main()\n"
    )
    started = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "-c", code]
    ignored = int(subprocess.check_output(started, text=True, timeout=60).split()[1], 16)
    assert not ignored & 1 << signal.SIGINT - 1
