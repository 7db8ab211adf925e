"""Where the time of a destination goes: the sums by stage, those of the last minute, and the stages of clients."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from cdc_core.contract.stages import STAGES, shown
from cdc_core.errors import CursorError
from cdc_core.meta.cursors import Cursors
from cdc_core.meta.nodes import MemoryNodes
from cdc_core.position import EntryPosition, LogPosition
from cdc_core.session.durable_session import DurableSession
from cdc_core.session.session import Session
from cdc_core.session.stage_seconds import StageSeconds
from cdc_core.store.ring import Ring
from cdc_core.store.store import Store
from tests.support.doubles import Tables, block, transaction

CLIENT = 1001


class Clock:
    """Stands still until it is set."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def counted(seconds: dict[str, float]) -> dict[str, float]:
    """The stages that took some time."""
    return {stage: round(value, 6) for stage, value in seconds.items() if value}


def test_each_is_in_one_stage_at_a_time() -> None:
    """Time goes to the stage that was entered last; what lasts counts, and who has left a stage is in none."""
    clock = Clock()
    stages = StageSeconds(clock)
    assert stages.totals() == dict.fromkeys(STAGES, 0.0)
    for now, who, stage in [(0, "reader", "network"), (2, "reader", "decode"), (3, 1001, "apply"), (5, "reader", None)]:
        clock.now = now
        stages.enter(who, stage)
    clock.now = 9
    assert counted(stages.totals()) == {"network": 2, "decode": 3, "apply": 6}
    stages.enter(1001, "apply")  # it is there already
    clock.now = 10
    assert counted(stages.totals()) == {"network": 2, "decode": 3, "apply": 7}


def test_the_last_minute_forgets_what_was_before() -> None:
    """A reader that changed between two stages for minutes and then stood still shows the last minute alone."""
    clock = Clock()
    stages = StageSeconds(clock)
    for now in range(0, 300, 2):
        clock.now = now
        stages.enter("reader", "network")
        clock.now = now + 0.5
        stages.enter("reader", "quiet")
    clock.now = 300
    minute = stages.last_minute()
    assert minute["network"] == pytest.approx(15, abs=1.5)
    assert sum(minute.values()) == pytest.approx(60, abs=5)
    clock.now = 1000  # nothing happened since
    assert stages.last_minute()["quiet"] == pytest.approx(60, abs=1)
    assert len(stages._samples) <= 14


def test_the_first_minute_is_that_since_the_start() -> None:
    """A destination that started ten seconds ago shows these."""
    clock = Clock(100.0)
    stages = StageSeconds(clock)
    stages.enter("reader", "quiet")
    clock.now = 110.0
    assert counted(stages.last_minute()) == {"quiet": 10}


def test_totals_never_fall_while_others_count() -> None:
    """Prometheus would take a sum that fells back for a restart."""
    stages = StageSeconds()
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            stages.enter("reader", "network")
            stages.enter("reader", "decode")

    thread = threading.Thread(target=work)
    thread.start()
    try:
        before = stages.totals()
        for _ in range(2000):
            after = stages.totals()
            assert all(after[stage] >= before[stage] for stage in STAGES)
            before = after
    finally:
        over.set()
        thread.join()


def test_a_line_leaves_out_what_took_no_time() -> None:
    """People read what matters."""
    assert shown({"quiet": 40.04, "decode": 0.01, "apply": 19.96}) == "quiet 40.0 s, apply 20.0 s"
    assert shown({}) == ""


class Trial:
    """A session over a store, both with clocks that are set by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = Clock(1000.0)
        self.stages = StageSeconds(self.clock)
        self.store = Store(Ring(Tables().get, 1 << 20), clock=self.clock)
        self.cursors = Cursors(MemoryNodes(), "shop")
        session = Session("shop", self.store.ring, Tables().get, 1)
        here = LogPosition("db", 3306, EntryPosition("start.0", 0))
        self.durable = DurableSession(
            self.store, session, self.cursors, here, "", self.clock, clients=(), stages=self.stages
        )
        self.durable.restore(CLIENT, EntryPosition("mysql-bin.000001", 4))
        write = self.cursors.write

        def slowly(*args: Any, **more: Any) -> Any:
            self.clock.now += 0.5
            return write(*args, **more)

        monkeypatch.setattr(Cursors, "write", lambda _self, *args, **more: slowly(*args, **more))

    def put(self, *rows: int, start: int = 4, received: float | None = None) -> None:
        arrived = None if received is None else (received, self.clock.now)
        assert self.store.put(block(transaction(*rows), start=start), threading.Event(), arrived)

    def claim(self) -> Any:
        return self.durable.claim(CLIENT, 100, 0.0, "run", 600.0)


@pytest.fixture
def trial(monkeypatch: pytest.MonkeyPatch) -> Trial:
    return Trial(monkeypatch)


def test_a_client_waits_for_a_claim_then_for_its_ack(trial: Trial) -> None:
    """Its rows wait for a run, the run applies them, and the ack is written; then nothing of it counts."""
    trial.clock.now = 1010.0
    trial.put(1)
    trial.clock.now = 1013.0
    claim = trial.claim()
    trial.clock.now = 1020.0
    trial.durable.ack(CLIENT, claim.batch_id, "run")
    trial.clock.now = 1100.0
    assert counted(trial.stages.totals()) == {"claim": 3, "apply": 7, "ack": 0.5}


def test_a_batch_that_comes_back_waits_again(trial: Trial) -> None:
    """After a rollback its rows wait for a claim, and so they do when its lease ran out."""
    trial.put(1)
    trial.claim()
    trial.clock.now += 2
    trial.durable.rollback(CLIENT, None, "run")
    trial.clock.now += 5
    trial.claim()
    trial.clock.now += 601
    trial.durable.expire()
    trial.clock.now += 1
    assert counted(trial.stages.totals()) == {"claim": 6, "apply": 603}


def test_an_ack_that_fails_leaves_the_claim_out(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cursor cannot be written: the run still has the batch."""
    trial.put(1)
    claim = trial.claim()

    def fails(*_args: Any, **_more: Any) -> None:
        trial.clock.now += 3
        raise CursorError("away", place="zk", hint="Wait.")

    monkeypatch.setattr(Cursors, "write", fails)
    with pytest.raises(CursorError):
        trial.durable.ack(CLIENT, claim.batch_id, "run")
    trial.clock.now += 4
    assert counted(trial.stages.totals()) == {"apply": 4, "ack": 3}


def test_an_open_transaction_waits_for_its_end_and_not_for_a_claim(trial: Trial) -> None:
    """What cannot be claimed yet is not late for want of a run."""
    whole = block(transaction(1))
    trial.store.put(whole, threading.Event())
    claim = trial.claim()
    trial.durable.ack(CLIENT, claim.batch_id, "run")
    events = transaction(2)[:-1]
    trial.store.put(block(events, start=whole.end), threading.Event())
    trial.clock.now += 9
    assert trial.stages.totals()["claim"] == 0


def test_a_client_that_is_gone_is_in_no_stage(trial: Trial) -> None:
    """Its rows wait for nobody."""
    trial.put(1)
    trial.clock.now += 2
    trial.durable.subscriptions.unsubscribe(CLIENT)
    trial.put(1, start=1000)
    trial.clock.now += 50
    assert counted(trial.stages.totals()) == {"claim": 2}


def test_a_claim_says_when_its_first_row_arrived(trial: Trial) -> None:
    """The first row's, also when later rows came with it; a claim after a rollback has its own moment."""
    trial.clock.now = 1001.0
    trial.put(1, received=1000.5)
    first = trial.store.ring.log.last_position
    assert first is not None
    trial.clock.now = 1007.0
    trial.put(1, start=first.position, received=1006.0)
    trial.clock.now = 1009.0
    claim = trial.claim()
    assert claim.transactions == 2
    assert claim.moments == (1000.5, 1001.0, 1001.0, 1009.0)
    assert type(claim).from_dict(claim.to_dict()) == claim
    trial.durable.rollback(CLIENT, None, "run")
    trial.clock.now = 1030.0
    assert trial.claim().moments == (1000.5, 1001.0, 1001.0, 1030.0)
