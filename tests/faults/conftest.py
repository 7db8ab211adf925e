"""One stack for all faults. Each test leaves it whole and drained."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.faults.stack import Stack


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with ExitStack() as parts:
        started = Stack(tmp_path_factory.mktemp("faults"))
        started.start(parts)
        yield started
