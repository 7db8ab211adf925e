"""The ring: put, take, ack over several clients, bounded; state is asserted through its repr."""

from __future__ import annotations

import numpy as np
import pytest

from cdc_core.errors import RangeGone, SessionError, StoreError
from cdc_core.position import EntryPosition
from cdc_core.source.block import Block, Kind
from cdc_core.store.ring import Range, Ring
from cdc_core.testing import Event, Tables, block, table, transaction

MEGABYTE = 1 << 20


def make(*blocks: Block, tables: Tables | None = None, capacity: int = MEGABYTE, items: int | None = None) -> Ring:
    """A ring with client 1 subscribed and these blocks put."""
    ring = Ring((tables or Tables()).get, capacity, items)
    ring.subscribe(1)
    for each in blocks:
        assert ring.try_put(each)
    return ring


def taken(ring: Ring, max_rows: int, client: int = 1) -> Range:
    found = ring.take(client, max_rows)
    assert found is not None
    ring.advance(client, found.end)
    return found


def test_a_range_ends_at_the_last_transaction_within_the_limit() -> None:
    """Two transactions of 2 rows fit a limit of 5, the third does not."""
    ring = make(block(transaction(2) + transaction(2) + transaction(2)))

    found = taken(ring, 5)

    assert (found.rows, found.events, found.partial) == (4, 8, False)
    assert taken(ring, 5).rows == 2
    assert ring.take(1, 5) is None


def test_put_get_ack_are_seen_in_the_repr() -> None:
    """get moves with a take, ack with an ack; what is acked is freed a segment at a time."""
    ring = make(block(transaction(1) + transaction(1)))

    found = taken(ring, 1)
    assert repr(ring) == f"<Ring put=8 get=4 ack=0 bytes={ring.nbytes}>"

    ring.ack(1, found.end)
    assert repr(ring) == f"<Ring put=8 get=4 ack=4 bytes={ring.nbytes}>"
    assert ring.nbytes > 0

    ring.ack(1, taken(ring, 1).end)
    assert repr(ring) == "<Ring put=8 get=8 ack=8 bytes=0>"


def test_a_larger_transaction_comes_in_parts_of_whole_events() -> None:
    """Ten events of 3 rows at a limit of 7: parts of 6 rows; the part that holds the commit is not partial."""
    ring = make(block(transaction(*[3] * 10) + transaction(1)))

    parts = [taken(ring, 7) for _ in range(5)]

    assert [p.rows for p in parts] == [6, 6, 6, 6, 7]
    assert [p.partial for p in parts] == [True, True, True, True, False]


def test_what_came_in_one_event_is_served_whole() -> None:
    """Events that end at one position are never on both sides of a range's end: a replay could not tell them apart."""
    one = block(transaction(*[3] * 10))
    one.index["end"][3:6], one.index["end"][6:9] = one.index["end"][5], one.index["end"][8]
    ring = make(one)

    parts = [taken(ring, 7) for _ in range(5)]

    assert [p.rows for p in parts] == [3, 9, 9, 6, 3]
    assert [ring.position(p.end.sequence).position for p in parts] == one.index["end"][[2, 5, 8, 10, 12]].tolist()


def test_an_event_larger_than_the_limit_is_served_whole() -> None:
    """At least one rows event is served, whatever the limit."""
    ring = make(block(transaction(100, 1)))

    first = taken(ring, 10)

    assert (first.rows, first.partial) == (100, True)
    assert (taken(ring, 10).rows, ring.take(1, 10)) == (1, None)


def test_an_open_transaction_is_not_served_before_its_end() -> None:
    """Rows without their commit wait, unless they alone exceed the limit or the ring is full."""
    events = transaction(2, 2)
    ring = make(block(events[:-1]))
    assert ring.take(1, 10) is None

    found = ring.take(1, 3)
    assert found is not None
    assert (found.rows, found.partial) == (2, True)

    assert ring.try_put(block(events[-1:], start=200))
    assert taken(ring, 10).rows == 4


def test_a_full_ring_serves_the_open_transaction() -> None:
    """A transaction larger than the ring passes through it in parts."""
    first, second = block(transaction(2, 2)[:-1]), block([Event(Kind.ROWS, 30, 0, 5)], start=164)
    ring = make(first, capacity=first.nbytes + 10)
    assert ring.take(1, 100) is None

    assert not ring.try_put(second)
    found = taken(ring, 100)
    assert (found.rows, found.partial, found.committed) == (4, True, None)

    ring.ack(1, found.end)
    assert not ring.full
    assert ring.try_put(second)


def test_capacity_in_items_counts_events() -> None:
    """ITEMSIZE: the fifth event has no room."""
    ring = make(block(transaction(1)), items=4)

    assert not ring.try_put(block(transaction(1), start=164))


def test_one_block_larger_than_the_ring_is_taken_when_it_is_empty() -> None:
    """A large event must not block the source for ever."""
    assert make(capacity=10).try_put(block(transaction(1)))


def test_several_clients_have_their_own_places() -> None:
    """A block is freed when both acked it; a new client starts at the newest transaction."""
    ring = make(block(transaction(1)))
    ring.subscribe(2)
    assert ring.take(2, 10) is None

    assert ring.try_put(block(transaction(2), start=164))
    ring.ack(1, taken(ring, 10).end)
    assert ring.nbytes > 0

    assert taken(ring, 10, client=2).rows == 2
    ring.ack(2, ring.put)
    assert ring.nbytes == 0


def test_a_client_at_a_position_passes_over_what_ends_before() -> None:
    """Its first range starts at the first event after its cursor, in a later put of several."""
    ring = Ring(Tables().get, MEGABYTE)
    first, second = block(transaction(1) + transaction(2)), block(transaction(4), start=324)
    ring.subscribe(1, EntryPosition("mysql-bin.000001", 164))
    ring.subscribe(2, EntryPosition("mysql-bin.000001", 324))
    ring.subscribe(3, EntryPosition("mysql-bin.000000", 9999))
    for each in (first, second):
        assert ring.try_put(each)

    assert [taken(ring, 10, client=c).rows for c in (1, 2, 3)] == [6, 4, 7]


def test_filtered_blocks_keep_only_positions() -> None:
    """A block without captured rows shrinks to its GTIDs and commits, and is served without rows."""
    full = block(transaction(0, 0, 0, 0, filtered=True) * 50)
    ring = make(full)

    assert ring.items == 100
    assert ring.nbytes < full.nbytes / 2
    found = taken(ring, 10)
    assert (found.rows, found.partial) == (0, False)
    assert ring.position(found.end.sequence) == EntryPosition("mysql-bin.000001", full.end)
    assert ring.position(found.end.sequence).server_id == 1


def test_rows_behind_filtered_transactions_are_taken_with_them() -> None:
    """An empty prefix never hides a transaction that exceeds the limit by itself."""
    ring = make(block(transaction(0, filtered=True)), block(transaction(3, 3), start=164))

    found = taken(ring, 4)

    assert (found.rows, found.partial) == (3, True)
    assert found.committed is not None
    assert found.committed.sequence == 2


def test_a_changed_schema_cuts_at_the_transaction_before() -> None:
    """One table, two versions: never in one range. The same version under another id does not cut."""
    tables = Tables([table(), table(), table(columns=2)])
    ring = make(
        block(transaction(1) + transaction(1, schema=1) + transaction(1, schema=2) + transaction(1, schema=2)),
        tables=tables,
    )

    assert [taken(ring, 100).rows for _ in range(2)] == [2, 2]


def test_a_schema_that_changes_within_a_transaction_cuts_it() -> None:
    """Then, and only then, the part before is partial."""
    tables = Tables([table(), table(columns=2)])
    events = transaction(1)[:-1] + transaction(2, schema=1)[2:]
    ring = make(block(events), tables=tables)

    assert [(r.rows, r.partial) for r in (taken(ring, 100), taken(ring, 100))] == [(1, True), (2, False)]


def test_many_small_blocks_become_few_segments() -> None:
    """10,000 puts of one transaction coalesce; order and positions stay."""
    ring = make(capacity=16 * MEGABYTE)
    for n in range(10_000):
        assert ring.try_put(block(transaction(1), start=4 + n * 160))

    found = taken(ring, 9_999)
    slices = ring.slices(0, found.end.sequence)
    ends = np.concatenate([s.block.index["end"][s.low : s.high] for s in slices])

    assert len(slices) < 100
    assert (np.diff(ends) == 40).all()
    assert ring.position(found.end.sequence) == EntryPosition("mysql-bin.000001", 4 + 9_999 * 160)
    last = slices[-1].block
    at = last.index["offset"][-1]
    assert last.data[at + 4] == 16


def test_journals_are_not_merged() -> None:
    """A range over a rotation has a slice of each journal."""
    ring = make(block(transaction(1)), block(transaction(1), journal_name="mysql-bin.000002"))

    found = taken(ring, 10)

    assert [s.block.journal_name[-1] for s in ring.slices(0, found.end.sequence)] == ["1", "2"]


def test_what_is_gone_is_refused() -> None:
    """Freed ranges, unknown clients, acks backwards, and a start inside a transaction whose head is gone."""
    ring = make(block(transaction(1)))
    ring.ack(1, taken(ring, 10).end)

    with pytest.raises(RangeGone):
        ring.slices(0, 4)
    with pytest.raises(SessionError, match="client 7"):
        ring.take(7, 1)
    assert ring.try_put(block(transaction(1, 1)[:-1], start=164))
    part = taken(ring, 1)
    with pytest.raises(StoreError, match="not ahead"):
        ring.ack(1, Range(part.start, part.start, None).start.__class__())
    ring.ack(1, ring.put)
    with pytest.raises(StoreError, match="larger than the ring"):
        ring.subscribe(2)
