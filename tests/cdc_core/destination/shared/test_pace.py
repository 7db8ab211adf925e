"""When destinations share a connection."""

from __future__ import annotations

from cdc_core.destination.shared.pace import enough, is_beginning
from tests.support.shared_journals import cut, journal


def test_a_connection_begins_at_a_transactions_start() -> None:
    """Of the block that a destination has read last."""
    whole = journal("b.1", ["a", "b"])
    assert is_beginning(cut(whole, 5, 10))
    assert not is_beginning(cut(whole, 7, 10))
    assert not is_beginning(cut(whole, 5, 5))


def test_one_destination_has_its_own_connection() -> None:
    """Two share."""
    assert [enough(count) for count in (0, 1, 2, 200)] == [False, False, True, True]
