"""Batches that are encoded before they are asked for."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import numpy as np

from cdc_core.canal.tcp.ahead import Ahead
from cdc_core.canal.tcp.buffers import Buffers
from cdc_core.canal.tcp.reply import Budget, Reply

ONE, TWO, THREE = ("shop", 1), ("shop", 2), ("shop", 3)


def reply(budget: Budget, content: bytes = b"entries") -> Reply:
    made = Reply(-1, budget)
    made.add(content)
    return made


def test_only_what_is_asked_for_is_handed_out() -> None:
    """The same range once; of another one the memory is given back."""
    ahead, budget = Ahead(), Budget(7)
    first = reply(budget)
    ahead.make(ONE, lambda: ("range 1", first))
    assert ahead.take(ONE, "range 1") is first
    assert ahead.take(ONE, "range 1") is None
    first.close()
    ahead.make(ONE, lambda: ("range 2", reply(budget)))
    assert ahead.take(ONE, "range 3") is None
    assert budget.take(7)


def test_a_request_waits_for_what_is_under_way() -> None:
    """It is not encoded twice."""
    ahead, budget, begun, go = Ahead(), Budget(7), threading.Event(), threading.Event()

    def slow() -> tuple[object, Reply]:
        begun.set()
        assert go.wait(10)
        return "range", reply(budget)

    making = threading.Thread(target=ahead.make, args=(ONE, slow))
    making.start()
    assert begun.wait(10)
    threading.Timer(0.1, go.set).start()
    found = ahead.take(ONE, "range")
    assert found is not None
    making.join()


def test_few_wait_at_a_time() -> None:
    """A third client has no place, until what nobody fetched for long makes room."""
    now = [0.0]
    ahead, budget = Ahead(2, lambda: now[0]), Budget(14)
    for client in (ONE, TWO, THREE):
        ahead.make(client, lambda: ("range", reply(budget)))
    assert ahead.take(THREE, "range") is None
    now[0] = 11.0
    ahead.make(THREE, lambda: ("range", reply(budget)))
    assert ahead.take(ONE, "range") is None
    assert ahead.take(THREE, "range") is not None


def test_errors_leave_no_trace() -> None:
    """The request itself meets them."""
    ahead = Ahead(1)

    def broken() -> Any:
        raise ValueError("damaged")

    with suppress(ValueError):
        ahead.make(ONE, broken)
    assert ahead.take(ONE, "range") is None
    ahead.make(ONE, lambda: None)
    ahead.make(TWO, lambda: ("range", reply(Budget(7))))
    assert ahead.take(TWO, "range") is not None


def test_buffers_are_used_again() -> None:
    """A reply that was sent gives its memory back; one that was not keeps it, as the system may still read it."""
    buffers, budget = Buffers(8 << 20), Budget(100 << 20)
    first = Reply(1, budget, buffers)
    space = first.space(3 << 20)
    first.add(space)
    first.close()
    again = Reply(2, budget, buffers)
    other = again.space(2 << 20)
    assert np.shares_memory(space, other)
    again.add(other)
    again.close(sent=False)
    assert not np.shares_memory(Reply(3, budget, buffers).space(2 << 20), other)


def test_buffers_keep_little() -> None:
    """What is larger than all that may be kept is freed, and small ones do not take the place of large ones."""
    buffers = Buffers(2 << 20)
    large, small = buffers.take(3 << 20), buffers.take(10)
    buffers.give(large)
    buffers.give(small)
    assert not np.shares_memory(buffers.take(3 << 20), large)
    fitting = buffers.take(2 << 20)
    buffers.give(fitting)
    assert np.shares_memory(buffers.take(1 << 20), fitting)
