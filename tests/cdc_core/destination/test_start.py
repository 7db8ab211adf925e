"""Where reading goes on: the store's last transaction, else the smallest cursor."""

from __future__ import annotations

import pytest

from cdc_core.destination.start import resume_position
from cdc_core.position import EntryPosition

LOW, MIDDLE, HIGH = (EntryPosition(name, 900) for name in ("bin.000009", "bin.000010", "bin.000011"))


@pytest.mark.parametrize(
    ("put", "cursors", "found"),
    [
        (HIGH, [LOW, MIDDLE], HIGH),
        (None, [HIGH, LOW, MIDDLE], LOW),
        (None, [None, MIDDLE], MIDDLE),
        (None, [None], None),
        (None, [], None),
        (LOW, [], LOW),
    ],
)
def test_memory_comes_first_then_the_smallest_cursor(
    put: EntryPosition | None, cursors: list[EntryPosition | None], found: EntryPosition | None
) -> None:
    """By number, not by the journal's name as text; clients without a cursor do not count."""
    assert resume_position(put, cursors) == found
