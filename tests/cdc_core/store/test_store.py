"""Waiting at the ring: puts for room, claimers for rows. Nobody waits longer than needed."""

from __future__ import annotations

import threading
import time

from cdc_core.store.ring import Ring
from cdc_core.store.store import Store
from tests.support.doubles import Tables, block, transaction


def make(capacity: int = 1 << 20) -> Store:
    store = Store(Ring(Tables().get, capacity))
    store.ring.subscribe(1)
    return store


def in_thread(work: object) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)  # type: ignore[arg-type]
    thread.start()
    return thread


def test_a_put_wakes_a_waiting_claimer() -> None:
    """At once, not at the next poll."""
    store, found = make(), []
    waiter = in_thread(lambda: found.append(store.wait_for(lambda: store.ring.take(1, 10), 200, lambda: None)))
    time.sleep(0.05)

    started = time.monotonic()
    assert store.put(block(transaction(1)), threading.Event())
    waiter.join(150)

    assert found[0].rows == 1
    assert time.monotonic() - started < 150


def test_waiting_ends_with_the_timeout_or_a_wish_to_look_again() -> None:
    """`wake` shortens a wait; without rows the answer is None."""
    store, looks = make(), []

    found = store.wait_for(lambda: looks.append(1), 0.3, lambda: 0.1)  # type: ignore[func-returns-value]

    assert found is None
    assert 2 <= len(looks) <= 6


def test_a_full_ring_blocks_the_put_until_an_ack() -> None:
    """The time is counted, and the ack lets the put go on."""
    first = block(transaction(1))
    store, done = make(capacity=first.nbytes), []
    assert store.put(first, threading.Event())
    putter = in_thread(lambda: done.append(store.put(block(transaction(1), start=164), threading.Event())))

    assert store.wait_full(60)
    time.sleep(0.1)
    assert not done
    assert repr(store).endswith("blocked>")
    with store.changed:
        store.ring.ack(1, store.ring.put)
        store.changed.notify_all()
    putter.join(60)

    assert done == [True]
    assert store.blocked_seconds >= 0.1
    assert not repr(store).endswith("blocked>")


def test_stop_and_close_end_all_waiting() -> None:
    """A put without room raises; claimers get None."""
    first = block(transaction(1))
    store, stop, answers = make(capacity=first.nbytes), threading.Event(), []
    store.put(first, stop)
    threads = [
        in_thread(lambda: answers.append(store.put(block(transaction(1), start=164), stop))),
        in_thread(lambda: answers.append(store.wait_for(lambda: None, 60, lambda: None))),
    ]
    time.sleep(0.05)
    stop.set()
    store.close()
    for thread in threads:
        thread.join(60)

    assert sorted(map(str, answers)) == ["False", "None"]
