"""The lags of the last day, and their plots."""

from __future__ import annotations

from cdc_core.monitor.history import MINUTES, LagHistory
from cdc_core.monitor.lag import ClientLag
from cdc_core.monitor.page import path_of
from cdc_core.monitor.picture import Picture

KEY = ("zk", "shop", 1001)
BEGIN = 60.0 * 30_000_000


def add(history: LagHistory, minute: float, lag: ClientLag | None) -> None:
    history.add(Picture(BEGIN + 60 * minute, lags={} if lag is None else {KEY: lag}))


def test_the_highest_of_a_minute_counts() -> None:
    """The newest minute is the last point; what is not known is no point."""
    history = LagHistory()
    for at, nbytes in ((0, 5), (0.5, 9), (0.9, 7), (1, 3)):
        add(history, at, ClientLag(nbytes=nbytes))

    assert history.nbytes(KEY, MINUTES)[-2:] == [9.0, 3.0]
    assert history.nbytes(KEY, MINUTES)[:-2] == [None] * (MINUTES - 2)
    assert history.seconds(KEY, 144) == [None] * 144
    assert history.nbytes(KEY, 144)[-1] == 9.0
    assert history.nbytes(("zk", "other", 1), 144) == []


def test_a_day_is_kept() -> None:
    """What is older gives way, also where nothing was known meanwhile; a client that is gone for a day is forgotten."""
    history = LagHistory()
    for minute in range(2 * MINUTES):
        add(history, minute, ClientLag(seconds=float(minute)))
    assert history.seconds(KEY, MINUTES) == [float(one) for one in range(MINUTES, 2 * MINUTES)]

    add(history, 2 * MINUTES + 9, None)
    assert history.seconds(KEY, MINUTES)[-10:] == [None] * 10
    assert history.seconds(KEY, MINUTES)[0] == MINUTES + 10
    add(history, 4 * MINUTES, None)
    assert history.seconds(KEY, MINUTES) == []


def test_a_clock_that_is_set_back() -> None:
    """The history goes on from there."""
    history = LagHistory()
    add(history, 100, ClientLag(nbytes=1))
    add(history, 50, ClientLag(nbytes=2))
    add(history, 51, ClientLag(nbytes=3))

    assert history.nbytes(KEY, MINUTES)[-2:] == [2.0, 3.0]


def test_very_many_clients_are_bounded() -> None:
    """The first 2,000 have a history."""
    history = LagHistory()
    history.add(Picture(BEGIN, lags={("zk", "d", at): ClientLag(nbytes=1) for at in range(2100)}))

    assert repr(history) == "<LagHistory of 2000 clients>"


def test_a_plot_has_gaps() -> None:
    """The highest value is at the top, and a line does not go over what is not known."""
    assert path_of([0, 10, None, 5], 30, 12) == "M0.0,11.0h.8L10.0,1.0M30.0,6.0h.8"
    assert path_of([None, None], 30, 12) == ""
    assert path_of([0.0], 30, 12) == "M0.0,11.0h.8"
