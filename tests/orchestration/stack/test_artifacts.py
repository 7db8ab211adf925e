"""Downloads: pinned, whole, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_core.errors import ConfigError
from orchestration.stack import artifacts, ivy
from orchestration.stack.ivy import Artifact


def test_a_jar_with_other_bytes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes without the pinned hash are an error, and nothing of them is kept."""
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path))
    artifact = Artifact("o", "n", "1", "0" * 64)

    def deliver(_: Artifact, directory: Path, *__: object, **___: object) -> list[str]:
        (directory / "n-1.jar").write_bytes(b"something else")
        return []

    monkeypatch.setattr(ivy, "_retrieve", deliver)
    with pytest.raises(ConfigError, match="expected 0000"):
        artifacts.prepare("n", "n-1.jar", lambda directory: ivy.fetch(artifact, directory) and None)

    assert [path.name for path in (tmp_path / "artifacts").iterdir()] == ["n.lock"]


def test_what_is_half_done_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory without its marker is replaced; one with it is used as it is."""
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path))
    (artifacts.artifacts_dir() / "server").mkdir()
    (artifacts.artifacts_dir() / "server" / "rubbish").touch()
    fills: list[Path] = []

    def fill(directory: Path) -> None:
        fills.append(directory)
        (directory / "marker").touch()

    prepared = [artifacts.prepare("server", "marker", fill) for _ in range(2)]

    assert [path.name for path in prepared[0].iterdir()] == ["marker"]
    assert prepared[0] == prepared[1]
    assert len(fills) == 1
