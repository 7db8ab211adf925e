"""A destination in this process without a server: where it begins to read, and when it ends."""

from __future__ import annotations

import gc
import threading
import weakref
from functools import partial

import pytest

from cdc_core.config import InstanceConfig
from cdc_core.destination import runner
from cdc_core.destination.events import Configuration, Event
from cdc_core.destination.runner import Destination
from cdc_core.errors import RunsElsewhere
from cdc_core.ha.candidacy import Holder
from cdc_core.ha.election import Term
from cdc_core.ha.monitor import Office
from cdc_core.memory import collect_soon
from cdc_core.meta.cursors import Cursors
from cdc_core.meta.nodes import Change, MemoryNodes
from cdc_core.position import EntryPosition, LogPosition
from tests.support.waiting import until

NOWHERE, NOR_THERE = "127.0.0.1:9", "127.0.0.1:10"
CURSOR = "/otter/canal/destinations/shop/1001/cursor"
AT = EntryPosition("mysql-bin.000007", 1234)


def destination(nodes: MemoryNodes, **changes: object) -> Destination:
    known = {"destination": "shop", "address": NOWHERE, "standby_address": NOR_THERE}
    config = InstanceConfig.model_validate(known | changes)
    return Destination("shop", Configuration(config), nodes)


def test_it_begins_where_the_cursor_belongs() -> None:
    """At the standby if the cursor is from there, else at the master. The status names the role."""
    nodes = MemoryNodes()
    one = destination(nodes)
    one.start()
    assert one.status().source.address == NOWHERE
    one.end("the test is over")
    Cursors(nodes, "shop").write(1001, LogPosition("127.0.0.1", 10, AT))
    one = destination(nodes)
    one.start()
    source = one.status().source
    assert (source.address, source.detected.role, source.detected.failures) == (NOR_THERE, "standby", None)
    assert one.metrics().source_standby == 1
    one.end("the test is over")
    assert one.status().state == "stopped"


def test_a_cursor_that_cannot_be_read() -> None:
    """Neither server is asked until the cursor can be read; the read is repeated by itself."""
    nodes = MemoryNodes()
    nodes.write({CURSOR: Change(b"{", None)})
    one = destination(nodes)
    one.start()
    try:
        told = one.status()
        assert (told.state, told.error.error) == ("failed", "CursorError")
        assert told.error.place.endswith(CURSOR)
        nodes.write({CURSOR: Change(LogPosition("127.0.0.1", 10, AT).to_json().encode(), 0)})
        until(lambda: one.capture is not None)
        assert one.status().source.address == NOR_THERE
    finally:
        one.end("the test is over")


def test_a_capture_that_starts_in_part_ends_before_the_next_one_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine has no thread left for the second one: the first one does not go on by itself."""
    start, refused = threading.Thread.start, []

    def start_but_once(thread: threading.Thread) -> None:
        if thread.name == "tidy half" and not refused:
            refused.append(thread)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_but_once)
    one = destination(MemoryNodes(), destination="half")
    one.start()
    assert one.status().error.message == "can't start new thread"
    until(lambda: one.capture is not None)
    assert [thread.name for thread in threading.enumerate()].count("dump half") == 1
    one.end("the test is over")
    assert "dump half" not in [thread.name for thread in threading.enumerate()]


def test_a_capture_that_has_ended_is_soon_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its ring, although it refers to itself and Python's collector does not run."""
    monkeypatch.setattr(runner, "collect_soon", partial(collect_soon, 0.1))
    one = destination(MemoryNodes())
    gc.disable()
    try:
        one.start()
        until(lambda: one.capture is not None)
        ended = weakref.ref(one.capture)
        one.end("the test is over")
        until(lambda: ended() is None)
    finally:
        gc.enable()


def test_without_an_answer_from_either_nothing_switches() -> None:
    """The missed heartbeats are counted."""
    one = destination(MemoryNodes(), detecting=True, detecting_seconds=1, detecting_threshold=1, heartbeat_ha=True)
    one.start()
    try:
        until(lambda: (one.status().source.detected.failures or 0) > 1)
        assert one.status().source.address == NOWHERE
    finally:
        one.end("the test is over")


class Seats:
    """Peers whose one seat is given by hand. Is the candidacy too."""

    def __init__(self, nodes: MemoryNodes) -> None:
        self.office: Office | None = None
        self.calls: list[str] = []
        self._nodes = nodes

    def enlist(self, destination: str) -> None:
        self.calls.append(f"enlist {destination}")

    def delist(self, destination: str) -> None:
        self.calls.append(f"delist {destination}")

    def candidacy(self, destination: str, office: Office) -> Seats:
        self.office = office
        self.calls.append(f"compete {destination}")
        return self

    def start(self) -> None:
        """The seat is given by `office.enter`."""

    def stop(self) -> None:
        """As the monitor's thread does: it leaves, and then gives the seat back."""
        leaving = threading.Thread(target=self.office.leave)
        leaving.start()
        leaving.join(20)
        assert not leaving.is_alive()
        self.calls.append("withdraw")

    def nodes(self, term: Term) -> MemoryNodes:
        self.calls.append(f"nodes of {dict(term.checks)}")
        return self._nodes

    def holder(self) -> Holder:
        return Holder("10.0.0.2:11111")


def test_a_seat_is_given_back_when_its_capture_has_ended() -> None:
    """`leave` returns then; each term has nodes of its own; a stop by hand withdraws without waiting for itself."""
    nodes = MemoryNodes()
    seats = Seats(nodes)
    config = InstanceConfig.model_validate({"destination": "shop", "address": NOWHERE})
    one = Destination("shop", Configuration(config), nodes, seats)
    assert seats.calls == ["enlist shop"]
    one.start()
    assert (one.status().state, seats.calls[1:]) == ("standby", ["compete shop"])
    with pytest.raises(RunsElsewhere):
        one.service()

    seats.office.enter(Term({"/leader": 1}))
    until(lambda: one.capture is not None)
    first = one.capture
    seats.office.leave()
    assert (first.state, one.capture, one.status().state) == ("stopped", None, "standby")

    seats.office.enter(Term({"/leader": 2}))
    until(lambda: one.capture is not None)
    second = one.capture
    assert second is not first
    one.stop_by_hand()
    assert (second.state, one.status().note) == ("stopped", "stopped by an operator")
    assert seats.calls[2:] == ["nodes of {'/leader': 1}", "nodes of {'/leader': 2}", "withdraw", "delist shop"]

    seats.office.enter(Term({"/leader": 3}))
    one.start_by_hand(Configuration(config))
    assert one.capture is None
    one.end("the test is over")


def test_a_seat_lost_before_its_term_began_is_given_back_after_it() -> None:
    """The destination is slow when the seat is won and lost at once: its capture begins and ends first."""
    nodes = MemoryNodes()
    seats = Seats(nodes)
    config = InstanceConfig.model_validate({"destination": "shop", "address": NOWHERE})
    one = Destination("shop", Configuration(config), nodes, seats)
    one.start()
    busy = threading.Event()
    handle = one._mailbox._handle

    def slow(event: Event) -> None:
        busy.wait(20)
        handle(event)

    one._mailbox._handle = slow
    seats.office.enter(Term({"/leader": 1}))
    leaving = threading.Thread(target=seats.office.leave, daemon=True)
    leaving.start()
    leaving.join(0.2)
    assert leaving.is_alive()
    busy.set()
    leaving.join(20)
    assert (leaving.is_alive(), one.capture, one.status().state) == (False, None, "standby")
    assert seats.calls[2:] == ["nodes of {'/leader': 1}"]
    one.end("the test is over")


def test_a_seat_that_was_given_back_begins_nothing() -> None:
    """A late report of the seat's winning changes nothing after the next candidacy has begun."""
    nodes = MemoryNodes()
    seats = Seats(nodes)
    config = InstanceConfig.model_validate({"destination": "shop", "address": NOWHERE})
    one = Destination("shop", Configuration(config), nodes, seats)
    one.start()
    before = seats.office
    one.reload_by_hand(Configuration(config))
    assert seats.office is not before
    before.enter(Term({"/leader": 1}))
    before.leave()
    one.scan(Configuration(config))  # returns when the events before it have been handled
    assert (one.capture, one.status().state) == (None, "standby")
    one.end("the test is over")
