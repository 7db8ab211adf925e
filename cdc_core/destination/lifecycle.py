"""The life of one destination as a pure state machine: an event comes in, the next state and the actions go out.

    NEW        not set up yet
    LAZY       set up; begins when a client first asks
    STANDBY    competes with other servers for its seat, and does not hold it
    STARTING   finds out which server its cursors belong to
    READING    a capture reads that server; the capture's own health says whether it is connected
    FAILED     could not begin; tries again after a pause
    REFUSED    its configuration cannot be used
    STOPPED    stopped by an operator
    ENDED      removed, or the service stops: final

No thread, clock or socket is known here: `runner` performs the actions. Times are in epoch seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum, auto

from cdc_core.config.models import InstanceConfig
from cdc_core.contract.failover import Switch
from cdc_core.destination import events as e
from cdc_core.destination.servers import other_address, role_of
from cdc_core.errors import SluiceError
from cdc_core.ha.election import Term

AGAIN_SECONDS = 1.0  # between two attempts to begin
_SWITCH_SECONDS = 1.0  # for the threads of a capture whose server may hang; what is left of them can write nothing
_STOP_SECONDS = 10.0


class Phase(Enum):
    """The states. What each one means stands at the head of this module."""

    NEW = auto()
    LAZY = auto()
    STANDBY = auto()
    STARTING = auto()
    READING = auto()
    FAILED = auto()
    REFUSED = auto()
    STOPPED = auto()
    ENDED = auto()


ACTIVE = frozenset((Phase.STANDBY, Phase.STARTING, Phase.READING, Phase.FAILED))
RESTING = frozenset((Phase.LAZY, Phase.STOPPED))


@dataclass(frozen=True, slots=True)
class State:
    """`competes`: several servers share the destination, and the one that wins its seat runs it for a `term`. `run` is
    the number of the last attempt, `seat` that of the candidacy (0: none). `error`, since `since`: why it is FAILED or
    REFUSED."""

    competes: bool = False
    phase: Phase = Phase.NEW
    configuration: e.Configuration = field(default_factory=e.Configuration)
    started: bool = False
    run: int = 0
    seat: int = 0
    term: Term | None = None
    source: e.Source | None = None
    error: SluiceError | None = None
    since: float | None = None

    @property
    def enlisted(self) -> bool:
        """Clients and other servers may count on this one."""
        return self.competes and (self.phase in ACTIVE or self.phase is Phase.LAZY)


Step = tuple[State, tuple[e.Action, ...]]


def step(state: State, event: e.Event, now: float) -> Step:
    """What becomes of `state`, and what is to be done, in order."""
    if state.phase is Phase.ENDED:
        return state, ()
    after, actions = _next(state, event, now)
    if after.enlisted != state.enlisted:
        actions += (e.Enlist() if after.enlisted else e.Delist(),)
    return after, actions


def _next(state: State, event: e.Event, now: float) -> Step:
    match event:
        case e.Scanned(found):
            return _scanned(state, found, now)
        case e.StartedByHand(found) if state.phase in RESTING:
            return _set_up(state, found, "started by hand", now, eager=True)
        case e.StartedByHand(found):
            return _scanned(state, found, now)
        case e.ReloadedByHand(found):
            return _set_up(state, found, "reloaded by hand", now)
        case e.StoppedByHand():
            return (
                (state, ()) if state.phase is Phase.STOPPED else _leave(state, Phase.STOPPED, "stopped by an operator")
            )
        case e.Ended(why):
            return _leave(state, Phase.ENDED, why)
        case e.Started():
            starts = not state.started and state.phase in ACTIVE
            state = replace(state, started=True)
            return _begin(state) if starts else (state, ())
        case e.Woken():
            return _begin(state) if state.phase is Phase.LAZY else (state, ())
        case e.Rewound(work):
            return _rewind(state, work)
        case e.TermWon() | e.TermLost():
            return _decided(state, event) if event.seat == state.seat else (state, ())
        case _:
            return _reported(state, event, now) if event.run == state.run else (state, ())


# -- the configuration


def _scanned(state: State, found: e.Configuration, now: float) -> Step:
    if found.same_as(state.configuration):
        return state, ()
    if found.error or found.config is None or found.config.lazy or state.phase not in ACTIVE:
        return _set_up(state, found, "changed", now)
    state = replace(state, configuration=found)  # taken in without giving the seat away
    if state.phase is Phase.STANDBY:
        return state, ()
    ended = _end(state, "changed")
    state, begun = _begin(state)
    return state, ended + begun


def _set_up(state: State, found: e.Configuration, why: str, now: float, *, eager: bool = False) -> Step:
    """Ends what runs, and does with the configuration what it says."""
    if found.error or found.config is None:
        state, ended = _leave(state, Phase.REFUSED, why)
        return replace(state, configuration=found, error=found.error, since=now), ended
    state, ended = _leave(state, Phase.LAZY, why)
    state = replace(state, configuration=found)
    if found.config.lazy and not eager:
        return state, ended
    state, begun = _begin(state)
    return state, ended + begun


# -- begin and end


def _begin(state: State) -> Step:
    """Where servers share the destination its seat comes first; then the server that the cursors belong to."""
    state = replace(state, run=state.run + 1, source=None, error=None, since=None)
    if state.competes and state.term is None:
        state = replace(state, phase=Phase.STANDBY, seat=state.run if state.started else 0)
        return state, (e.Compete(state.seat),) if state.started else ()
    state = replace(state, phase=Phase.STARTING)
    return state, (e.Locate(state.run),) if state.started else ()


def _end(state: State, why: str, seconds: float = _STOP_SECONDS) -> tuple[e.Action, ...]:
    return (e.End(why, seconds),) if state.phase is Phase.READING else ()


def _leave(state: State, phase: Phase, why: str) -> Step:
    """Ends the capture first, then gives the seat back."""
    actions = _end(state, why) + ((e.Withdraw(),) if state.seat else ())
    state = replace(state, phase=phase, run=state.run + 1, seat=0, term=None, source=None, error=None, since=None)
    return state, actions


def _decided(state: State, event: e.TermWon | e.TermLost) -> Step:
    if isinstance(event, e.TermWon):
        return _begin(replace(state, term=event.term)) if state.phase is Phase.STANDBY else (state, ())
    if state.term is None:
        return state, ()
    ended = _end(state, "not active any more")
    state = replace(state, phase=Phase.STANDBY, run=state.run + 1, term=None, source=None, error=None, since=None)
    return state, ended


def _rewind(state: State, work: e.Work) -> Step:
    """With nothing that writes cursors, here or at another server; else it is not done."""
    if state.competes and state.term is None:
        return state, ()
    if state.phase not in ACTIVE:
        return state, (e.SetCursors(work),)
    ended = _end(state, "its cursors are being set by an operator")
    state, begun = _begin(state)
    return state, (*ended, e.SetCursors(work), *begun)


# -- what an attempt reports


def _reported(state: State, event: e.Report, now: float) -> Step:
    match event:
        case e.Located(address=address) if state.phase in (Phase.STARTING, Phase.FAILED):
            return _read(state, e.Source(address, role_of(_config(state), address)))
        case e.NotBegun(error=error) if state.phase in (Phase.STARTING, Phase.READING, Phase.FAILED):
            return _fail(state, error, now)
        case e.Due() if state.phase is Phase.FAILED:
            return state, (e.Locate(state.run),)
        case e.SourceFailed(why=why) if state.phase is Phase.READING:
            return _switch(state, why, now)
        case e.SourceReplaced() if state.phase is Phase.READING and state.source:
            return _read_anew(state, state.source, "another server answers")
        case e.StoreFailed() if state.phase is Phase.READING and state.source:
            return _read_anew(state, state.source, "its store on disk is damaged")
        case _:
            return state, ()


def _read(state: State, source: e.Source) -> Step:
    run = state.run + 1
    state = replace(state, phase=Phase.READING, run=run, source=source, error=None, since=None)
    return state, (e.Begin(run, source),)


def _read_anew(state: State, source: e.Source, why: str) -> Step:
    """From the same server, by another capture."""
    ended = _end(state, why, _SWITCH_SECONDS)
    state, begun = _read(state, source)
    return state, ended + begun


def _switch(state: State, why: str, now: float) -> Step:
    """To the other server, where there is one."""
    before, config = state.source, _config(state)
    to = other_address(config, before.address) if before else ""
    if before is None or not to:
        return state, ()
    ended = _end(state, "its source failed", _SWITCH_SECONDS)
    switch = Switch(before.address, to, why, now)
    state, begun = _read(state, e.Source(to, role_of(config, to), before.switches + 1, switch))
    return state, ended + begun


def _fail(state: State, error: SluiceError, now: float) -> Step:
    since = state.since if state.error is not None and str(state.error) == str(error) else now
    run = state.run + 1
    state = replace(state, phase=Phase.FAILED, run=run, source=None, error=error, since=since)
    return state, (e.LookAgain(run, AGAIN_SECONDS),)


def _config(state: State) -> InstanceConfig:
    config = state.configuration.config
    assert config is not None
    return config
