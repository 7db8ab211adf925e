"""Makes a virtual environment with packages: by uv, or by pip where uv cannot be had. Both take them from where this
Python's pip does. uv needs a fifth of pip's work and compiles nothing, which the first import of a module does."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from scripts.uv import variables

_PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")


def make_environment(directory: Path, packages: Sequence[str]) -> None:
    """Makes the environment, without pip. `packages` are pip's words: names, `-r FILE`, `-c FILE`. Raises
    CalledProcessError, with pip's reason."""
    _run([sys.executable, "-m", "venv", "--without-pip", str(directory)])
    python = str(directory / "bin" / "python")
    try:
        _by_uv(python, packages)
    except (subprocess.CalledProcessError, OSError):
        _run([*_PIP, "--python", python, "install", "--quiet", *packages])


def _by_uv(python: str, packages: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="sluice-uv-") as tools:
        _run([*_PIP, "install", "--quiet", "--target", tools, "uv"])
        uv = [str(Path(tools, "bin", "uv")), "pip", "install", "--quiet", "--python", python, *packages]
        _run(uv, variables(_run([*_PIP, "config", "list"])))


def _run(command: list[str], environment: dict[str, str] | None = None) -> str:
    variables_of_all = (environment or {}) | os.environ
    return subprocess.run(command, check=True, capture_output=True, text=True, env=variables_of_all).stdout
