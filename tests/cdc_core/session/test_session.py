"""Sessions: acks in order, partial claims, leases, owners. The stateful suite has the rest."""

from __future__ import annotations

import pytest

from cdc_core.binlog.block import BlockSlice
from cdc_core.contract.claim import Claim
from cdc_core.errors import SessionError
from cdc_core.gtid import Gtid, Gtids
from cdc_core.meta.epoch import Epoch
from cdc_core.position import EntryPosition
from cdc_core.session import session as session_module
from cdc_core.session.session import Session
from cdc_core.store.ring import Ring
from tests.support.doubles import DELETE, UPDATE, Tables, block, ddl, transaction
from tests.support.doubles import GTID as GTID_EVENT

AT = EntryPosition("mysql-bin.000001", 4)
GTID = Gtid("3e11fa47-71ca-11e1-9e33-c80aa9429562", "", 9)


def make(*events_of: list, last_gtid: Gtid | None = None) -> Session:  # type: ignore[type-arg]
    """A session of client 1, with these transactions put."""
    ring = Ring(Tables().get, 1 << 20)
    session = Session("shop", ring, Tables().get, first_batch=7000, gtid_after=lambda _, before: last_gtid or before)
    session.subscribe(1, AT, epoch=Epoch(3))
    start = 4
    for events in events_of:
        new = block(events, start=start)
        assert ring.try_put(new)
        start = new.end
    return session


def test_an_ack_knows_since_when_its_claim_is_out() -> None:
    """Also after the claim was renewed."""
    session = make([*transaction(1)])
    found = claimed(session, now=5)
    session.renew(1, found.batch_id, "me", 10, now=9)

    assert session.begin_ack(1, found.batch_id, "me").since == 5


def claimed(session: Session, rows: int = 100, now: float = 0) -> Claim:
    found = session.claim(1, rows, "me", 10, now)
    assert found is not None
    return found


def acked(session: Session, batch_id: int) -> EntryPosition | None:
    return session.finish(session.begin_ack(1, batch_id, "me"))


def test_a_claim_describes_its_range() -> None:
    """Start, end, counts by operation, times, epoch, lease; the next one starts where it ends."""
    session = make(transaction(2, 1), transaction(3, type=UPDATE), transaction(4, type=DELETE), last_gtid=GTID)

    first, second = claimed(session, rows=6), claimed(session)

    assert (first.batch_id, second.batch_id) == (7000, 7001)
    assert (first.start, first.end, second.start) == (AT, EntryPosition("mysql-bin.000001", 364), first.end)
    assert (first.end.gtid, first.end.timestamp, first.end.server_id) == (GTID, 1_700_000_000_000, 1)
    assert [(t.name, t.inserts, t.updates, t.deletes) for t in first.tables] == [("shop.orders", 3, 3, 0)]
    assert (first.transactions, first.events, second.tables[0].deletes) == (2, 9, 4)
    assert first.execute_times == ((1_700_000_000, 6),)
    assert (first.epoch, first.owner, first.lease_deadline) == (3, "me", 10)
    assert repr(session) == "<Session shop outstanding={1: [7000, 7001]}>"


def test_acks_come_in_order() -> None:
    """The error names the batch expected, or says that there is none."""
    session = make(transaction(1), transaction(1))
    first, second = claimed(session, rows=1), claimed(session, rows=1)

    with pytest.raises(SessionError, match="the next to ack is 7000"):
        session.begin_ack(1, second.batch_id, "me")

    assert acked(session, first.batch_id) == first.end
    assert session.already_acked(1, first.batch_id, "me")
    assert acked(session, second.batch_id) == second.end
    with pytest.raises(SessionError, match="none is outstanding"):
        session.begin_ack(1, first.batch_id, "me")


def test_an_ack_that_could_not_be_kept_may_be_made_again() -> None:
    """Nothing is served between the two steps; afterwards the claim is as it was."""
    session = make(transaction(1), transaction(1))
    found = claimed(session, rows=1)

    step = session.begin_ack(1, found.batch_id, "me")
    assert session.claim(1, 1, "me", 10, 0) is None
    assert session.expire(1, 1000) == []
    session.abandon(step)

    assert session.client(1).cursor == AT
    assert acked(session, found.batch_id) == found.end


def test_a_partial_ack_moves_the_store_but_not_the_cursor() -> None:
    """The cursor stays at the end of the last transaction until the large one has ended."""
    session = make(transaction(3, 3, 3))
    end = EntryPosition("mysql-bin.000001", 244)

    seen = []
    for _ in range(3):
        found = claimed(session, rows=4)
        step = session.begin_ack(1, found.batch_id, "me")
        assert step.end == found.end
        seen.append((found.partial, session.finish(step)))

    assert seen == [(True, AT), (True, AT), (False, end)]


@pytest.mark.parametrize("acks", [False, True])
def test_a_new_client_has_the_gtid_of_a_transaction_that_others_have_in_part(acks: bool) -> None:
    """The GTID lies in the part that the client furthest behind has acked, or has claimed."""
    ring = Ring(Tables().get, 1 << 20)

    def gtid_after(slices: list[BlockSlice], before: Gtid | Gtids | None) -> Gtid | Gtids | None:
        return GTID if any((part.index["type"] == GTID_EVENT).any() for part in slices) else before

    session = Session("shop", ring, Tables().get, first_batch=7000, gtid_after=gtid_after)
    session.subscribe(1, AT, epoch=Epoch())
    assert ring.try_put(block(transaction(2, 2, 2)))
    parts = claimed(session, rows=2), claimed(session, rows=2)
    if acks:
        acked(session, parts[0].batch_id)

    found = session.newest()

    assert found is not None
    assert (found.position, found.gtid) == (244, GTID)


def test_rollback_gives_back_a_batch_and_the_later_ones() -> None:
    """They are claimed again from the same place under new ids; unknown ids give nothing back."""
    session = make(transaction(1), transaction(1), transaction(1))
    first, second, _ = (claimed(session, rows=1) for _ in range(3))
    generation = session.client(1).generation

    assert session.rollback(1, 99, None) == []
    assert session.rollback(1, second.batch_id, "me") == [7001, 7002]
    again = claimed(session)

    assert (again.batch_id, again.start, again.rows) == (7003, first.end, 2)
    assert session.rollback(1, None, "somebody") == []
    assert session.rollback(1, None, "me") == [7000, 7003]
    assert session.client(1).rollbacks == 2
    assert session.client(1).generation == generation + 2
    session.unsubscribe(1)
    assert session.rollbacks == 2  # a counter does not fall


def test_a_lease_that_ends_gives_back_the_later_ones_too() -> None:
    """Renewing in time keeps a lease; a late ack is refused when somebody else has the batch."""
    session = make(transaction(1), transaction(1))
    first, second = claimed(session, rows=1, now=0), claimed(session, rows=1, now=5)
    assert session.next_deadline(1) == 10

    assert session.renew(1, first.batch_id, "me", 10, now=9) == 19
    assert session.expire(1, now=18.9) == [second.batch_id]
    assert session.rollback(1, None, None) == [first.batch_id]

    taken = claimed(session, now=20)
    assert session.claim(1, 100, "other", 10, now=29) is None
    theirs = session.claim(1, 100, "other", 10, now=30)
    assert theirs is not None
    with pytest.raises(SessionError, match=f"the next to ack is {theirs.batch_id}"):
        session.begin_ack(1, taken.batch_id, "me")


def test_no_claim_overtakes_another_owner() -> None:
    """The range of a claim waits for its ack, rollback or the end of its lease; its owner may go on."""
    session = make(transaction(1), transaction(1), transaction(1))
    first, second = claimed(session, rows=1), claimed(session, rows=1)
    assert session.claim(1, 1, "other", 10, now=5) is None
    assert session.rollback(1, second.batch_id, None) == [second.batch_id]
    assert session.claim(1, 1, "other", 10, now=5) is None
    acked(session, first.batch_id)

    theirs = session.claim(1, 1, "other", 10, now=5)
    assert theirs is not None
    assert theirs.start == first.end
    assert session.claim(1, 1, "me", 10, now=14) is None
    again = session.claim(1, 1, "me", 10, now=15)
    assert again is not None
    assert again.start == first.end


def test_other_owners_are_refused() -> None:
    """Another owner can neither ack, renew nor roll back; unknown clients and batches are named."""
    session = make(transaction(1))
    found = claimed(session)

    for call in (
        lambda: session.begin_ack(1, found.batch_id, "you"),
        lambda: session.renew(1, found.batch_id, "you", 10, 0),
        lambda: session.rollback(1, found.batch_id, "you"),
    ):
        with pytest.raises(SessionError, match="belongs to 'me', not to 'you'"):
            call()
    with pytest.raises(SessionError, match="batch 1 is not outstanding"):
        session.renew(1, 1, "me", 10, 0)
    with pytest.raises(SessionError, match="client 5 is not subscribed"):
        session.claim(5, 1, "me", 10, 0)


def test_skipping_needs_an_idle_client() -> None:
    """Ranges without rows are passed when nothing is outstanding; rows are never passed."""
    session = make(transaction(0, filtered=True), transaction(1), transaction(0, filtered=True))
    assert session.begin_skip(1) is None

    found = claimed(session, rows=1)
    assert session.begin_skip(1) is None
    acked(session, found.batch_id)

    assert session.slices(1, found.batch_id) is None
    assert session.client(1).cursor == EntryPosition("mysql-bin.000001", 484)


def test_statements_without_rows_wait_for_a_reader_of_entries() -> None:
    """Who reads rows passes over an index or a database alone; who reads entries claims and acks it."""
    of_rows, of_entries = (make(ddl(shown=False)) for _ in range(2))
    assert of_rows.claim(1, 1, "me", 10, 0) is None
    assert of_rows.begin_skip(1) is not None

    assert of_entries.begin_skip(1, entries=True) is None
    found = of_entries.claim(1, 1, "me", 10, 0, entries=True)
    assert found is not None
    assert (found.rows, found.transactions, found.ddl) == (0, 1, ())
    assert acked(of_entries, found.batch_id) == found.end
    assert of_entries.claim(1, 1, "me", 10, 0, entries=True) is None


def test_slices_are_the_claims_rows() -> None:
    """The slices stay for as long as the claim is outstanding."""
    session = make(transaction(1), transaction(1))
    claimed(session, rows=1)
    second = claimed(session, rows=1)

    slices = session.slices(1, second.batch_id)

    assert slices is not None
    assert [(type(s), s.high - s.low) for s in slices] == [(BlockSlice, 4)]


def test_the_next_claim_can_be_known_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it ends with a transaction and more lies after it; nothing changes by asking."""
    monkeypatch.setattr(session_module, "BEHIND", 1)
    session = make(transaction(2), transaction(3), transaction(4))
    assert session.upcoming(1, 100, 1 << 20) is None  # more may come

    upcoming = session.upcoming(1, 2, 1 << 20)
    assert upcoming is not None
    assert session.upcoming(1, 2, 1 << 20) == upcoming

    first = claimed(session, rows=2)
    assert session.span(1, first.batch_id) == upcoming.span
    assert session.slices(1, first.batch_id) == upcoming.slices
    following = session.upcoming(1, 3, 1 << 20)
    assert following is not None
    assert following.low == upcoming.high
    session.rollback(1, first.batch_id, "me")
    assert session.upcoming(1, 2, 1 << 20) == upcoming
    assert session.span(1, first.batch_id) is None


def test_a_part_of_a_transaction_is_not_known_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not committed may be dropped."""
    monkeypatch.setattr(session_module, "BEHIND", 1)
    session = make(transaction(1), transaction(2, 2, 2))
    assert claimed(session, rows=1).partial is False
    assert session.upcoming(1, 2, 1 << 20) is None
    assert claimed(session, rows=2).partial
