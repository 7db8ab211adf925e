"""What is said when: the decision by itself, as tables of moments, and over random troubles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestration.alerts.incidents import (
    APART,
    LONGEST_QUIET,
    MOST,
    QUIET,
    Condition,
    Heard,
    Look,
    State,
    follow,
    kept,
    news,
    not_told,
    told,
)
from orchestration.alerts.kinds import WORDS, Kind

ALL = frozenset(Kind)
BEGAN = 1_700_000_000.0


def stopped(*tables: str) -> list[Condition]:
    return [Condition(Kind.STOPPED, f"shop.{name}", "why") for name in tables]


def lag() -> list[Condition]:
    return [Condition(Kind.LAG, "shop", "late")]


class Told:
    """A receiver, and what it got: the second, `stopped+` or `stopped-`, and of what. `takes` says when it works."""

    def __init__(self, takes: Callable[[float], bool] = lambda _at: True, kinds: frozenset[Kind] = ALL) -> None:
        self.takes, self.kinds = takes, kinds
        self.state = State()
        self.got: list[tuple[float, str, tuple[str, ...]]] = []
        self.tries: list[float] = []

    def at(self, second: float, conditions: Iterable[Condition] = (), unknown: Iterable[Kind] = ()) -> None:
        """A tick, after a restart: the state comes from the cursor."""
        now, look = BEGAN + second, Look(list(conditions), frozenset(unknown))
        known = State.from_cursor(self.state.cursor)
        incidents = follow(known.incidents, look, now)
        heard = kept(known.heard.get("one", Heard()), self.kinds, now)
        for one in news(incidents, look, heard, self.kinds, now):
            assert one.ended or set(one.keys) <= {there.key for there in look.conditions}  # it has a text
            self.tries.append(second)
            if not self.takes(second):
                heard = not_told(heard, now)
                break
            heard = told(heard, one, incidents, now)
            self.got.append((second, one.name, tuple(key.partition(":")[2] for key in one.keys)))
        self.state = State(incidents, {"one": heard})

    @property
    def names(self) -> list[tuple[float, str]]:
        return [(second, name) for second, name, _ in self.got]


def test_a_trouble_is_said_once_and_once_when_it_ends() -> None:
    """Each tick begins with the cursor of the last one, as after a restart."""
    receiver = Told()
    for second in (0, 30, 60, 90):
        receiver.at(second, stopped("orders"))
    for second in (120, 150, 180, 210, 240):
        receiver.at(second)

    assert receiver.got == [(0, "stopped+", ("shop.orders",)), (180, "stopped-", ("shop.orders",))]
    assert receiver.state.heard["one"].said == {}


def test_what_is_over_soon_is_not_said() -> None:
    """A service that restarts, and a lag for less than a minute."""
    receiver = Told()
    for second, found in ((0, lag()), (30, lag()), (59, []), (90, lag()), (120, lag()), (149, lag())):
        receiver.at(second, found)
    assert receiver.got == []

    receiver.at(150, lag())
    assert receiver.names == [(150, "lag+")]


def test_many_at_once_are_one_message() -> None:
    """Those that follow wait for the next one, so that tables that stop one after the other are no storm."""
    receiver, names = Told(), [f"t{number:02}" for number in range(40)]
    receiver.at(0, stopped(*names[:20]))
    for second, count in ((30, 25), (60, 30), (90, 40), (270, 40)):
        receiver.at(second, stopped(*names[:count]))
    assert [(second, len(keys)) for second, _, keys in receiver.got] == [(0, 20)]

    receiver.at(APART, stopped(*names))
    assert [(second, len(keys)) for second, _, keys in receiver.got] == [(0, 20), (APART, 20)]


def test_more_than_a_hundred_are_counted() -> None:
    """The state stays small; the message says how many there are."""
    look = Look(stopped(*(f"t{number:05}" for number in range(2_000))))
    incidents = follow({}, look, BEGAN)
    (one,) = news(incidents, look, Heard(), ALL, BEGAN)

    assert (len(incidents), len(one.keys), one.total) == (MOST, MOST, 2_000)
    assert len(State(incidents, {"one": told(Heard(), one, incidents, BEGAN)}).cursor) < 20_000
    again = Look(stopped(*(f"s{number:05}" for number in range(2_000)), "t00099"))
    assert follow(incidents, again, BEGAN + 30)["stopped:shop.t00099"].gone is None


def test_what_could_not_be_looked_at_stays_as_it_is() -> None:
    """While the service is away, nobody knows whether a table goes on."""
    receiver = Told()
    receiver.at(0, stopped("orders"))
    for second in range(30, 4_000, 30):
        receiver.at(second, unknown=[Kind.STOPPED])
    assert receiver.names == [(0, "stopped+")]

    receiver.at(4_000)
    receiver.at(4_060)
    assert receiver.names == [(0, "stopped+"), (4_060, "stopped-")]


def test_a_trouble_that_comes_and_goes_is_one_that_lasts() -> None:
    """Its quiet time doubles each time, so a day of it is a few messages."""
    receiver = Told()
    for second in range(0, 86_400, 30):
        receiver.at(second, stopped("orders") if second // 300 % 2 == 0 else [])

    assert len(receiver.got) < 10
    last = receiver.got[-1]
    assert last[1] == "stopped+"
    assert last[0] < 7_200


def test_a_message_that_is_not_taken_is_tried_again_later_each_time() -> None:
    """From half a minute to a quarter of an hour apart; then it says what lasts, and nothing of what is over."""
    receiver = Told(takes=lambda second: second >= 6_000)
    for second in range(0, 6_900, 30):
        receiver.at(second, [*stopped("orders"), *(stopped("users") if second < 3_000 else [])])

    apart = [after - before for before, after in pairwise(receiver.tries)]
    assert apart[:6] == [30, 60, 120, 240, 480, 900]
    assert max(apart) == 900
    assert [(name, keys) for _, name, keys in receiver.got] == [("stopped+", ("shop.orders",))]
    assert receiver.state.heard["one"].failures == 0


def test_each_receiver_has_its_kinds() -> None:
    """One that is no longer told a kind is not told its end either; a new kind is said as it is."""
    receiver = Told(kinds=frozenset({Kind.STOPPED}))
    receiver.at(0, [*lag(), *stopped("orders")])
    receiver.at(60, [*lag(), *stopped("orders")])
    assert receiver.names == [(0, "stopped+")]

    receiver.kinds = frozenset({Kind.LAG})
    receiver.at(90, [*lag(), *stopped("orders")])
    for second in (120, 180, 240):
        receiver.at(second)
    assert receiver.names == [(0, "stopped+"), (90, "lag+"), (180, "lag-")]


def test_a_clock_that_was_set_back_delays_nothing_for_long() -> None:
    """Times of the future count as now."""
    receiver = Told()
    receiver.at(100_000, stopped("orders"))
    receiver.at(0, stopped("orders", "users"))
    receiver.at(30)
    receiver.at(90)

    assert receiver.names == [(100_000, "stopped+"), (0, "stopped+"), (90, "stopped-")]
    late = replace(Heard(), failures=9, retry=BEGAN + 1e6)
    assert news(receiver.state.incidents, Look(), replace(late, said={"stopped:a": 0.0}), ALL, BEGAN)


@pytest.mark.parametrize("cursor", [None, "", "{", "[]", '{"incidents": 3}', '{"heard": {"one": {"odd": 1}}}', "7"])
def test_a_cursor_of_another_version_is_no_error(cursor: str | None) -> None:
    """What lasts is said again."""
    assert State.from_cursor(cursor) == State()


def test_a_kind_that_this_version_does_not_know_is_forgotten() -> None:
    """After a step back to an older version."""
    state = State.from_cursor(
        '{"incidents": {"moon:full": [1, 1, null, true, 0]}, "heard": {"one": {"said": {"moon:full": 1}}}}'
    )

    assert follow(state.incidents, Look(unknown=ALL), BEGAN) == {}
    assert kept(state.heard["one"], ALL, BEGAN).said == {}


def test_every_kind_has_words() -> None:
    """For its beginning and its end, for one thing and for several."""
    assert set(WORDS) == set(Kind)
    for words in WORDS.values():
        titles = {words.title(count, ended=ended) for count in (1, 7) for ended in (False, True)}
        assert len(titles) >= 2
        assert not any("{" in title for title in titles)


THINGS = [*stopped("a", "b", "c"), *lag(), Condition(Kind.SERVICE, "http://s", "away")]
TICKS = st.lists(
    st.tuples(
        st.sampled_from([0, 5, 30, 31, 60, 61, 300, 900, 4_000, 8_000]),
        st.sets(st.sampled_from(range(len(THINGS)))),
        st.booleans(),
        st.booleans(),
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(TICKS)
def test_beginnings_and_ends_take_turns(ticks: Sequence[tuple[int, set[int], bool, bool]]) -> None:
    """Whatever comes and goes, is unknown, or is not taken: of each thing a beginning and an end follow each other;
    messages of a kind keep their distance; and in the end all is said as it is."""
    works = [True]
    receiver, second = Told(takes=lambda _at: works[0]), 0.0
    for pause, there, silent, works[0] in ticks:
        second += pause
        receiver.at(second, [THINGS[one] for one in sorted(there)], ALL if silent else ())
    works[0] = True
    last = [THINGS[one] for one in sorted(ticks[-1][1])] if ticks else []
    for _ in range(30):
        second += LONGEST_QUIET / 4
        receiver.at(second, last)

    assert set(receiver.state.heard["one"].said) == {one.key for one in last}
    by_thing: dict[tuple[str, str], list[str]] = {}
    times: dict[str, list[float]] = {}
    for at, name, subjects in receiver.got:
        times.setdefault(name, []).append(at)
        for subject in subjects:
            by_thing.setdefault((name[:-1], subject), []).append(name[-1])
    for turns in by_thing.values():
        assert turns == ["+", "-"] * (len(turns) // 2) + ["+"] * (len(turns) % 2)
    for moments in times.values():
        assert all(after - before >= APART for before, after in pairwise(moments))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.booleans(), min_size=200, max_size=2_000))
def test_however_it_flaps_there_are_few_messages(there: Sequence[bool]) -> None:
    """At most two an hour in the long run, and a few more at the start."""
    receiver = Told()
    for number, one in enumerate(there):
        receiver.at(30.0 * number, stopped("orders") if one else [])

    hours = 30.0 * len(there) / 3600
    assert len(receiver.got) <= 2 * (hours + LONGEST_QUIET / QUIET / 8)
