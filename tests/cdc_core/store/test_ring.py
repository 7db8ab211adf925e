"""The ring: put, get and ack for several clients within bounds. The state is asserted through its repr."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cdc_core.binlog.block import Block, Kind
from cdc_core.binlog.events import HEADER, STATEMENT_END, EventType
from cdc_core.errors import RangeGone, SessionError, StoreError
from cdc_core.position import EntryPosition
from cdc_core.schema.table import TableSchema
from cdc_core.store.range import Range
from cdc_core.store.ring import Ring
from tests.support.doubles import WRITE, Event, Tables, block, create_select, ddl, table, transaction

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


def test_a_client_far_ahead_passes_over_more_than_the_ring_holds() -> None:
    """It acks nothing on the way: what every client has passed over makes room."""
    ring = Ring(Tables().get, 600)
    ring.subscribe(1, EntryPosition("mysql-bin.000001", 4 + 10 * 200))
    for number in range(11):
        assert ring.try_put(block(transaction(1, 1), start=4 + number * 200))
    assert (taken(ring, 5).rows, ring.log.transactions) == (2, 11)


def test_a_range_ends_at_the_last_transaction_within_the_limit() -> None:
    """Two transactions of 2 rows fit a limit of 5, the third does not."""
    ring = make(block(transaction(2) + transaction(2) + transaction(2)))

    found = taken(ring, 5)

    assert (found.rows, found.events, found.partial) == (4, 8, False)
    assert taken(ring, 5).rows == 2
    assert ring.take(1, 5) is None


def test_put_get_ack_are_seen_in_the_repr() -> None:
    """get moves with a take, ack with an ack; acked blocks are freed by segment."""
    ring = make(block(transaction(1) + transaction(1)))

    found = taken(ring, 1)
    assert repr(ring) == f"<Ring put=8 get=4 ack=0 bytes={ring.log.nbytes}>"

    ring.ack(1, found.end)
    assert repr(ring) == f"<Ring put=8 get=4 ack=4 bytes={ring.log.nbytes}>"
    assert ring.log.nbytes > 0

    ring.ack(1, taken(ring, 1).end)
    assert repr(ring) == "<Ring put=8 get=8 ack=8 bytes=0>"


def test_a_larger_transaction_comes_in_parts_of_whole_events() -> None:
    """Ten events of 3 rows at a limit of 7 give parts of 6 rows; the part with the commit is not partial."""
    ring = make(block(transaction(*[3] * 10) + transaction(1)))

    parts = [taken(ring, 7) for _ in range(5)]

    assert [p.rows for p in parts] == [6, 6, 6, 6, 7]
    assert [p.partial for p in parts] == [True, True, True, True, False]


def test_what_came_in_one_event_is_served_whole() -> None:
    """A range never ends between events of one position, since a replay could not tell them apart."""
    one = block(transaction(*[3] * 10))
    one.index["end"][3:6], one.index["end"][6:9] = one.index["end"][5], one.index["end"][8]
    ring = make(one)

    parts = [taken(ring, 7) for _ in range(5)]

    assert [p.rows for p in parts] == [3, 9, 9, 6, 3]
    assert [ring.log.position(p.end.sequence).position for p in parts] == one.index["end"][[2, 5, 8, 10, 12]].tolist()


def test_an_event_larger_than_the_limit_is_served_whole() -> None:
    """At least one rows event is served, whatever the limit."""
    ring = make(block(transaction(100, 1)))

    first = taken(ring, 10)

    assert (first.rows, first.partial) == (100, True)
    assert (taken(ring, 10).rows, ring.take(1, 10)) == (1, None)


def test_an_open_transaction_is_not_served_before_its_end() -> None:
    """Rows wait for their commit, unless they exceed the limit alone or the ring is full."""
    events = transaction(2, 2)
    ring = make(block(events[:-1]))
    assert ring.take(1, 10) is None

    found = ring.take(1, 3)
    assert found is not None
    assert (found.rows, found.partial) == (2, True)

    assert ring.try_put(block(events[-1:], start=200))
    assert taken(ring, 10).rows == 4


def test_a_full_ring_serves_the_open_transaction() -> None:
    """A transaction larger than the ring passes in parts."""
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
    """With ITEMSIZE the fifth event has no room."""
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
    assert ring.log.nbytes > 0

    assert taken(ring, 10, client=2).rows == 2
    ring.ack(2, ring.put)
    assert ring.log.nbytes == 0


def test_a_client_at_a_position_passes_over_what_ends_before() -> None:
    """Its first range starts at the first event after its cursor, in whichever put that is."""
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

    assert ring.log.events == 100
    assert ring.log.nbytes < full.nbytes / 2
    found = taken(ring, 10)
    assert (found.rows, found.partial) == (0, False)
    assert ring.log.position(found.end.sequence) == EntryPosition("mysql-bin.000001", full.end)
    assert ring.log.position(found.end.sequence).server_id == 1


def test_rows_after_filtered_transactions_are_taken_with_them() -> None:
    """An empty prefix never hides a transaction that exceeds the limit alone."""
    ring = make(block(transaction(0, filtered=True)), block(transaction(3, 3), start=164))

    found = taken(ring, 4)

    assert (found.rows, found.partial) == (3, True)
    assert found.committed is not None
    assert found.committed.sequence == 2


def test_a_changed_schema_cuts_at_the_transaction_before() -> None:
    """Two versions of a table are never in one range. The same version under another id does not cut."""
    tables = Tables([table(), table(), table(columns=2)])
    ring = make(
        block(transaction(1) + transaction(1, schema=1) + transaction(1, schema=2) + transaction(1, schema=2)),
        tables=tables,
    )

    assert [taken(ring, 100).rows for _ in range(2)] == [2, 2]


def test_a_schema_that_changes_within_a_transaction_cuts_it() -> None:
    """Only then is the part before it partial."""
    tables = Tables([table(), table(columns=2)])
    events = transaction(1)[:-1] + transaction(2, schema=1)[2:]
    ring = make(block(events), tables=tables)

    assert [(r.rows, r.partial) for r in (taken(ring, 100), taken(ring, 100))] == [(1, True), (2, False)]


def test_many_small_blocks_become_few_segments() -> None:
    """10,000 puts of one transaction each coalesce; order and positions stay."""
    ring = make(capacity=16 * MEGABYTE)
    for n in range(10_000):
        assert ring.try_put(block(transaction(1), start=4 + n * 160))

    found = taken(ring, 9_999)
    slices = ring.log.slices(0, found.end.sequence)
    ends = np.concatenate([s.block.index["end"][s.low : s.high] for s in slices])

    assert len(slices) < 100
    assert (np.diff(ends) == 40).all()
    assert ring.log.position(found.end.sequence) == EntryPosition("mysql-bin.000001", 4 + 9_999 * 160)
    last = slices[-1].block
    at = last.index["offset"][-1]
    assert last.data[at + 4] == 16


def test_journals_are_not_merged() -> None:
    """A range over a rotation has a slice of each journal."""
    ring = make(block(transaction(1)), block(transaction(1), journal_name="mysql-bin.000002"))

    found = taken(ring, 10)

    assert [s.block.journal_name[-1] for s in ring.log.slices(0, found.end.sequence)] == ["1", "2"]


def test_what_is_gone_is_refused() -> None:
    """Freed ranges, unknown clients, backward acks, and a start inside a transaction whose head is gone."""
    ring = make(block(transaction(1)))
    ring.ack(1, taken(ring, 10).end)

    with pytest.raises(RangeGone):
        ring.log.slices(0, 4)
    with pytest.raises(SessionError, match="client 7"):
        ring.take(7, 1)
    assert ring.try_put(block(transaction(1, 1)[:-1], start=164))
    part = taken(ring, 1)
    with pytest.raises(StoreError, match="outside of what client 1 may ack"):
        ring.ack(1, Range(part.start, part.start, None).start.__class__())
    ring.ack(1, ring.put)
    with pytest.raises(StoreError, match="larger than the ring"):
        ring.subscribe(2)


def statements(ring: Ring, max_rows: int = 100) -> list[tuple[int, int]]:
    """DDL statements and rows of each range that comes."""
    found = []
    while (each := ring.take(1, max_rows)) is not None:
        ring.advance(1, each.end)
        found.append((each.statements, each.rows))
    return found


def test_a_range_ends_before_a_ddl_statement_after_rows() -> None:
    """Statements lead a range, several in a row; the rows up to the next statement follow."""
    ring = make(block(transaction(1) + ddl() + ddl() + transaction(2) + transaction(1) + ddl() + transaction(1)))

    assert statements(ring) == [(0, 1), (2, 3), (1, 1)]


def test_a_statement_on_one_table_does_not_end_a_range_with_rows_of_others() -> None:
    """Tables that change in turn with their rows are one range. A statement of which nobody knows what it concerns ends
    it, and so does one on a table, in any case of letters, which has rows in the range."""
    tables = Tables([table("shop.a"), table("shop.b"), table("shop.B", 2), table("shop.c")])
    turns = [ddl(on=n) + transaction(1, schema=n) for n in range(4)]
    blocks = block(transaction(1, schema=3) + turns[0] + turns[1] + turns[2] + ddl() + turns[3] + turns[3])

    assert statements(make(blocks, tables=tables)) == [(2, 3), (1, 1), (2, 1), (1, 1)]
    assert statements(make(blocks, tables=tables), max_rows=2) == [(2, 2), (0, 1), (1, 1), (2, 1), (1, 1)]


def test_a_statement_on_several_tables_ends_a_range_after_rows_of_any_of_them() -> None:
    """A RENAME among rows of other tables is in their range."""
    several = TableSchema.of_statement([("shop", "a"), ("shop", "B")])
    tables = Tables([table("shop.a"), table("shop.b"), table("shop.c"), several])
    rename, rows = ddl(on=3), [transaction(1, schema=n) for n in range(3)]
    blocks = block(rows[2] + rename + rows[2] + rename + rows[1] + rows[2] + rename + rows[0] + rename)

    assert statements(make(blocks, tables=tables)) == [(2, 4), (1, 1), (1, 0)]


def test_readers_of_entries_get_no_statement_after_rows() -> None:
    """Whatever it is on: Canal's clients know it so."""
    tables = Tables([table("shop.a"), table("shop.b")])
    ring = make(block(transaction(1) + ddl(on=1) + transaction(1, schema=1)), tables=tables)
    found = []
    while (each := ring.take(1, 100, entries=True)) is not None:
        ring.advance(1, each.end)
        found.append((each.statements, each.rows))
    assert found == [(0, 1), (1, 1)]


def test_a_range_of_ddl_statements_alone_is_not_empty() -> None:
    """It is served before a transaction that comes in parts."""
    ring = make(block(transaction(filtered=True) + ddl() + transaction(3, 3, 3)))

    assert statements(ring, max_rows=4) == [(1, 0), (0, 3), (0, 3), (0, 3)]


def test_ddl_inside_a_transaction_leads_it() -> None:
    """CREATE ... SELECT: the transactions before end their range, its rows follow in one range or in parts."""
    whole = make(block(transaction(1) + create_select(2, 2) + transaction(1)))
    parts = make(block(transaction(1) + create_select(2, 2) + transaction(1)))

    assert statements(whole) == [(0, 1), (1, 5)]
    assert statements(parts, max_rows=2) == [(0, 1), (1, 2), (0, 2), (0, 1)]


def test_ddl_may_be_isolated() -> None:
    """Each statement that stands alone is a range of its own; that of CREATE ... SELECT leads its rows, if any."""
    ring = make(block(transaction(1) + ddl() + ddl() + transaction(2) + create_select(2) + transaction(1)))
    ring.isolates_ddl = True

    assert statements(ring) == [(0, 1), (1, 0), (1, 0), (0, 2), (1, 3)]

    ring = make(block(create_select() + ddl() + transaction(1)))
    ring.isolates_ddl = True
    assert statements(ring) == [(1, 0), (1, 0), (0, 1)]


def test_statements_that_entries_alone_show_are_isolated_for_readers_of_entries() -> None:
    """Also after empty transactions, and after a block's end. For others they are as if they were not there."""
    empty, unshown = transaction(filtered=True), ddl(shown=False)
    first = block(transaction(1) + unshown + unshown + empty)
    second = block(unshown + ddl() + unshown + transaction(2), start=first.end)
    ring = make(first, second)
    ring.isolates_ddl = True
    found = []
    while (each := ring.take(1, 100, entries=True)) is not None:
        ring.advance(1, each.end)
        kinds = [
            kind for part in ring.log.slices(each.start.sequence, each.end.sequence) for kind in part.index["kind"]
        ]
        found.append((kinds.count(Kind.DDL_UNSHOWN), each.statements, each.rows))
    assert found == [(0, 0, 1), (1, 0, 0), (1, 0, 0), (1, 0, 0), (0, 1, 0), (1, 0, 0), (0, 0, 2)]
    ring.advance(1, ring.log.at(0))
    assert statements(ring) == [(0, 1), (1, 0), (0, 2)]


def test_ddl_survives_merging_compaction_and_truncation() -> None:
    """Of a block without rows, and of small ones that become one."""
    ring = make(block(transaction(1)))
    for event in (ddl(), transaction(filtered=True) + ddl(), transaction(1), ddl()[:1]):
        assert ring.try_put(block(event, start=ring.log.last_position.position))  # type: ignore[union-attr]
    ring.drop_unclaimed()

    assert (ring.put.statements, ring.put.rows) == (2, 2)
    assert statements(ring) == [(0, 1), (2, 1)]


def test_the_start_of_what_is_open_survives_compaction() -> None:
    """BEGIN, for the rows that come later, and the text of a statement that goes on; not its other rows, and nothing of
    a transaction that has ended in the block."""
    head = transaction(1, filtered=True)[:2]
    rows = Event(Kind.FILTERED, WRITE, length=600_000)
    text = Event(Kind.OTHER, EventType.ROWS_QUERY)
    ring = make(block([*transaction(1, filtered=True), *head, text, rows, rows._replace(length=40)]))

    kinds = [one.index["kind"].tolist() for one in ring.log.slices(0, ring.put.sequence)]
    assert kinds == [[Kind.OTHER, Kind.COMMIT, Kind.OTHER, Kind.BEGIN, Kind.OTHER, Kind.FILTERED]]
    assert ring.log.nbytes < 1000


def test_the_text_of_a_statement_that_has_ended_is_not_kept() -> None:
    """Its rows were of other tables: nothing needs it any more, and it may be large."""
    text = Event(Kind.OTHER, EventType.ROWS_QUERY, length=100_000)
    one = block([text, Event(Kind.FILTERED, WRITE), Event(Kind.OTHER, EventType.INTVAR)])
    data = one.data.copy()
    data[100_000 + HEADER + 6] = STATEMENT_END
    ring = make(replace(one, data=data))

    assert ring.log.events == 1
