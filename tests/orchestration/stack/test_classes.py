"""The archive of Spark's classes: made once for what it depends on, and never an obstacle."""

from __future__ import annotations

import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from orchestration.stack import artifacts, training
from orchestration.stack.classes import class_archive, make_class_archive
from orchestration.stack.delta import delta_jars
from spark_jobs.connect_server import class_options


def test_it_is_made_once_for_a_set_of_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A jar that changes needs another one. One whose making failed is not there, and is made the next time."""
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path / "home"))
    jars, made = tmp_path / "jars", []
    jars.mkdir()
    (jars / "delta.jar").write_bytes(b"one")

    def fill(archive: Path) -> None:
        archive.write_bytes(b"half")
        made.append(archive)
        if len(made) == 1:
            raise OSError("no space")

    assert class_archive(jars) is None
    with pytest.raises(OSError, match="no space"):
        make_class_archive(jars, fill)
    assert class_archive(jars) is None
    assert make_class_archive(jars, fill) == make_class_archive(jars, fill) == class_archive(jars)
    assert len(made) == 2
    (jars / "delta.jar").write_bytes(b"other")
    assert class_archive(jars) is None


def test_those_of_jars_that_are_no_more_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one that another Delta's jars need, nor one that does not say what it was made of."""
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path / "home of mine"))

    def fill(archive: Path) -> None:
        archive.write_bytes(b"classes")

    def made(name: str, content: bytes) -> Path:
        jars = tmp_path / name
        jars.mkdir(exist_ok=True)
        (jars / "delta 4.jar").write_bytes(content)
        return make_class_archive(jars, fill)

    unknown = artifacts.artifacts_dir() / "spark-classes-0123" / "classes.jsa"
    unknown.parent.mkdir()
    unknown.write_bytes(b"classes")
    first, other = made("jars", b"one"), made("others", b"two")
    second = made("jars", b"three")
    assert [one.exists() for one in (first, other, second, unknown)] == [False, True, True, True]


def test_one_that_is_not_written_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`make setup` goes on without."""
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path))
    monkeypatch.setattr(training, "delta_jars", lambda: tmp_path)
    monkeypatch.setattr(training, "SparkConnect", _Silent)
    monkeypatch.setattr("spark_jobs.warming.warm_up.WarmUp", _Silent)
    assert training.main() == 1
    assert "Java wrote no archive" in capsys.readouterr().err
    assert [path.suffix for path in artifacts.artifacts_dir().iterdir() if path.name.startswith("spark")] == [".lock"]


class _Silent:
    """A server or a warm-up that does nothing."""

    remote = "sc://127.0.0.1:1"

    def __init__(self, *_: object, **__: object) -> None: ...

    def __enter__(self) -> _Silent:
        return self

    def __exit__(self, *_: object) -> None: ...

    def run(self) -> None: ...

    def tail(self, _lines: int) -> str:
        return ""


@pytest.mark.parametrize("content", [None, b"", b"torn" * 5000], ids=["gone", "empty", "torn"])
def test_java_goes_on_without_one(content: bytes | None, tmp_path: Path) -> None:
    """And says nothing of it."""
    archive = tmp_path / "classes.jsa"
    if content is not None:
        archive.write_bytes(content)
    without, given = (
        subprocess.run(["java", *options, "-version"], capture_output=True, text=True, check=True)
        for options in ([], class_options(archive))
    )
    assert given.stdout == without.stdout
    assert given.stderr.replace(", sharing", "") == without.stderr.replace(", sharing", "")


@pytest.mark.integration
def test_a_server_maps_it(spark_remote: str) -> None:
    """Where `make setup` could make one."""
    archive = class_archive(delta_jars())
    if archive is None:
        pytest.skip("there is no archive of Spark's classes")
    port = urlsplit(spark_remote).port
    (pid,) = {one.pid for one in psutil.net_connections("tcp") if one.laddr.port == port and one.status == "LISTEN"}
    assert str(archive.resolve()) in {mapped.path for mapped in psutil.Process(pid).memory_maps()}
