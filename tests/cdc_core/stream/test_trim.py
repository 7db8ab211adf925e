"""After a reconnect: what was put already is left out, without copying."""

from __future__ import annotations

import numpy as np
import pytest

from cdc_core.binlog.block import INDEX, Block
from cdc_core.errors import PositionError
from cdc_core.stream.trim import trim


def block() -> Block:
    index = np.zeros(3, INDEX)
    index["end"], index["length"] = [150, 200, 300], [50, 50, 100]
    return Block("mysql-bin.000001", 100, np.zeros(200, np.uint8), index)


@pytest.mark.parametrize(
    ("after", "ends"), [(50, [150, 200, 300]), (100, [150, 200, 300]), (150, [200, 300]), (200, [300])]
)
def test_the_rest_shares_the_bytes(after: int, ends: list[int]) -> None:
    """Events beyond `after`, from `after` on."""
    whole = block()
    rest = trim(whole, after)
    assert rest is not None
    assert rest.index["end"].tolist() == ends
    assert rest.start == max(after, 100)
    assert rest.data is whole.data


@pytest.mark.parametrize("after", [300, 1000])
def test_nothing_is_left(after: int) -> None:
    """A block that was put as a whole."""
    assert trim(block(), after) is None


@pytest.mark.parametrize("after", [120, 250])
def test_another_journal_is_noticed(after: int) -> None:
    """An offset inside an event is none that we put."""
    with pytest.raises(PositionError):
        trim(block(), after)


@pytest.mark.parametrize("after", [600, 1100])
def test_what_a_dump_by_gtid_left_out(after: int) -> None:
    """An offset among transactions that the server left out, or where the next one that it sent begins."""
    whole = block()
    whole.index["end"] += 1000
    rest = trim(whole, after)
    assert rest is not None
    assert (rest.start, rest.index["end"].tolist()) == (after, [1150, 1200, 1300])
    with pytest.raises(PositionError):
        trim(whole, 1101)
