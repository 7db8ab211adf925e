"""Who runs a destination, decided without ZooKeeper and without a clock."""

from __future__ import annotations

import pytest

from cdc_core.ha import election as e
from cdc_core.ha.running import Running
from cdc_core.ha.share import STEP, turn

ME, OTHER = "10.0.0.1:11111", "10.0.0.2:11111"
TERM = e.Term({"/running": 1, "/leader": 3})


def after(*events: tuple[float, e.Event]) -> tuple[e.ElectionState, list[e.Action]]:
    """The state after events with their times, and what the last one asks for."""
    state, actions = e.ElectionState(ME, 10.0), ()
    for now, event in events:
        state, actions = e.step(state, event, now)
    return state, list(actions)


WON = ((0.0, e.Connected()), (0.0, e.Seen(None)), (0.0, e.Tick()), (0.0, e.Won(TERM)))
OTHERS = ((0.0, e.Connected()), (0.0, e.Seen(Running(OTHER))))


def test_the_first_takes_it_at_once() -> None:
    """Connected: look. Nobody there: try. Won: enter."""
    assert after(WON[0])[1] == [e.Look()]
    assert after(*WON[:2])[0].wake_at == 0.0
    assert after(*WON[:3])[1] == [e.Try()]
    state, actions = after(*WON)
    assert (state.term, actions) == (TERM, [e.Enter(TERM)])


@pytest.mark.parametrize(("lives", "handicap", "due"), [(True, 0, 105.0), (False, 0, 100.5), (False, 1, 101.5)])
def test_a_wait_for_the_server_that_ran_it(lives: bool, handicap: float, due: float) -> None:
    """Wait five seconds for a server that still lives, half a second for one that is gone, one more if its share is
    due."""
    state, actions = after(*OTHERS, (100.0, e.Seen(None, lives=lives, handicap=handicap)))
    assert (state.wake_at, actions) == (due, [])
    assert e.step(state, e.Tick(), due - 0.1)[1] == ()
    assert e.step(state, e.Tick(), due)[1] == (e.Try(),)


def test_beaten_it_looks_again() -> None:
    """The loser looks again and stands by."""
    state, actions = after(*WON[:3], (0.0, e.Beaten()))
    assert actions == [e.Look()]
    state, actions = e.step(state, e.Seen(Running(OTHER)), 0.0)
    assert (state.wake_at, actions) == (None, ())


def test_a_lost_session_ends_the_term_at_once() -> None:
    """Back in the cluster, the last one tries at once."""
    state, actions = after(*WON, (5.0, e.Suspended()), (6.0, e.Lost()))
    assert state.term is None
    assert [type(action) for action in actions] == [e.Leave]
    state, _ = e.step(state, e.Connected(), 7.0)
    state, _ = e.step(state, e.Seen(None, lives=True), 7.0)
    assert e.step(state, e.Tick(), 7.0)[1] == (e.Try(),)


def test_a_short_cut_is_survived() -> None:
    """Within the session time-out nothing ends; after it the term ends without a message."""
    state, _ = after(*WON, (5.0, e.Suspended()))
    assert state.wake_at == 15.0
    assert e.step(state, e.Tick(), 14.0)[1] == ()
    assert e.step(state, e.Connected(), 14.0)[0].term == TERM
    left, actions = e.step(state, e.Tick(), 15.0)
    assert left.term is None
    assert [type(action) for action in actions] == [e.Leave]


def test_a_term_that_ended_leaves_no_node_behind() -> None:
    """Back in the old session, the node is removed and made again for the new term."""
    state, _ = after(*WON, (5.0, e.Suspended()), (15.0, e.Tick()), (16.0, e.Connected()))
    state, actions = e.step(state, e.Seen(Running(ME), ours=True), 16.0)
    assert actions == (e.Remove(),)
    assert e.step(state, e.Seen(None, lives=True), 16.0)[0].wake_at == 16.0


def test_our_address_in_another_session_counts_as_another_server() -> None:
    """After a restart the old node stands until its session ends; then the destination is ours at once."""
    state, actions = after((0.0, e.Connected()), (0.0, e.Seen(Running(ME))))
    assert (state.wake_at, actions) == (None, [])
    assert e.step(state, e.Seen(None), 9.0)[0].wake_at == 9.0


def test_a_refused_write_ends_the_term() -> None:
    """A second refusal of the same term has no effect."""
    state, actions = after(*WON, (9.0, e.Fenced()))
    assert [type(action) for action in actions] == [e.Leave, e.Look]
    assert e.step(state, e.Fenced(), 9.0)[1] == (e.Look(),)


def test_handing_over() -> None:
    """As in Canal `active` false in our own node releases it. We go last, and others do not wait for us."""
    state, actions = after(*WON, (9.0, e.Seen(Running(ME, active=False), ours=True)))
    assert [type(action) for action in actions] == [e.Leave, e.Remove]
    assert e.step(state, e.Seen(None, lives=True), 10.0)[0].wake_at == 10.0 + e.HAND_OVER

    other, _ = after(*OTHERS, (9.0, e.Seen(Running(OTHER, active=False))), (10.0, e.Seen(None, lives=True)))
    assert other.wake_at == 10.0 + e.GRACE


def test_handing_over_unseen() -> None:
    """A server that saw the node vanish, but not why, still tries before the holder that was asked to hand over."""
    holder, _ = after(*WON, (9.0, e.Seen(Running(ME, active=False), ours=True)), (10.0, e.Seen(None, lives=True)))
    other, _ = after(*OTHERS, (10.0, e.Seen(None, lives=True, handicap=1.0)))
    assert other.wake_at is not None
    assert holder.wake_at is not None
    assert other.wake_at < holder.wake_at


def test_a_failed_call_is_made_again() -> None:
    """A failed try is repeated by a try, a failed look by a look; not while disconnected."""
    assert after(*WON[:3], (1.0, e.Failed()), (2.0, e.Tick()))[1] == [e.Try()]
    assert after(*WON, (1.0, e.Failed()), (2.0, e.Tick()))[1] == [e.Look()]
    assert after(*WON, (1.0, e.Suspended()), (1.0, e.Failed()), (2.5, e.Tick()))[1] == []


def test_canals_json() -> None:
    """The bytes are those of Canal. What is not JSON still counts as somebody."""
    assert Running("127.0.0.1:11311").to_json() == b'{"active":true,"address":"127.0.0.1:11311"}'
    consumer = b'{"active":true,"address":"127.0.0.1:54788","clientId":1001}'
    assert Running.from_json(consumer).to_json() == consumer
    assert Running.from_json(b"\xff{").active


def test_a_fair_share() -> None:
    """Alone there is no wait; of two servers each goes first for every other destination."""
    names, servers = list("abcde"), [ME, OTHER]
    assert [turn(name, names, ME, [ME]) for name in names] == [0] * 5
    assert [turn(name, names, ME, servers) for name in names] == [0, STEP, 0, STEP, 0]
    assert [turn(name, names, OTHER, servers) for name in names] == [STEP, 0, STEP, 0, STEP]
    assert turn("new", names, ME, servers) == turn("a", names, "10.0.0.9:11111", servers) == 0
