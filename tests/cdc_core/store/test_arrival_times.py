"""When the events of the log arrived: exact for few blocks, bounded for many, and not known for those of before."""

from __future__ import annotations

from cdc_core.store.arrival_times import Arrival, ArrivalTimes


def at(second: float) -> Arrival:
    return second, second, second


def noted(count: int, acked: int) -> ArrivalTimes:
    """So many events of one block each, of which all but the last ones are acked."""
    arrivals = ArrivalTimes(most=8)
    for number in range(count):
        arrivals.note(number, number + 1, at(number))
        if arrivals.too_many:
            arrivals.shorten(number - acked)
    return arrivals


def test_an_event_arrived_with_its_block() -> None:
    """The times are those of the block; what came before the first one, or did not come yet, has none."""
    arrivals = ArrivalTimes()
    arrivals.note(10, 15, at(1))
    arrivals.note(15, 15, at(2))  # nothing of it was kept
    arrivals.note(15, 20, at(3))
    assert [arrivals.at(place) for place in (9, 10, 14, 15, 19, 20)] == [None, at(1), at(1), at(3), at(3), None]


def test_events_that_come_again_have_their_new_time() -> None:
    """The open transaction is dropped when a connection breaks, and read again."""
    arrivals = ArrivalTimes()
    arrivals.note(0, 5, at(1))
    arrivals.note(5, 9, at(2))
    arrivals.note(5, 12, at(7))
    assert [arrivals.at(place) for place in (4, 5, 11)] == [at(1), at(7), at(7)]


def test_many_blocks_take_bounded_memory() -> None:
    """Those that are acked go first; of those that wait, two blocks then share the later one's times."""
    arrivals = noted(100, acked=3)
    assert len(arrivals._ends) <= 9
    assert [arrivals.at(place) for place in range(97, 100)] == [at(97), at(98), at(99)]
    waiting = noted(1000, acked=1000)
    assert len(waiting._ends) <= 9
    found = waiting.at(0)
    assert found is not None
    assert found[0] < 1000
    assert waiting.at(999) == at(999)
