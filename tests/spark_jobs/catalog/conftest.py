"""A Spark with a Hive metastore of its own, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from orchestration.stack.spark import SparkConnect
from tests.support.servers import free_port


@pytest.fixture(scope="session")
def hive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkConnect]:
    """The server, whose metastore is in Derby."""
    directory = tmp_path_factory.mktemp("hive")
    server = SparkConnect(directory / "spark", free_port(), metastore=directory / "metastore").start()
    yield server
    server.kill()
