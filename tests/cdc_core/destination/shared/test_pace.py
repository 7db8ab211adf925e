"""When destinations share a connection."""

from __future__ import annotations

import pytest

from cdc_core.config import InstanceConfig
from cdc_core.destination.shared.pace import Retry, enough, is_beginning, shareable
from tests.support.shared_journals import cut, journal


@pytest.mark.parametrize(
    ("values", "shares"),
    [({}, False), ({"dump_shared": True}, True), ({"dump_shared": True, "gtid_mode": True}, False)],
)
def test_which_destinations_share(values: dict[str, bool], shares: bool) -> None:
    """Those that say so; by GTID each asks for what it lacks itself."""
    assert shareable(InstanceConfig.model_validate({"destination": "d"} | values)) is shares


def test_a_connection_begins_at_a_transactions_start() -> None:
    """Of the block that a destination has read last."""
    whole = journal("b.1", ["a", "b"])
    assert is_beginning(cut(whole, 5, 10))
    assert not is_beginning(cut(whole, 7, 10))
    assert not is_beginning(cut(whole, 5, 5))


def test_one_destination_has_its_own_connection() -> None:
    """Two share."""
    assert [enough(count) for count in (0, 1, 2, 200)] == [False, False, True, True]


def test_failures_in_a_row_are_retried_later_and_later() -> None:
    """Until one try lasted."""
    retry = Retry((5.0, 60.0))
    assert retry.ready(0.0)
    pauses = []
    for lasted in (1.0, 1.0, 1.0, 1.0, 1.0, 61.0):
        retry.failed(100.0, lasted)
        pauses.append(next(pause for pause in range(100) if retry.ready(100.0 + pause)))
    assert pauses == [5, 10, 20, 40, 60, 5]
