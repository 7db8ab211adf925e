"""Who runs a destination, as Canal's `ServerRunningMonitor` decides it: pure, events in, state and actions out.

The node `running` belongs to the session that made it. When it is gone its last holder tries again at once. The other
servers wait first:

    the holder is alive                                            PREFERENCE seconds, as Canal
    it is gone with its session, after a time-out of silence       GRACE seconds
    it was asked to hand over                                       GRACE seconds, and itself HAND_OVER

A server may see only that the node is gone, and not that its holder was asked to hand over. It then waits PREFERENCE
and its handicap, which is why the holder waits longer than both.

A server that is cut off from ZooKeeper for as long as a session lasts has to assume that another one has taken over.
Times are seconds of a monotonic clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cdc_core.ha.running import Running

PREFERENCE = 5.0
GRACE = 0.5
HAND_OVER = 2 * PREFERENCE
AGAIN = 1.0  # after a call that failed


@dataclass(frozen=True, slots=True)
class Term:
    """One period of holding the seat. `checks`: the versions of nodes, which stay until somebody else takes over."""

    checks: Mapping[str, int]


# -- what happens


@dataclass(frozen=True, slots=True)
class Connected:
    """The connection is up, in the old session or in a new one."""


@dataclass(frozen=True, slots=True)
class Suspended:
    """The connection is down; the session may survive."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The session is over, and its nodes are gone."""


@dataclass(frozen=True, slots=True)
class Changed:
    """The running node changed, or its watch ended."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a look found. `ours`: this session made the node. `lives`: the last holder is in the cluster. `handicap`:
    the seconds to wait on top while it is another server's turn."""

    holder: Running | None
    ours: bool = False
    lives: bool = False
    handicap: float = 0.0


@dataclass(frozen=True, slots=True)
class Won:
    term: Term


@dataclass(frozen=True, slots=True)
class Beaten:
    """Another session made the node first."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A call to ZooKeeper failed."""


@dataclass(frozen=True, slots=True)
class Fenced:
    """A write was refused because the term is over."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


Event = Connected | Suspended | Lost | Changed | Seen | Won | Beaten | Failed | Fenced | Tick


# -- what to do


@dataclass(frozen=True, slots=True)
class Look:
    """Read the running node and watch it."""


@dataclass(frozen=True, slots=True)
class Try:
    """Make the running node."""


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete the running node that this session made."""


@dataclass(frozen=True, slots=True)
class Enter:
    term: Term


@dataclass(frozen=True, slots=True)
class Leave:
    why: str


Action = Look | Try | Remove | Enter | Leave


@dataclass(frozen=True, slots=True)
class ElectionState:
    """`term` is set while this server is active; `due` is when to try next (while active: to look again); `last` was
    the last holder of the node."""

    address: str
    session_seconds: float
    term: Term | None = None
    last: Running | None = None
    due: float | None = None
    cut_off_since: float | None = None

    @property
    def wake_at(self) -> float | None:
        """When the next Tick is due."""
        limit = None if self.cut_off_since is None or self.term is None else self.cut_off_since + self.session_seconds
        due = None if self.cut_off_since is not None else self.due
        return min((at for at in (limit, due) if at is not None), default=None)


Step = tuple[ElectionState, tuple[Action, ...]]


def step(state: ElectionState, event: Event, now: float) -> Step:
    """What becomes of `state`, and what is to be done, in order."""
    match event:
        case Connected():
            return replace(state, cut_off_since=None), (Look(),)
        case Suspended():
            return replace(state, cut_off_since=now if state.cut_off_since is None else state.cut_off_since), ()
        case Lost():
            return _left(replace(state, cut_off_since=now, due=None), "the ZooKeeper session is over")
        case Changed() | Beaten():
            return replace(state, due=None), () if state.cut_off_since is not None else (Look(),)
        case Failed():
            return replace(state, due=now + AGAIN), ()
        case Fenced():
            return _left(state, "another server took over", Look())
        case Won(term):
            return replace(state, term=term, last=Running(state.address), due=None), (Enter(term),)
        case Tick():
            return _ticked(state, now)
        case Seen():
            return _seen(state, event, now)


def _ticked(state: ElectionState, now: float) -> Step:
    if state.cut_off_since is not None:
        if state.term is not None and now - state.cut_off_since >= state.session_seconds:
            return _left(state, f"cut off from ZooKeeper for {state.session_seconds:g} s")
        return state, ()
    if state.due is None or now < state.due:
        return state, ()
    return replace(state, due=None), (Try() if state.term is None else Look(),)


def _seen(state: ElectionState, seen: Seen, now: float) -> Step:
    holder = seen.holder
    if holder is None:
        due = now + _patience(state, seen)
        return _left(replace(state, due=due), "its running node was removed")
    if not seen.ours:
        return _left(replace(state, last=holder, due=None), f"{holder.address} runs it")
    if not holder.active:  # asked to hand over: another server shall have it
        return _left(replace(state, last=holder, due=None), "it was asked to hand over", Remove())
    if state.term is None:  # of a term that ended, or of a try whose answer was lost
        return replace(state, last=holder, due=None), (Remove(),)
    return state, ()


def _patience(state: ElectionState, seen: Seen) -> float:
    last = state.last
    if last is None:
        return seen.handicap
    if last.address == state.address:
        return 0.0 if last.active else HAND_OVER
    return seen.handicap + (PREFERENCE if last.active and seen.lives else GRACE)


def _left(state: ElectionState, why: str, *then: Action) -> Step:
    """Leaves, if it was active."""
    return replace(state, term=None), ((Leave(why), *then) if state.term is not None else then)
