"""Where the stack keeps what it downloads and writes. Does not create anything but directories."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

Notify = Callable[[str], None]
"""Told in one short line what takes a while."""

_PROJECT = Path(__file__).resolve().parents[2]


def quiet(_: str) -> None:
    """A `Notify` that says nothing."""


def sluice_home() -> Path:
    """`SLUICE_HOME`, else `.sluice` in the checkout, else (installed from a wheel) in the working directory."""
    if named := os.environ.get("SLUICE_HOME"):
        return Path(named).expanduser().resolve()
    base = _PROJECT if (_PROJECT / "pyproject.toml").is_file() else Path.cwd()
    return base / ".sluice"


def free_port() -> int:
    """A TCP port of the loopback address that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listening(port: int, host: str = "127.0.0.1") -> bool:
    """Whether somebody accepts connections there."""
    try:
        with socket.create_connection((host, port), timeout=1):
            return True
    except OSError:
        return False
