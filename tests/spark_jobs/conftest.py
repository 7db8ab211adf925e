"""What the tests on Spark share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spark_jobs.session import Sessions
from tests.support.spark_feed import Feed, feed


@pytest.fixture
def service() -> Iterator[Feed]:
    """What gives claims and their rows, in place of a service."""
    with feed() as server:
        yield server


@pytest.fixture(scope="module")
def sessions(spark_remote: str) -> Iterator[Sessions]:
    """The sessions of one module's tests."""
    with Sessions(spark_remote) as pool:
        yield pool
