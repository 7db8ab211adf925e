"""cdc_core.meta.reached: what is known of a client that goes on at its kept cursor."""

from __future__ import annotations

import pytest

from cdc_core.contract.reached import How, Reached
from cdc_core.meta.reached import mark_of, resumed
from cdc_core.position import EntryPosition, LogPosition


def cursor(offset: int, host: str = "db1", port: int = 3306) -> LogPosition:
    return LogPosition(host, port, EntryPosition("bin.000003", offset))


KEPT = Reached(How.BATCH, 0, EntryPosition("bin.000003", 100))


@pytest.mark.parametrize(
    ("there", "how"),
    [
        (cursor(500), How.BATCH),
        (cursor(400), How.BATCH),  # set back: rows come again
        (cursor(500, host="127.0.0.1"), How.BATCH),
        (cursor(501), How.FOREIGN),
        (cursor(400, host="db2"), How.FOREIGN),
        (cursor(500, port=3307), How.FOREIGN),
    ],
)
def test_a_cursor_that_another_program_moved_is_seen(there: LogPosition, how: How) -> None:
    """One that was moved ahead, or to another server. Another name of the same host is none."""
    found = resumed(there, KEPT, mark_of(cursor(500)), 0)
    assert found.how is how
    assert found.position == (KEPT.position if how is How.BATCH else there.postion)


def test_the_cursor_of_an_older_version_is_taken_over() -> None:
    """Without a mark nothing shows whether another program moved it."""
    assert resumed(cursor(500), KEPT, None, 0) == KEPT
    assert resumed(cursor(500), None, None, 0).how is How.START
    assert resumed(cursor(500), KEPT, None, 1).how is How.RESET


def test_a_batch_that_comes_again_changes_nothing() -> None:
    """The end of the last acked batch only rises within an epoch."""
    assert KEPT.after(0, EntryPosition("bin.000003", 90)) is KEPT
    assert KEPT.after(1, EntryPosition("bin.000003", 90)).epoch == 1
    assert Reached.from_dict(KEPT.to_dict()) == KEPT
