"""Events of many threads, handled one after the other."""

from __future__ import annotations

import threading

import pytest
from structlog.testing import capture_logs

from cdc_core.destination.mailbox import Mailbox


def test_events_of_one_thread_are_handled_in_their_order() -> None:
    """By one thread at a time, whichever sends them; `tell` returns when its event has been handled."""
    seen: list[int] = []
    at_work = threading.Lock()

    def handle(event: int) -> None:
        assert at_work.acquire(blocking=False)
        seen.append(event)
        at_work.release()

    mailbox = Mailbox("shop", handle)

    def bring(first: int) -> None:
        for event in range(first, first + 100):
            mailbox.post(event)
        mailbox.tell(first + 100)
        assert first + 100 in seen

    threads = [threading.Thread(target=bring, args=(first,)) for first in (0, 1000, 2000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    for first in (0, 1000, 2000):
        assert [event for event in seen if first <= event < first + 1000] == list(range(first, first + 101))


def test_a_handler_may_wait_for_the_thread_that_brought_the_event() -> None:
    """Whoever posts an event does not handle it."""
    joined = threading.Event()
    thread = threading.Thread(target=lambda: mailbox.post("end"))

    def handle(_: str) -> None:
        thread.join(20)
        joined.set()

    mailbox = Mailbox("shop", handle)
    thread.start()
    assert joined.wait(20)


def test_an_event_that_fails_does_not_hold_up_the_next() -> None:
    """The failure is logged."""
    seen: list[int] = []

    def handle(event: int) -> None:
        seen.append(10 // event)

    mailbox = Mailbox("shop", handle)
    with capture_logs() as logs:
        mailbox.tell(0)
        mailbox.tell(5)
    assert seen == [2]
    assert [line["event"] for line in logs] == ["an event could not be handled"]


def test_waiting_ends_when_the_condition_holds() -> None:
    """It is looked at again with each event and each `notify`."""
    mailbox: Mailbox[int] = Mailbox("shop", lambda _: None)
    state: list[int] = []
    waiter = threading.Thread(target=mailbox.wait, args=(lambda: bool(state),))
    waiter.start()
    state.append(1)
    mailbox.notify()
    waiter.join(20)
    assert not waiter.is_alive()


def test_an_event_for_which_no_thread_starts_is_handled_with_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sender gets the error, and the mailbox does not wait for a thread that is not there."""
    seen: list[int] = []
    mailbox = Mailbox("shop", seen.append)

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as none_left:
        none_left.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            mailbox.tell(1)
    telling = threading.Thread(target=mailbox.tell, args=(2,), daemon=True)
    telling.start()
    telling.join(20)
    assert (telling.is_alive(), seen) == (False, [1, 2])
