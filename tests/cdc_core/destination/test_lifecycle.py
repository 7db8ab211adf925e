"""What becomes of a destination, decided without a thread, a clock or a server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_core.config import InstanceConfig
from cdc_core.destination import events as e
from cdc_core.destination.lifecycle import ACTIVE, AGAIN_SECONDS, RESTING, Phase, State, step
from cdc_core.errors import ConfigError, CursorError
from cdc_core.ha.election import Term

MASTER, STANDBY = "10.0.0.1:3306", "10.0.0.2:3306"
TERM = Term({"/running": 1})


def found(**changes: Any) -> e.Configuration:
    known = {"destination": "shop", "address": MASTER, "standby_address": STANDBY}
    return e.Configuration(InstanceConfig.model_validate(known | changes))


PLAIN, LAZY, OTHER = found(), found(lazy=True), found(filter_regex="a\\..*")
BAD = e.Configuration(None, ConfigError("not a number", place="conf", hint="Correct it."))
AWAY = CursorError("away", place="memory", hint="Again.")


def work(_: object) -> None:
    """Sets cursors."""


def in_phase(phase: Phase, *, competes: bool = False) -> State:
    """A state of a service that is up, reached as a real one is."""
    state, _ = step(State(competes), e.Started(), 0.0)
    if phase is Phase.NEW:
        return state
    state, _ = step(state, e.Scanned({Phase.LAZY: LAZY, Phase.REFUSED: BAD}.get(phase, PLAIN)), 1.0)
    if phase is Phase.STOPPED:
        state, _ = step(state, e.StoppedByHand(), 2.0)
    if phase is Phase.ENDED:
        state, _ = step(state, e.Ended("removed"), 2.0)
    if competes and phase in (Phase.STARTING, Phase.READING, Phase.FAILED):
        state, _ = step(state, e.TermWon(state.seat, TERM), 2.0)
    if phase is Phase.READING:
        state, _ = step(state, e.Located(state.run, MASTER), 3.0)
    if phase is Phase.FAILED:
        state, _ = step(state, e.NotBegun(state.run, AWAY), 3.0)
    assert state.phase is phase
    return state


def kinds(actions: tuple[e.Action, ...]) -> list[type]:
    return [type(action) for action in actions]


def occurring(state: State) -> dict[str, e.Event]:
    """One event of each kind, as it would come in this state."""
    return {
        "started": e.Started(),
        "scanned": e.Scanned(state.configuration),
        "changed": e.Scanned(OTHER),
        "lazy now": e.Scanned(found(lazy=True, filter_regex="b\\..*")),
        "invalid": e.Scanned(e.Configuration(None, ConfigError("another", hint="Correct it."))),
        "start": e.StartedByHand(PLAIN),
        "stop": e.StoppedByHand(),
        "reload": e.ReloadedByHand(PLAIN),
        "end": e.Ended("removed"),
        "woken": e.Woken(),
        "rewind": e.Rewound(work),
        "won": e.TermWon(state.seat, TERM),
        "lost": e.TermLost(state.seat),
        "located": e.Located(state.run, STANDBY),
        "not begun": e.NotBegun(state.run, AWAY),
        "due": e.Due(state.run),
        "source failed": e.SourceFailed(state.run, "3 heartbeats failed"),
        "source replaced": e.SourceReplaced(state.run),
        "store damaged": e.StoreFailed(state.run),
    }


# for one destination alone: by state and event the next state and the actions; what is not named changes nothing
ALONE: dict[Phase, dict[str, tuple[Phase, list[type]]]] = {
    Phase.LAZY: {
        "changed": (Phase.STARTING, [e.Locate]),
        "lazy now": (Phase.LAZY, []),
        "invalid": (Phase.REFUSED, []),
        "start": (Phase.STARTING, [e.Locate]),
        "stop": (Phase.STOPPED, []),
        "reload": (Phase.STARTING, [e.Locate]),
        "end": (Phase.ENDED, []),
        "woken": (Phase.STARTING, [e.Locate]),
        "rewind": (Phase.LAZY, [e.SetCursors]),
    },
    Phase.STARTING: {
        "changed": (Phase.STARTING, [e.Locate]),
        "lazy now": (Phase.LAZY, []),
        "invalid": (Phase.REFUSED, []),
        "stop": (Phase.STOPPED, []),
        "reload": (Phase.STARTING, [e.Locate]),
        "end": (Phase.ENDED, []),
        "rewind": (Phase.STARTING, [e.SetCursors, e.Locate]),
        "located": (Phase.READING, [e.Begin]),
        "not begun": (Phase.FAILED, [e.LookAgain]),
    },
    Phase.READING: {
        "changed": (Phase.STARTING, [e.End, e.Locate]),
        "lazy now": (Phase.LAZY, [e.End]),
        "invalid": (Phase.REFUSED, [e.End]),
        "stop": (Phase.STOPPED, [e.End]),
        "reload": (Phase.STARTING, [e.End, e.Locate]),
        "end": (Phase.ENDED, [e.End]),
        "rewind": (Phase.STARTING, [e.End, e.SetCursors, e.Locate]),
        "not begun": (Phase.FAILED, [e.LookAgain]),
        "source failed": (Phase.READING, [e.End, e.Begin]),
        "source replaced": (Phase.READING, [e.End, e.Begin]),
        "store damaged": (Phase.READING, [e.End, e.Begin]),
    },
    Phase.FAILED: {
        "changed": (Phase.STARTING, [e.Locate]),
        "lazy now": (Phase.LAZY, []),
        "invalid": (Phase.REFUSED, []),
        "stop": (Phase.STOPPED, []),
        "reload": (Phase.STARTING, [e.Locate]),
        "end": (Phase.ENDED, []),
        "rewind": (Phase.STARTING, [e.SetCursors, e.Locate]),
        "located": (Phase.READING, [e.Begin]),
        "not begun": (Phase.FAILED, [e.LookAgain]),
        "due": (Phase.FAILED, [e.Locate]),
    },
    Phase.REFUSED: {
        "changed": (Phase.STARTING, [e.Locate]),
        "lazy now": (Phase.LAZY, []),
        "invalid": (Phase.REFUSED, []),
        "start": (Phase.STARTING, [e.Locate]),
        "stop": (Phase.STOPPED, []),
        "reload": (Phase.STARTING, [e.Locate]),
        "end": (Phase.ENDED, []),
        "rewind": (Phase.REFUSED, [e.SetCursors]),
    },
    Phase.STOPPED: {
        "changed": (Phase.STARTING, [e.Locate]),
        "lazy now": (Phase.LAZY, []),
        "invalid": (Phase.REFUSED, []),
        "start": (Phase.STARTING, [e.Locate]),
        "reload": (Phase.STARTING, [e.Locate]),
        "end": (Phase.ENDED, []),
        "rewind": (Phase.STOPPED, [e.SetCursors]),
    },
    Phase.ENDED: {},
}

# with several servers; a state that is not named here is as above but for the seat
SHARED: dict[Phase, dict[str, tuple[Phase, list[type]]]] = {
    Phase.LAZY: {
        "changed": (Phase.STANDBY, [e.Compete]),
        "lazy now": (Phase.LAZY, []),
        "invalid": (Phase.REFUSED, [e.Delist]),
        "start": (Phase.STANDBY, [e.Compete]),
        "stop": (Phase.STOPPED, [e.Delist]),
        "reload": (Phase.STANDBY, [e.Compete]),
        "end": (Phase.ENDED, [e.Delist]),
        "woken": (Phase.STANDBY, [e.Compete]),
    },
    Phase.STANDBY: {
        "changed": (Phase.STANDBY, []),
        "lazy now": (Phase.LAZY, [e.Withdraw]),
        "invalid": (Phase.REFUSED, [e.Withdraw, e.Delist]),
        "stop": (Phase.STOPPED, [e.Withdraw, e.Delist]),
        "reload": (Phase.STANDBY, [e.Withdraw, e.Compete]),
        "end": (Phase.ENDED, [e.Withdraw, e.Delist]),
        "won": (Phase.STARTING, [e.Locate]),
    },
    Phase.READING: {
        "changed": (Phase.STARTING, [e.End, e.Locate]),
        "lazy now": (Phase.LAZY, [e.End, e.Withdraw]),
        "invalid": (Phase.REFUSED, [e.End, e.Withdraw, e.Delist]),
        "stop": (Phase.STOPPED, [e.End, e.Withdraw, e.Delist]),
        "reload": (Phase.STANDBY, [e.End, e.Withdraw, e.Compete]),
        "end": (Phase.ENDED, [e.End, e.Withdraw, e.Delist]),
        "rewind": (Phase.STARTING, [e.End, e.SetCursors, e.Locate]),
        "lost": (Phase.STANDBY, [e.End]),
        "not begun": (Phase.FAILED, [e.LookAgain]),
        "source failed": (Phase.READING, [e.End, e.Begin]),
        "source replaced": (Phase.READING, [e.End, e.Begin]),
        "store damaged": (Phase.READING, [e.End, e.Begin]),
    },
    Phase.STARTING: {
        "changed": (Phase.STARTING, [e.Locate]),
        "lazy now": (Phase.LAZY, [e.Withdraw]),
        "invalid": (Phase.REFUSED, [e.Withdraw, e.Delist]),
        "stop": (Phase.STOPPED, [e.Withdraw, e.Delist]),
        "reload": (Phase.STANDBY, [e.Withdraw, e.Compete]),
        "end": (Phase.ENDED, [e.Withdraw, e.Delist]),
        "rewind": (Phase.STARTING, [e.SetCursors, e.Locate]),
        "lost": (Phase.STANDBY, []),
        "located": (Phase.READING, [e.Begin]),
        "not begun": (Phase.FAILED, [e.LookAgain]),
    },
    Phase.FAILED: {
        "changed": (Phase.STARTING, [e.Locate]),
        "lazy now": (Phase.LAZY, [e.Withdraw]),
        "invalid": (Phase.REFUSED, [e.Withdraw, e.Delist]),
        "stop": (Phase.STOPPED, [e.Withdraw, e.Delist]),
        "reload": (Phase.STANDBY, [e.Withdraw, e.Compete]),
        "end": (Phase.ENDED, [e.Withdraw, e.Delist]),
        "rewind": (Phase.STARTING, [e.SetCursors, e.Locate]),
        "lost": (Phase.STANDBY, []),
        "located": (Phase.READING, [e.Begin]),
        "not begun": (Phase.FAILED, [e.LookAgain]),
        "due": (Phase.FAILED, [e.Locate]),
    },
    Phase.REFUSED: {
        "changed": (Phase.STANDBY, [e.Compete, e.Enlist]),
        "lazy now": (Phase.LAZY, [e.Enlist]),
        "invalid": (Phase.REFUSED, []),
        "start": (Phase.STANDBY, [e.Compete, e.Enlist]),
        "stop": (Phase.STOPPED, []),
        "reload": (Phase.STANDBY, [e.Compete, e.Enlist]),
        "end": (Phase.ENDED, []),
    },
    Phase.STOPPED: {
        "changed": (Phase.STANDBY, [e.Compete, e.Enlist]),
        "lazy now": (Phase.LAZY, [e.Enlist]),
        "invalid": (Phase.REFUSED, []),
        "start": (Phase.STANDBY, [e.Compete, e.Enlist]),
        "reload": (Phase.STANDBY, [e.Compete, e.Enlist]),
        "end": (Phase.ENDED, []),
    },
    Phase.ENDED: {},
}

EVENTS = sorted(occurring(State()))
CASES = [
    (competes, phase, event)
    for competes, table in ((False, ALONE), (True, SHARED))
    for phase in table
    for event in EVENTS
]


@pytest.mark.parametrize(("competes", "phase", "event"), CASES)
def test_every_state_meets_every_event(competes: bool, phase: Phase, event: str) -> None:
    """The next state and the actions are those of the table; an event that is not in it changes nothing."""
    state = in_phase(phase, competes=competes)
    after, actions = step(state, occurring(state)[event], 10.0)
    expected = (SHARED if competes else ALONE)[phase].get(event, (phase, []))
    assert (after.phase, kinds(actions)) == expected
    if event not in (SHARED if competes else ALONE)[phase]:
        assert after == state


def test_nothing_is_read_before_the_service_is_up() -> None:
    """A destination is set up and enlisted, and begins with the service."""
    for competes, phase, first in ((False, Phase.STARTING, e.Locate), (True, Phase.STANDBY, e.Compete)):
        state, actions = step(State(competes), e.Scanned(PLAIN), 0.0)
        assert (state.phase, kinds(actions)) == (phase, [e.Enlist] if competes else [])
        state, actions = step(state, e.Started(), 1.0)
        assert (state.phase, kinds(actions)) == (phase, [first])
        assert step(state, e.Started(), 2.0) == (state, ())


def test_it_begins_at_the_server_of_its_cursors() -> None:
    """With that server's role, in the run that follows the look at the cursors."""
    state = in_phase(Phase.STARTING)
    state, actions = step(state, e.Located(state.run, STANDBY), 1.0)
    assert actions == (e.Begin(state.run, e.Source(STANDBY, "standby")),)


def test_switching_counts_and_says_why() -> None:
    """To the standby and back; without another server reading goes on."""
    state = in_phase(Phase.READING)
    state, actions = step(state, e.SourceFailed(state.run, "it hangs"), 5.0)
    assert state.source is not None
    assert state.source.switched is not None
    assert (state.source.address, state.source.role, state.source.switches) == (STANDBY, "standby", 1)
    assert state.source.switched.to_dict() == {"from": MASTER, "to": STANDBY, "why": "it hangs", "at": 5.0}
    assert actions[-1] == e.Begin(state.run, state.source)
    state, _ = step(state, e.SourceFailed(state.run, "it hangs too"), 6.0)
    assert state.source is not None
    assert (state.source.address, state.source.switches) == (MASTER, 2)

    alone = in_phase(Phase.NEW)
    alone, _ = step(alone, e.Scanned(found(standby_address="")), 0.0)
    alone, _ = step(alone, e.Located(alone.run, MASTER), 0.0)
    assert step(alone, e.SourceFailed(alone.run, "it hangs"), 1.0) == (alone, ())


def test_it_looks_again_while_cursors_cannot_be_read() -> None:
    """A second apart, with the time of the first failure; another error has its own."""
    state = in_phase(Phase.FAILED)
    assert (state.error, state.since) == (AWAY, 3.0)
    state, actions = step(state, e.Due(state.run), 4.0)
    assert actions == (e.Locate(state.run),)
    state, actions = step(state, e.NotBegun(state.run, AWAY), 5.0)
    assert (state.since, actions) == (3.0, (e.LookAgain(state.run, AGAIN_SECONDS),))
    state, _ = step(state, e.NotBegun(state.run, CursorError("torn", hint="Again.")), 6.0)
    assert state.since == 6.0


def test_a_refusal_keeps_its_time() -> None:
    """The same error at each scan is nothing new; it is what calls are refused with."""
    state = in_phase(Phase.REFUSED)
    same = e.Configuration(None, ConfigError("not a number", place="conf", hint="Correct it."))
    assert step(state, e.Scanned(same), 9.0) == (state, ())
    assert (state.error, state.since) == (BAD.error, 1.0)


def test_a_changed_configuration_keeps_the_seat() -> None:
    """Standing by it is noted alone; reading, the capture is made again in the same term."""
    for phase in (Phase.STANDBY, Phase.READING):
        before = in_phase(phase, competes=True)
        after, _ = step(before, e.Scanned(OTHER), 9.0)
        assert after.configuration is OTHER
        assert (after.seat, after.term) == (before.seat, before.term)


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase not in (Phase.NEW, Phase.STANDBY)])
def test_reports_of_an_earlier_attempt_change_nothing(phase: Phase) -> None:
    """Neither those of an earlier run nor those of an earlier candidacy."""
    state = in_phase(phase, competes=True)
    late = replace(state, run=state.run - 1, seat=state.seat - 1)
    for name in ("won", "lost", "located", "not begun", "due", "source failed", "source replaced", "store damaged"):
        assert step(state, occurring(late)[name], 9.0) == (state, ())


@given(st.booleans(), st.lists(st.sampled_from(EVENTS), max_size=30))
def test_whatever_happens(competes: bool, names: list[str]) -> None:
    """One capture at most, never without a term where servers share the destination, and none in a state that rests;
    every candidacy is withdrawn before the next; cursors are set with no capture alive."""
    state, captures, seats = State(competes), 0, 0
    for now, name in enumerate(["started", "scanned", "changed", *names]):
        state, actions = step(state, occurring(state)[name], float(now))
        for action in actions:
            match action:
                case e.Begin():
                    captures += 1
                    assert not competes or state.term is not None
                case e.End():
                    captures -= 1
                case e.Compete():
                    seats += 1
                case e.Withdraw():
                    seats -= 1
                case e.SetCursors():
                    assert captures == 0
                    assert not competes or state.term is not None
            assert 0 <= captures <= 1
            assert 0 <= seats <= 1
        if name == "not begun" and state.phase is Phase.FAILED:
            captures = 0  # the report says that none could be made
        assert captures == (state.phase is Phase.READING)
        assert seats == bool(state.seat) == (competes and state.phase in ACTIVE)
        assert not (state.phase in RESTING and state.term)
        assert (state.error is not None) == (state.phase in (Phase.FAILED, Phase.REFUSED))
