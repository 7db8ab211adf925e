"""The environment of the readers: a virtual environment that is made once and kept, so that Sluice's own stays lean."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from orchestration.stack.artifacts import prepare
from scripts.environment import make_environment

_HERE = Path(__file__).parent
_PINNED = _HERE / "requirements.txt"


def readers_python() -> Path:
    """The Python of the environment. Skips the test where it cannot be made."""
    name = f"readers-{hashlib.sha256(_PINNED.read_bytes()).hexdigest()[:12]}"
    try:
        return prepare(name, "made", _fill) / "bin" / "python"
    except subprocess.CalledProcessError as error:
        pytest.skip(f"the readers cannot be installed: {error.stderr[-300:]}")


def read(python: Path, reader: str, paths: Sequence[str]) -> dict[str, Any]:
    """What a reader finds: by path its rows as texts, or its error."""
    command = [str(python), str(_HERE / "cells.py"), reader, *paths]
    keeping = os.environ | {"PYTHONDONTWRITEBYTECODE": ""}  # uv leaves compiling to the first import
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True, env=keeping)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _fill(directory: Path) -> None:
    make_environment(directory, ["-r", str(_PINNED)])
    (directory / "made").touch()
