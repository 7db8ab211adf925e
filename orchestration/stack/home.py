"""Where the stack keeps its downloads and its state."""

from __future__ import annotations

import os
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]


def sluice_home() -> Path:
    """`SLUICE_HOME`; else `.sluice` in the checkout, or in the working directory of an installed package."""
    if named := os.environ.get("SLUICE_HOME"):
        return Path(named).expanduser().resolve()
    base = PROJECT if (PROJECT / "pyproject.toml").is_file() else Path.cwd()
    return base / ".sluice"
