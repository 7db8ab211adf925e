"""What moves without an ack: cursors over ranges without rows, rarely unless somebody asks; and leases that run out."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cdc_core.destination import tidier
from cdc_core.destination.tidier import Tidier
from cdc_core.meta.cursors import Cursors
from cdc_core.meta.nodes import MemoryNodes
from cdc_core.position import EntryPosition, LogPosition
from cdc_core.session.durable_session import DurableSession
from cdc_core.session.session import Session
from cdc_core.store.ring import Ring
from cdc_core.store.store import Store
from tests.support.doubles import Tables, block, transaction

CLIENT, SECONDS = 1001, 0.02
_PATIENCE = 60.0


class Tended:
    """A store of a connected destination, with its thread; `written` are the cursors, each with its moment."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capacity: int = 1 << 20) -> None:
        self.store = Store(Ring(Tables().get, capacity))
        self.written: list[tuple[float, int]] = []
        cursors, self.end = Cursors(MemoryNodes(), "shop"), 4
        here = LogPosition("db", 3306, EntryPosition("start.0", 0))
        session = Session("shop", self.store.ring, Tables().get, 1)
        self.sessions = DurableSession(self.store, session, cursors, here, "")
        self.sessions.restore(CLIENT, EntryPosition("mysql-bin.000001", 4))
        write = cursors.write

        def noting(client_id: int, cursor: LogPosition, *args: Any, **more: Any) -> None:
            write(client_id, cursor, *args, **more)
            self.written.append((time.monotonic(), cursor.postion.position))

        monkeypatch.setattr(Cursors, "write", lambda _self, *args, **more: noting(*args, **more))
        health = SimpleNamespace(note_cursors=lambda _error: None)
        expiry = SimpleNamespace(report="known", look=lambda _cursors: None)
        doubles: Any = health, expiry, None, lambda: True, SECONDS
        self._stop = threading.Event()
        of = Tidier("shop", self.store, self.sessions, *doubles)
        self._thread = threading.Thread(target=of.run, args=(self._stop,), daemon=True)
        self._thread.start()

    def put(self, *, rows: bool = False) -> int:
        """A transaction. Returns where it ends."""
        made = block(transaction(1, filtered=not rows), start=self.end)
        assert self.store.put(made, threading.Event())
        self.end = made.end
        return self.end

    def stop(self) -> None:
        self._stop.set()
        self.store.close()
        self._thread.join(_PATIENCE)
        assert not self._thread.is_alive()


Tend = Callable[..., Tended]


@pytest.fixture
def tend(monkeypatch: pytest.MonkeyPatch) -> Iterator[Tend]:
    """Makes one; those are stopped at the end."""
    made: list[Tended] = []

    def make(rounds: int, capacity: int = 1 << 20) -> Tended:
        monkeypatch.setattr(tidier, "_EMPTY_ROUNDS", rounds)
        made.append(Tended(monkeypatch, capacity))
        return made[-1]

    yield make
    for one in made:
        one.stop()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.005)


def test_a_cursor_moves_rarely_over_what_has_no_rows(tend: Tend) -> None:
    """At once after a rest, then after so many rounds, however much comes; the last move leaves nothing behind."""
    tended = tend(rounds=50)
    first = tended.put()
    until(lambda: bool(tended.written))
    begun = time.monotonic()
    while len(tended.written) < 3:
        tended.put()
        time.sleep(0.005)
    last = tended.end
    until(lambda: tended.written[-1][1] == last)
    assert tended.written[0][1] == first
    moments = [moment for moment, _ in tended.written]
    assert all(later - earlier >= 50 * SECONDS for earlier, later in itertools.pairwise(moments))
    assert time.monotonic() - begun >= 2 * 50 * SECONDS


def test_who_asks_gets_the_cursor_soon(tend: Tend) -> None:
    """It does not wait for its round."""
    tended = tend(rounds=1_000_000)
    tended.put()
    until(lambda: len(tended.written) == 1)
    end = tended.put()
    time.sleep(10 * SECONDS)
    assert len(tended.written) == 1
    tended.store.hurry()
    until(lambda: tended.written[-1][1] == end)
    tended.store.hurry()  # before there is anything
    end = tended.put()
    until(lambda: tended.written[-1][1] == end)


def test_a_full_ring_does_not_wait(tend: Tend) -> None:
    """Ranges without rows take room, which the next block needs."""
    tended = tend(rounds=1_000_000, capacity=2000)
    for _ in range(40):
        tended.put()  # waits for room
    assert len(tended.written) > 1


def test_an_ack_and_a_lease_do_not_wait(tend: Tend) -> None:
    """Rows count as before: what ran out is given back within a round, and the ack writes its cursor."""
    tended = tend(rounds=1_000_000)
    tended.put()
    until(lambda: len(tended.written) == 1)
    tended.put()
    end = tended.put(rows=True)
    claim = tended.sessions.claim(CLIENT, 100, 5.0, "run", 0.1)
    assert claim is not None
    until(lambda: not tended.sessions.session.client(CLIENT).batches)
    again = tended.sessions.claim(CLIENT, 100, 5.0, "other", 60.0)
    assert again is not None
    tended.sessions.ack(CLIENT, again.batch_id, "other")
    assert tended.written[-1][1] == end


def test_a_claim_of_few_bytes_reaches_the_rows_after_many_ranges(tend: Tend) -> None:
    """The bytes of a range without rows count: a busy server's half minute is more than a claim takes."""
    tended = tend(rounds=1_000_000)
    tended.put()
    until(lambda: len(tended.written) == 1)
    for _ in range(20):
        tended.put()
    end = tended.put(rows=True)
    claim = tended.sessions.claim(CLIENT, 100, 5.0, "run", 60.0, 800)
    assert claim is not None
    assert (claim.rows, claim.end.position) == (1, end)


def test_a_block_without_rows_wakes_nobody_before_its_time(tend: Tend) -> None:
    """Two hundred quiet destinations of a busy server would wake twice as many threads for nothing."""
    tended = tend(rounds=1_000_000)
    tended.put()
    until(lambda: len(tended.written) == 1)
    time.sleep(5 * SECONDS)
    woken: list[int] = []
    upkeep = cast("Any", tended.store.upkeep)
    notify = upkeep.notify_all

    def noting() -> None:
        woken.append(1)
        notify()

    upkeep.notify_all = noting
    for _ in range(5):
        tended.put()
    assert not woken
    tended.put(rows=True)
    assert woken
