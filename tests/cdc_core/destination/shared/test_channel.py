"""Followers of a shared connection against a model: each event once and in order, whatever the others do."""

from __future__ import annotations

import itertools
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc_core.binlog.block import Block
from cdc_core.destination.shared import backlog
from cdc_core.destination.shared.channel import Channel, Follower
from cdc_core.errors import SourceUnavailable
from cdc_core.source.following import Overtaken
from cdc_core.stream.group import join
from tests.support.binlog_stream import whole
from tests.support.shared_journals import EVENTS, cut, journal

TABLES = ["a", "b", "c", "d", "a", "b"]
JOURNALS = [f"mysql-bin.00000{number}" for number in (1, 2, 3)]
Cell = tuple[str, int, bytes]


def _all(_database: str, _table: str) -> bool:
    return True


def _channel(held: int = 1 << 20) -> Channel:
    return Channel("db:3306", block_bytes=500, held=held, run=3)


class World:
    """Two servers of one name with other bytes at the same places; a shared connection to one of them."""

    def __init__(self, held: int) -> None:
        self.held = held
        self.servers = [[journal(name, TABLES, salt) for name in JOURNALS] for salt in (1, 2)]
        self.truth = [cell for one in self.servers[0] for cell in whole([one])]
        self.head = 0  # events that the server has written
        self.begin(0, 0)

    def begin(self, server: int, event: int) -> None:
        self.server, self.fed, self.channel = server, event, _channel(self.held)

    def blocks(self, server: int, low: int, high: int) -> list[Block]:
        """The events [low, high) of a server, a block for each journal."""
        size = len(TABLES) * EVENTS
        found = []
        for number, one in enumerate(self.servers[server]):
            first, last = max(low - number * size, 0), min(high - number * size, size)
            if first < last:
                found.append(cut(one, first, last))
        return found


@dataclass
class Reader:
    """A destination: what it has, by its own connection or by the shared one."""

    got: list[Cell] = field(default_factory=list)
    last: Block | None = None
    follower: Follower | None = None

    def leave(self) -> None:
        if self.follower is not None:
            self.follower.leave()
        self.follower = self.last = None

    def take(self) -> None:
        assert self.follower is not None
        try:
            for block in self.follower.blocks(0):
                block.index["kind"] = 1  # as the stages of a stream do
                self.got += whole([block])
        except (Overtaken, SourceUnavailable):
            self.leave()


STEPS = st.one_of(
    st.tuples(st.sampled_from(["write", "feed"]), st.just(0), st.integers(1, 12)),
    st.tuples(
        st.sampled_from(["own", "join", "take", "take", "stop", "rewind"]), st.integers(0, 2), st.integers(1, 12)
    ),
    st.tuples(st.sampled_from(["break", "other"]), st.just(0), st.integers(0, 12)),
)


def _step(world: World, readers: list[Reader], what: str, number: int, amount: int) -> None:
    reader = readers[number]
    if what == "write":
        world.head = min(world.head + amount, len(world.truth))
    elif what == "feed":
        high = min(world.fed + amount, world.head)
        for block in world.blocks(world.server, world.fed, high):
            world.channel.put(block)
        world.fed = max(world.fed, high)
    elif what == "own" and reader.follower is None:
        at = len(reader.got)
        for block in world.blocks(0, at, min(at + amount, world.head)):
            reader.got += whole([block])
            reader.last = block
    elif what == "join" and reader.follower is None and reader.last is not None:
        reader.follower = world.channel.follow(reader.last, _all)
        assert reader.follower is None or world.server == 0
    elif what == "take" and reader.follower is not None:
        reader.take()
    elif what in ("stop", "rewind"):
        reader.leave()
        if what == "rewind":
            del reader.got[max(0, len(reader.got) // EVENTS - amount) * EVENTS :]
    elif what in ("break", "other"):
        world.channel.end(None)
        begin = max(0, world.head // EVENTS - amount) * EVENTS
        world.begin(int(what == "other"), begin)


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, min_size=40, max_size=120), st.sampled_from([400, 1500, 1 << 20]))
def test_each_reader_gets_each_event_once_and_in_order(steps: list[tuple[str, int, int]], held: int) -> None:
    """Through stops, rewinds, slow readers, broken connections and another server of the same name."""
    world, readers = World(held), [Reader() for _ in range(3)]
    for step in steps:
        _step(world, readers, *step)
        for reader in readers:
            assert reader.got == world.truth[: len(reader.got)]
    for reader in readers:
        reader.leave()
        _step(world, readers, "own", readers.index(reader), len(world.truth))
        assert reader.got == world.truth[: world.head]


def test_a_reader_joins_within_a_transaction_and_within_a_block() -> None:
    """The place is that of the event, however the two connections cut their blocks."""
    one = journal(JOURNALS[0], TABLES)
    channel = _channel()
    channel.put(cut(one, 0, 12))
    follower = channel.follow(cut(one, 4, 8), _all)
    assert follower is not None
    channel.put(cut(one, 12, 20))
    found = [block for _ in range(2) for block in follower.blocks(0)]
    assert whole(found) == whole([cut(one, 8, 20)])
    assert found[0].start == one.index["end"][7]


def test_nobody_joins_at_another_event_of_the_same_place() -> None:
    """Another server behind the name, or the same one after its binlogs were reset, has its own bytes there."""
    channel = _channel()
    channel.put(cut(journal(JOURNALS[0], TABLES, salt=2), 0, 30))
    assert channel.follow(cut(journal(JOURNALS[0], TABLES, salt=1), 0, 5), _all) is None
    assert channel.follow(cut(journal(JOURNALS[1], TABLES, salt=2), 0, 5), _all) is None
    assert channel.follow(cut(journal(JOURNALS[0], TABLES, salt=2), 0, 5), _all) is not None
    assert channel.follow(cut(journal(JOURNALS[0], TABLES, salt=1), 6, 7), _all) is None  # a BEGIN is like any other


def test_small_blocks_become_one_up_to_the_size_of_a_block() -> None:
    """What waited costs as much as one block; a journal's end is a block's end."""
    one, two = journal(JOURNALS[0], TABLES), journal(JOURNALS[1], TABLES)
    channel = _channel()
    channel.put(cut(one, 0, 5))
    follower = channel.follow(cut(one, 0, 5), lambda _database, _table: False)
    assert follower is not None
    for low in range(5, 30):
        channel.put(cut(one, low, low + 1))
    channel.put(cut(two, 0, 5))
    found = list(follower.blocks(0))
    assert whole(found) == [*whole([cut(one, 5, 30)]), *whole([cut(two, 0, 5)])]
    assert 2 < len(found) < 10
    assert all(block.nbytes <= 500 for block in found[:-1])
    assert all(a.end == b.start for a, b in itertools.pairwise(found[:-1]))


def test_what_a_reader_wants_stays_apart_from_the_rest() -> None:
    """The ring keeps the whole of a block that has captured rows."""
    one = journal(JOURNALS[0], TABLES)
    channel = Channel("db:3306", block_bytes=1 << 18)
    channel.put(cut(one, 0, 5))
    follower = channel.follow(cut(one, 0, 5), lambda _, table: table == "c")
    assert follower is not None
    for low in range(5, 30, 5):
        channel.put(cut(one, low, low + 5))
    found = list(follower.blocks(0))
    assert [len(block.index) // EVENTS for block in found] == [1, 1, 3]


def test_small_neighbours_are_joined_once_for_all_who_want_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hundred readers of a busy server would join the same blocks two hundred times."""
    joined: list[int] = []

    def counting(blocks: list[Block]) -> Block:
        joined.append(len(blocks))
        return join(blocks)

    monkeypatch.setattr(backlog, "join", counting)
    one = journal(JOURNALS[0], TABLES)
    channel = Channel("db:3306", block_bytes=1, run=4)
    channel.put(cut(one, 0, 5))
    idle = [channel.follow(cut(one, 0, 5), lambda _database, _table: False) for _ in range(5)]
    busy = channel.follow(cut(one, 0, 5), lambda _, table: table == "b")
    for low in range(5, 30):
        channel.put(cut(one, low, low + 1))
    for follower in (*idle, busy):
        assert follower is not None
        assert whole(list(follower.blocks(0))) == whole([cut(one, 5, 30)])
    assert joined == [4] * 5


def test_a_slow_reader_is_overtaken_and_holds_up_nobody() -> None:
    """The connection keeps what fits, and another reader goes on."""
    one = journal(JOURNALS[0], TABLES)
    channel = _channel(held=800)
    channel.put(cut(one, 0, 5))
    slow, quick = (channel.follow(cut(one, 0, 5), _all) for _ in range(2))
    assert slow is not None
    assert quick is not None
    got = []
    for low in range(5, 30, 5):
        channel.put(cut(one, low, low + 5))
        got += list(quick.blocks(0))
    assert whole(got) == whole([cut(one, 5, 30)])
    with pytest.raises(Overtaken):
        list(slow.blocks(0))


def test_a_connection_that_ends_gives_what_it_has_first() -> None:
    """Then the error with which a destination reconnects; nobody joins it any more."""
    one = journal(JOURNALS[0], TABLES)
    channel = _channel()
    channel.put(cut(one, 0, 5))
    follower = channel.follow(cut(one, 0, 5), _all)
    assert follower is not None
    channel.put(cut(one, 5, 10))
    channel.end(SourceUnavailable("the server closed the connection", hint=""))
    assert whole(list(follower.blocks(0))) == whole([cut(one, 5, 10)])
    with pytest.raises(SourceUnavailable, match="the server closed the connection"):
        list(follower.blocks(0))
    assert channel.follow(cut(one, 0, 5), _all) is None


def test_only_who_captures_a_table_is_woken() -> None:
    """The other one looks later, and gets all the same."""
    one = journal(JOURNALS[0], TABLES)
    channel = _channel()
    channel.put(cut(one, 0, 5))
    waiting, woken = (channel.follow(cut(one, 0, 5), lambda _, table, own=own: table == own) for own in "cb")
    assert waiting is not None
    assert woken is not None
    for follower in (waiting, woken):
        with suppress(StopIteration):
            next(follower.blocks(0))
    channel.put(cut(one, 5, 10))
    assert (waiting.woken, woken.woken) == (False, True)
    assert whole(list(waiting.blocks(0))) == whole(list(woken.blocks(0))) == whole([cut(one, 5, 10)])


def test_a_block_of_a_follower_is_its_own() -> None:
    """What the stages of one destination write into an index, no other one sees."""
    one = journal(JOURNALS[0], TABLES)
    channel = _channel()
    channel.put(cut(one, 0, 5))
    two = [channel.follow(cut(one, 0, 5), _all) for _ in range(2)]
    channel.put(cut(one, 5, 10))
    for follower in two:
        assert follower is not None
        (block,) = follower.blocks(0)
        assert not block.index["kind"].any()
        block.index["kind"] = 1
        with pytest.raises(ValueError, match="read-only"):
            block.data[0] = 1
