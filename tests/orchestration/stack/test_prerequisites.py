"""System packages that are missing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cdc_core.errors import ConfigError
from orchestration.stack import prerequisites


def test_a_missing_package_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who may not install packages gets the exact command."""
    monkeypatch.setattr(prerequisites, "_may_install", lambda: False)
    with pytest.raises(ConfigError) as caught:
        prerequisites.need("libaio", lambda: False, ["libaio1"])

    assert caught.value.hint == "Run: sudo apt-get install -y --no-install-recommends libaio1"


APT = """#!/bin/sh
[ "$1 $2" = "-o DPkg::Lock::Timeout=600" ] || exit 2
mkdir {there}/lock || exit 100
sleep 0.3
touch {there}/installed
rmdir {there}/lock
"""


def test_two_that_miss_a_package_install_it_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """apt-get refuses a second one at a time."""
    apt = tmp_path / "apt-get"
    apt.write_text(APT.format(there=tmp_path))
    apt.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path))
    monkeypatch.setattr(prerequisites, "_may_install", lambda: True)
    notes: list[str] = []

    def need(_: int) -> None:
        prerequisites.need("libaio", (tmp_path / "installed").exists, ["libaio1"], notes.append)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(need, range(2)))

    assert notes == ["installing libaio1"]
