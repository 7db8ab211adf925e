"""When the events of the log arrived: exact for few blocks, bounded for many, and not known for those of before."""

from __future__ import annotations

from cdc_core.store.arrival_times import Arrival, ArrivalTimes


def at(second: float) -> Arrival:
    return Arrival(second, second, second)


def test_an_event_arrived_with_its_block() -> None:
    """The times are those of the block; what came before the first one, or did not come yet, has none."""
    arrivals = ArrivalTimes()
    arrivals.note(10, 15, at(1), 0)
    arrivals.note(15, 15, at(2), 0)  # nothing of it was kept
    arrivals.note(15, 20, at(3), 0)
    assert [arrivals.at(place) for place in (9, 10, 14, 15, 19, 20)] == [None, at(1), at(1), at(3), at(3), None]


def test_events_that_come_again_have_their_new_time() -> None:
    """The open transaction is dropped when a connection breaks, and read again."""
    arrivals = ArrivalTimes()
    arrivals.note(0, 5, at(1), 0)
    arrivals.note(5, 9, at(2), 0)
    arrivals.note(5, 12, at(7), 0)
    assert [arrivals.at(place) for place in (4, 5, 11)] == [at(1), at(7), at(7)]


def test_many_blocks_take_bounded_memory() -> None:
    """Those that are acked go first; of those that wait, two blocks then share the later one's times."""
    arrivals = ArrivalTimes(most=8)
    for number in range(100):
        arrivals.note(number, number + 1, at(number), max(0, number - 2))
    assert len(arrivals._ends) <= 8
    assert [arrivals.at(place) for place in (98, 99)] == [at(98), at(99)]
    waiting = ArrivalTimes(most=8)
    for number in range(1000):
        waiting.note(number, number + 1, at(number), 0)
    assert len(waiting._ends) <= 8
    found = waiting.at(0)
    assert found is not None
    assert found.stored < 1000
    assert waiting.at(999) == at(999)
