"""spark_jobs.connect_server: command line, environment and configuration of the server."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from spark_jobs.connect_server import SparkSettings, command, delta_artifact, environment, spark_conf


def test_the_artifact_follows_the_installed_packages() -> None:
    """Group, artifact with the lines of Spark and Scala, and version."""
    group, artifact, revision = delta_artifact().split(":")
    assert (group, artifact) == ("io.delta", "delta-spark_4.2_2.13")
    assert revision


def test_it_is_local_and_the_users_settings_win(tmp_path: Path) -> None:
    """Loopback unless configured; as many shuffle partitions as cores."""
    conf = {"spark.sql.session.timeZone": "Europe/Berlin"}
    asked = spark_conf(SparkSettings(7, tmp_path, tmp_path, master="local[3]", conf=conf))
    assert asked["spark.connect.grpc.binding.address"] == "127.0.0.1"
    assert asked["spark.sql.shuffle.partitions"] == "3"
    assert asked["spark.sql.session.timeZone"] == "Europe/Berlin"


def test_the_command_line_and_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Class, memory and all settings of the server; the SPARK_REMOTE of a client does not reach it."""
    monkeypatch.setenv("SPARK_REMOTE", "sc://elsewhere")
    settings = SparkSettings(7, tmp_path, tmp_path, driver_memory="3g")
    line = command(settings)

    assert line[line.index("--driver-memory") + 1] == "3g"
    assert {f"{key}={value}" for key, value in spark_conf(settings).items()} < set(line)
    assert environment(settings)["SPARK_REMOTE"] is None


@pytest.mark.parametrize("folder", ["lake", "the;lake 'of\" $x\\y"])
def test_no_path_is_in_the_metastores_address(folder: str, tmp_path: Path) -> None:
    """A `;` would end it. Derby's home and log are options of Java, of which Spark's launcher takes each as one word;
    what Hive writes for itself is in the scratch folder."""
    settings = SparkSettings(7, tmp_path, tmp_path / folder / "spark", metastore=tmp_path / folder / "metastore")
    asked, line = spark_conf(settings), command(settings)
    options = line[line.index("--driver-java-options") + 1]

    assert asked["spark.hadoop.javax.jdo.option.ConnectionURL"] == "jdbc:derby:;databaseName=derby;create=true"
    assert launched(options)[-2:] == [
        f"-Dderby.system.home={settings.metastore}",
        f"-Dderby.stream.error.file={settings.directory / 'derby.log'}",
    ]
    for key in ("hive.exec.scratchdir", "hive.exec.local.scratchdir", "hive.downloaded.resources.dir"):
        assert Path(asked[f"spark.hadoop.{key}"]).is_relative_to(settings.directory / "scratch")


def launched(options: str) -> list[str]:
    """The words that Spark's launcher makes of them, as a shell does."""
    return shlex.split(options)
