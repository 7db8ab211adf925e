"""What the commands show in a terminal of 80 columns: every position whole, on one line."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from cdc_core.client.operator_calls import ResetResult
from cdc_core.contract.failover import Detected
from cdc_core.contract.status import SourceStatus, Status
from cdc_core.doors.http import HttpDoor
from cdc_core.position import EntryPosition
from orchestration.commands import positions, status, terminal
from orchestration.verbs.report import Done
from orchestration.verbs.reset import text
from tests.support.door_double import Destination, Server, opened

PLACES = ("mysql-bin.000003:4294967295", "mysql-bin.1234567:4294967295", "db-7-binlog.000123:1234567890")
NAMES = ("shop", "orders-of-the-european-market-from-the-second-datacentre", "x" * 120)
SOURCES = ("127.0.0.1:3306", "production.c9akciq32xyz.eu-central-1.rds.amazonaws.com:3306", None)


def in_terminal(*arguments: str, columns: int = 80) -> str:
    """What `sluice` prints in a pseudo-terminal of that width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    command = [sys.executable, "-m", "orchestration.cli", *arguments]
    child = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment | {"TERM": "xterm"})
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 65536):
            shown += piece
    except OSError:  # Linux's end of a terminal
        pass
    finally:
        os.close(ours)
    child.wait(120)
    return shown.decode()


def journal(place: str) -> dict[str, Any]:
    name, _, offset = place.partition(":")
    return {"journalName": name, "position": int(offset), "timestamp": None, "serverId": None, "gtid": ""}


@pytest.fixture
def console(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Catches what is printed, 80 columns wide."""
    shown = io.StringIO()
    for module in (status, positions):
        monkeypatch.setattr(module, "Console", lambda: Console(file=shown, width=80))
    real = Console(file=shown, width=80, force_terminal=True, color_system=None)
    monkeypatch.setattr(terminal, "Console", lambda: real)
    return shown


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("source", SOURCES)
def test_status_shows_the_whole_position(console: io.StringIO, name: str, source: str | None, place: str) -> None:
    """With long names, a note of many words and large figures too; no line is wider than the terminal."""
    shown = Status(
        name,
        "standby",
        SourceStatus(source, detected=Detected("standby")),
        position=EntryPosition.from_dict(journal(place)),
        lag_seconds=86_400.0,
        backlog_rows=1_234_567_890,
        note="server 10.100.200.100:11111 of the cluster runs it",
    )
    status.show([shown, replace(shown, destination="shop", position=None)])

    lines = console.getvalue().splitlines()
    assert any(place in line for line in lines)
    assert max(map(len, lines)) <= 80
    assert name in "".join(console.getvalue().split()) or len(name) > 20


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", NAMES)
def test_positions_show_both_ends_whole(console: io.StringIO, name: str, place: str) -> None:
    """The cursor and the source's end; the figures between them are all there."""
    client = {"client_id": 1001, "epoch": 3, "cursor": journal(place), "purged": False}
    client |= {"bytes": 123_456_789_012, "transactions": 12_345_678, "seconds": 86_400.4, "files_left": 1_234}
    end = place.replace(":", "9:")
    answer = {"destination": name, "source": SOURCES[1], "end": journal(end), "clients": [client]}
    positions.show([answer])

    lines = console.getvalue().splitlines()
    assert any(place in line for line in lines)
    assert any(end in line for line in lines)
    assert max(map(len, lines)) <= 80
    for figure in ("123,456,789,012 bytes", "12,345,678 transactions", "86,400 s", "1,234 files left"):
        assert figure in " ".join(" ".join(line[30:].split()) for line in lines).replace("  ", " ")


@pytest.mark.parametrize("place", PLACES)
def test_a_reset_shows_both_places_whole(console: io.StringIO, place: str) -> None:
    """From where, and to where."""
    move = {"client_id": 1001, "from": journal(place), "moved": True}
    move |= {"again_bytes": 123_456_789_012, "skipped_bytes": 123_456_789_012}
    answer = {"destination": NAMES[1], "to": journal(place), "done": False, "clients": [move]}
    done = Done(text(ResetResult.from_dict(answer)), {})
    terminal.Terminal(as_json=False).one("*", lambda: done, "store")

    lines = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", console.getvalue()).splitlines()
    assert sum(place in line for line in lines) == 2
    assert max(map(len, lines)) <= 80


@pytest.mark.in_turn
def test_a_real_terminal_shows_them_too() -> None:
    """A pseudo-terminal of 80 columns; nothing is cut with an ellipsis."""
    with opened(HttpDoor(Server(Destination()), "127.0.0.1", 0)) as door:
        shown = {command: in_terminal(command, "--service", door.url) for command in ("status", "positions")}
        shown["reset"] = in_terminal("reset", "shop", "--earliest", "--service", door.url)

    assert "mysql-bin.000003:9000" in shown["status"]
    assert "mysql-bin.000003:9000" in shown["positions"]
    assert "mysql-bin.000003:4 " in shown["positions"]
    assert "mysql-bin.000002:4" in shown["reset"]
    assert not any("…" in text for text in shown.values())
