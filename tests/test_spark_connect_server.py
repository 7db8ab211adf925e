"""spark_jobs.connect_server: what it says when it cannot start, and what it asks of Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_core.errors import LakeError
from spark_jobs.connect_server import SparkSettings, delta_artifact, settings_of_spark, start


def test_the_artifact_follows_the_installed_packages() -> None:
    """Group, artifact with Spark's line and Scala's, and version."""
    group, artifact, revision = delta_artifact().split(":")
    assert (group, artifact) == ("io.delta", "delta-spark_4.2_2.13")
    assert revision


def test_it_is_local_and_the_users_settings_win(tmp_path: Path) -> None:
    """Loopback unless configured; as many shuffle partitions as cores."""
    conf = {"spark.sql.session.timeZone": "Europe/Berlin"}
    asked = settings_of_spark(SparkSettings(7, tmp_path, tmp_path, master="local[3]", conf=conf))
    assert asked["spark.connect.grpc.binding.address"] == "127.0.0.1"
    assert asked["spark.sql.shuffle.partitions"] == "3"
    assert asked["spark.sql.session.timeZone"] == "Europe/Berlin"


@pytest.mark.integration
def test_a_server_that_ends_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    """A master that does not exist: the log file is named."""
    with pytest.raises(LakeError, match=r"spark-connect.log") as caught:
        start(SparkSettings(34655, tmp_path, tmp_path, master="nonsense"))
    assert "ended" in caught.value.message
