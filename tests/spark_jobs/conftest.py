"""What the tests on Spark share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spark_jobs.session import Sessions


@pytest.fixture(scope="module")
def sessions(spark_remote: str) -> Iterator[Sessions]:
    """The sessions of one module's tests."""
    with Sessions(spark_remote) as pool:
        yield pool
