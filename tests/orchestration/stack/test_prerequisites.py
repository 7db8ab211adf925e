"""System packages that are missing."""

from __future__ import annotations

import pytest

from cdc_core.errors import ConfigError
from orchestration.stack import prerequisites


def test_a_missing_package_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who may not install packages gets the exact command."""
    monkeypatch.setattr(prerequisites, "_may_install", lambda: False)
    with pytest.raises(ConfigError) as caught:
        prerequisites.need("libaio", lambda: False, ["libaio1"])

    assert caught.value.hint == "Run: sudo apt-get install -y --no-install-recommends libaio1"
