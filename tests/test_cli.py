"""The command as a user types it: exit codes, help, errors in three parts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from cdc_core.config import load_service
from cdc_core.doors.http import HttpDoor
from cdc_core.errors import ConfigError
from cdc_core.position import EntryPosition
from cdc_core.rewind import Target
from orchestration.commands.up import defs_folder
from orchestration.stack.home import free_port
from orchestration.stack.ports import Ports
from tests.door_double import Instance, Server, opened


def sluice(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "orchestration.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("command", ["demo", "up", "server", "status", "positions", "reset", "verify"])
def test_every_command_explains_itself(command: str) -> None:
    """Help is there, with --json among the options."""
    done = sluice(command, "--help")

    assert done.returncode == 0
    assert "--json" in done.stdout


def test_help_imports_nothing_heavy() -> None:
    """The command answers at once: neither Dagster nor Spark nor the compiler is loaded for it."""
    code = "import sys, orchestration.cli; print([m for m in ('dagster', 'pyspark', 'numba') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_bad_usage_is_two() -> None:
    """An option that is not there."""
    assert sluice("status", "--nonsense").returncode == 2


def test_the_version_is_told() -> None:
    """For people and for programs."""
    assert sluice("--version").stdout.startswith("sluice 0.")
    assert json.loads(sluice("--json", "--version").stdout)["version"].startswith("0.")


@pytest.mark.parametrize("verb", ["start", "stop", "reload"])
def test_a_destination_is_switched(verb: str) -> None:
    """The service does it; the status after it is shown; a destination that is not there is a failure."""
    with opened(HttpDoor(Server(Instance()), "127.0.0.1", 0)) as door:
        done = sluice("destination", verb, "shop", "--json", "--service", door.url)
        assert (done.returncode, json.loads(done.stdout)["destination"]) == (0, "shop")
        assert "shop" in sluice("destination", verb, "shop", "--service", door.url).stdout
        missing = sluice("destination", verb, "nobody", "--service", door.url)
    assert missing.returncode == 1
    assert "no destination 'nobody'" in missing.stderr
    assert "--json" in sluice("destination", verb, "--help").stdout
    assert sluice("destination", verb).returncode == 2


def test_positions_are_shown() -> None:
    """A table for people, a list for programs; one destination that cannot tell does not hide the others."""
    server = Server(Instance())
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


def test_a_reset_is_told_before_it_is_done() -> None:
    """Nothing happens without --yes; one place, well formed, else bad usage."""
    instance = Instance()
    with opened(HttpDoor(Server(instance), "127.0.0.1", 0)) as door:
        told = sluice("reset", "shop", "--earliest", "--service", door.url)
        sluice("reset", "shop", "--timestamp", "2026-11-21T12:00:00.5Z", "--service", door.url)
        done = sluice("reset", "shop", "--position", "bin.000002:4", "--all", "--yes", "--json", "--service", door.url)
    assert (told.returncode, "Nothing was done" in told.stdout, "77 bytes" in told.stdout) == (0, True, True)
    assert json.loads(done.stdout)["done"] is True
    assert [(target, dry) for _, target, dry in instance.calls] == [
        (Target("earliest", 1001), True),
        (Target(1_795_262_400_500, 1001), True),
        (Target(EntryPosition("bin.000002", 4)), False),
    ]
    for wrong in ([], ["--earliest", "--latest"], ["--position", "bin:x"], ["--timestamp", "noon"]):
        assert sluice("reset", "shop", *wrong).returncode == 2


def test_a_failure_has_message_place_and_remedy() -> None:
    """No traceback; exit code 1."""
    url = f"http://127.0.0.1:{free_port()}"
    done = sluice("status", "--service", url)

    assert done.returncode == 1
    assert done.stderr.startswith("error: the service does not answer")
    assert f"at: {url}" in done.stderr
    assert "hint: " in done.stderr
    assert "Traceback" not in done.stderr


def test_a_failure_as_json_has_the_same_parts() -> None:
    """What a program reads."""
    done = sluice("status", "--json", "--service", f"http://127.0.0.1:{free_port()}")

    assert set(json.loads(done.stdout)) == {"error", "message", "place", "hint"}
    assert done.returncode == 1


def test_up_names_the_missing_file(tmp_path: Path) -> None:
    """A configuration directory without canal.properties."""
    done = sluice("up", "--conf", str(tmp_path), "--lake", str(tmp_path / "lake"))

    assert done.returncode == 1
    assert str(tmp_path / "canal.properties") in done.stderr


def test_a_taken_port_is_named_with_its_remedy(tmp_path: Path) -> None:
    """Before anything is started."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError) as caught:
            Ports(free_port(), free_port(), port).check_free()

    assert str(caught.value).startswith(f"port {port} is taken")
    assert "--dagster-port" in caught.value.hint


def test_up_makes_a_component_for_each_destination(tmp_path: Path) -> None:
    """Without a defs.yaml of the user's, every configured destination goes to the lake."""
    (tmp_path / "canal.properties").write_text("canal.destinations = a,b\ncanal.metrics.pull.port = 1234\n")
    service, _ = load_service(tmp_path)
    folder = defs_folder(None, tmp_path / "state", ["a", "b"], "/lake", service, "sc://127.0.0.1:1")

    made = {path.parent.name: yaml.safe_load(path.read_text())["attributes"] for path in folder.glob("*/defs.yaml")}
    assert sorted(made) == ["a", "b"]
    assert made["a"]["lake"] == "/lake"
    assert made["a"]["service"]["http"] == "http://127.0.0.1:1234"


def test_up_takes_one_file_or_a_folder(tmp_path: Path) -> None:
    """A file is put into a folder as Dagster wants it; a folder is used as it is."""
    (tmp_path / "canal.properties").write_text("")
    service, _ = load_service(tmp_path)
    file = tmp_path / "mine" / "defs.yaml"
    file.parent.mkdir()
    file.write_text("type: x\n")

    made = defs_folder(file, tmp_path / "state", [], "/lake", service, "sc://x")
    assert (made / "mine" / "defs.yaml").read_text() == "type: x\n"
    assert defs_folder(tmp_path, tmp_path / "state", [], "/lake", service, "sc://x") == tmp_path
