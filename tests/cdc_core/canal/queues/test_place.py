"""Places in messages' headers, their order, and the numbers of entries at one offset."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_core.canal.queues.place import Numbering, QueuePlace, behind
from cdc_core.canal.scan.entries import ENTRY
from cdc_core.position import OFFSET_BITS

PLACES = st.builds(QueuePlace, st.integers(0, 9), st.integers(0, 1 << 62), st.integers(0, 1 << 30), st.integers(0, 99))


@given(PLACES)
def test_a_header_is_read_as_it_was_written(place: QueuePlace) -> None:
    """By its writer; another writer's says nothing."""
    assert QueuePlace.read(place.header("shop/1001/aa"), "shop/1001/aa") == place
    assert QueuePlace.read(place.header("shop/1001/aa"), "shop/1001/ab") is None


@pytest.mark.parametrize("header", [b"", b"x", b"w 1:2:3", b"w 1:2:3:x", b"\xff\xfe w", b"w 1:2:3:4:5"])
def test_a_header_that_is_none(header: bytes) -> None:
    """Of another program: it says nothing."""
    assert QueuePlace.read(header, "w") is None


@given(PLACES, st.lists(PLACES, min_size=1, max_size=20))
def test_what_is_after_a_place(place: QueuePlace, others: list[QueuePlace]) -> None:
    """Of the same epoch what is larger; everything of another epoch."""
    for epoch in {other.epoch for other in others}:
        of_epoch = [other for other in others if other.epoch == epoch]
        columns = [np.array(column, np.int64) for column in zip(*(other[1:] for other in of_epoch), strict=True)]
        expected = [epoch != place.epoch or other > place for other in of_epoch]
        assert behind(place, epoch, *columns).tolist() == expected


@given(st.lists(st.tuples(st.integers(1, 3), st.sampled_from([1, 2, 3])), max_size=30), st.integers(0, 30))
def test_numbers_go_on_over_pieces(found: list[tuple[int, int]], cut: int) -> None:
    """Rows and statements at one offset count 0, 1, 2, wherever a piece ends; bounds of transactions do not count."""
    entries = np.zeros(len(found), ENTRY)
    entries["offset"] = sorted(offset for offset, _ in found)
    entries["type"] = [kind for _, kind in found]
    entries["journal_number"] = 5
    versions, whole, after = Numbering().of(entries)
    assert versions.tolist() == [5 << OFFSET_BITS | int(offset) for offset in entries["offset"]]
    rows = entries["type"] == 2
    for offset in set(entries["offset"].tolist()):
        numbers = whole[rows & (entries["offset"] == offset)].tolist()
        assert numbers == list(range(len(numbers)))
    _, first, between = Numbering().of(entries[:cut])
    _, second, last = between.of(entries[cut:])
    assert np.concatenate([first, second])[rows].tolist() == whole[rows].tolist()
    assert last == after
