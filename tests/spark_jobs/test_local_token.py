"""spark_jobs.local_token: where a server's token is kept, and which addresses get it."""

from __future__ import annotations

import stat
import tempfile
from pathlib import Path

import pytest

from cdc_core.errors import ConfigError
from spark_jobs.local_token import new_token, publish, with_local_token, withdraw


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The folder that is tried first, and the one that is tried last."""
    state, last = tmp_path / "state", tmp_path / "tmp"
    last.mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    monkeypatch.setattr(tempfile, "tempdir", str(last))
    return state, last


def test_programs_of_the_user_find_it_until_it_is_withdrawn(folders: tuple[Path, Path]) -> None:
    """It is in one file, which its user alone can read, in a folder that its user alone can enter."""
    token = new_token()
    publish(15002, token)

    (file,) = [path for path in folders[0].rglob("*") if path.is_file()]
    assert file.read_text() == token
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert with_local_token("sc://127.0.0.1:15002") == f"sc://localhost:15002/;token={token}"

    withdraw(15002)
    assert with_local_token("sc://127.0.0.1:15002") is None
    assert not file.exists()


def test_a_file_that_all_could_read_is_replaced(folders: tuple[Path, Path]) -> None:
    """What lies in its place keeps neither its mode nor its target."""
    publish(15002, "old")
    (file,) = [path for path in folders[0].rglob("*") if path.is_file()]
    file.unlink()
    (other := folders[1] / "other").write_text("kept")
    file.symlink_to(other)
    publish(15002, "new")
    assert other.read_text() == "kept"
    assert not file.is_symlink()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("remote", "expected"),
    [
        ("sc://localhost", "sc://localhost:15002/;token=t"),
        ("sc://[::1]:15002", "sc://localhost:15002/;token=t"),
        ("sc://127.0.0.1:15002/;user_id=me", "sc://localhost:15002/;user_id=me;token=t"),
        ("sc://127.0.0.1:15003", None),
        ("sc://10.0.0.1:15002", None),
        ("sc://127.0.0.1:15002/;token=own", None),
        ("sc://localhost:15002/;use_ssl=true", None),
    ],
)
def test_only_its_server_gets_it(remote: str, expected: str | None) -> None:
    """A server on another machine or port gets none, nor one whose address has a token or TLS."""
    publish(15002, "t")
    assert with_local_token(remote) == expected


def test_a_folder_that_others_can_write_is_not_trusted(folders: tuple[Path, Path]) -> None:
    """Neither to write a token into it, nor to take one from it."""
    (folders[0] / "sluice").mkdir(parents=True, mode=0o777)
    (folders[0] / "sluice").chmod(0o777)
    (folders[0] / "sluice" / "spark-15002.token").write_text("theirs")
    assert with_local_token("sc://localhost:15002") is None

    publish(15002, "ours")
    assert with_local_token("sc://localhost:15002") == "sc://localhost:15002/;token=ours"
    assert any(folders[1].rglob("spark-15002.token"))


def test_without_a_folder_the_server_is_not_started(folders: tuple[Path, Path]) -> None:
    """Else nobody could call it."""
    for folder in folders:
        if folder.exists():
            folder.rmdir()
        folder.write_text("a file")
    with pytest.raises(ConfigError, match="XDG_STATE_HOME"):
        publish(15002, "t")
