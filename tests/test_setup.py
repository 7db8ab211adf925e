"""What `make setup` does before there is anything to import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scripts import environment
from scripts.uv import variables

LISTED = r"""
global.index-url='https://someone:secret@packages.example/simple'
global.timeout='60'
install.find-links='/one\n/other'
:env:.timeout='180'
:env:.disable-pip-version-check='1'
"""


def test_uv_takes_packages_from_where_pip_does() -> None:
    """pip's own variables win over its files, and an option that uv lacks is left out."""
    assert variables(LISTED) == {
        "UV_DEFAULT_INDEX": "https://someone:secret@packages.example/simple",
        "UV_FIND_LINKS": "/one,/other",
        "UV_HTTP_TIMEOUT": "180",
    }


@pytest.mark.parametrize("lacking", ["uv", "/bin/uv"])
def test_pip_installs_what_uv_cannot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lacking: str) -> None:
    """Whether there is no uv, or uv fails: the environment gets the same packages."""
    asked: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        if any(word.endswith(lacking) for word in command):
            raise subprocess.CalledProcessError(1, command, "", "no uv")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(environment.subprocess, "run", run)
    environment.make_environment(tmp_path, ["-r", "packages.txt"])

    assert asked[0] == [sys.executable, "-m", "venv", "--without-pip", str(tmp_path)]
    assert asked[-1][1:4] == ["-m", "pip", "--disable-pip-version-check"]
    assert asked[-1][4:] == ["--python", f"{tmp_path}/bin/python", "install", "--quiet", "-r", "packages.txt"]
