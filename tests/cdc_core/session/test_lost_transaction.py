"""A connection is lost inside a transaction: its events come once more, or never."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import pairwise
from typing import Any

import pytest

from cdc_core.binlog.block import Block, Kind
from cdc_core.contract.claim import Claim
from cdc_core.contract.reached import Reached
from cdc_core.errors import CursorError, SessionError
from cdc_core.meta.cursors import Cursors
from cdc_core.meta.nodes import MemoryNodes
from cdc_core.position import EntryPosition, LogPosition
from cdc_core.schema.ddl import Ddl
from cdc_core.session.durable_session import DurableSession
from cdc_core.session.session import Session
from cdc_core.store.ring import Ring
from cdc_core.store.store import Store
from cdc_core.stream.trim import Trimmer
from tests.support.doubles import Event, Tables, block, create_select, ddl, transaction

FIRST, NEXT = "mysql-bin.000001", "mysql-bin.000002"


class Destination:
    """A ring with one client at the start of the first journal, after the stage that trims."""

    def __init__(self, capacity: int = 1 << 20) -> None:
        self.store = Store(Ring(Tables().get, capacity))
        self.ring = self.store.ring
        session = Session("shop", self.ring, Tables().get, first_batch=1)
        here = LogPosition("localhost", 3306, EntryPosition(FIRST, 4))
        self.serving = DurableSession(self.store, session, Cursors(MemoryNodes(), "shop"), here, "", lambda: 0.0)
        self.serving.restore(1, EntryPosition(FIRST, 4))
        self._trimmer = Trimmer(lambda: self.ring.log.last_position)

    def read(self, *blocks: Block) -> None:
        """A connection's blocks, its first one right after the last commit."""
        self.serving.drop_uncommitted(self.ring.log.last_commit.journal_name if self.ring.log.last_commit else FIRST)
        self.go_on(*blocks)

    def go_on(self, *blocks: Block) -> None:
        for each in blocks:
            for fresh in self._trimmer.push(each):
                assert self.ring.try_put(fresh)

    def claim(self, rows: int = 100) -> Claim | None:
        return self.serving.claim(1, rows, 0, "me", 60)

    def take(self, rows: int = 100) -> Claim:
        found = self.claim(rows)
        assert found is not None
        return found

    def ack(self, claim: Claim) -> EntryPosition | None:
        return self.serving.ack(1, claim.batch_id, "me")


def rows_of(destination: Destination, claim: Claim) -> list[tuple[str, int]]:
    """Where each rows event of a claim ends."""
    found = []
    for part in destination.serving.slices(1, claim.batch_id):
        index = part.block.index[part.low : part.high]
        found += [(part.block.journal_name, int(end)) for end in index["end"][index["kind"] == Kind.ROWS]]
    return found


def halves(*rows: int, start: int = 4, cut: int) -> tuple[Block, Block, Block]:
    """One transaction whole, its first `cut` events, and the others."""
    events = transaction(*rows)
    whole = block(events, start=start)
    head = block(events[:cut], start=start)
    return whole, head, block(events[cut:], start=head.end)


def test_what_never_ends_does_not_join_the_next_transaction() -> None:
    """The source crashed and lost the transaction: its next journal begins with another one."""
    one = Destination()
    _, head, _ = halves(5, 5, 5, start=164, cut=4)
    one.read(block(transaction(1)), head)
    after = block(transaction(7), journal_name=NEXT)

    one.serving.drop_uncommitted(FIRST)
    assert (one.ring.put.sequence, one.ring.log.last_position) == (4, one.ring.log.last_commit)
    one.serving.drop_uncommitted(NEXT)
    one.go_on(after)

    found = one.take()
    assert (found.rows, found.transactions) == (8, 2)
    assert rows_of(one, found) == [(FIRST, 124), (NEXT, 124)]
    assert one.ack(found) == EntryPosition(NEXT, after.end)


def test_a_journal_that_ends_inside_a_transaction() -> None:
    """As a server leaves it that crashed long ago: the same connection goes on in the next journal."""
    one = Destination()
    _, head, _ = halves(5, 5, cut=3)
    one.read(head)

    one.serving.drop_uncommitted(NEXT)
    one.go_on(block(transaction(7), journal_name=NEXT))

    assert one.take().rows == 7


@pytest.mark.parametrize("cut", range(1, 6))
def test_what_comes_once_more_is_there_once(cut: int) -> None:
    """The usual case: the connection was lost, the journal is the same."""
    one = Destination()
    whole, head, _ = halves(5, 6, 7, cut=cut)
    one.read(head)

    one.read(whole)

    found = one.take()
    assert (found.rows, found.transactions, found.events) == (18, 1, 6)


@pytest.mark.parametrize("journal_name", [FIRST, NEXT])
def test_a_block_larger_than_the_ring_fits_when_what_is_left_is_acked(journal_name: str) -> None:
    """Nobody could ack anything to make room for it."""
    one = Destination(capacity=600)
    one.read(block([*transaction(1), *transaction(5, 5)[:2]]))
    one.ack(one.take())

    one.serving.drop_uncommitted(journal_name)

    assert not one.ring.unacked
    assert one.ring.try_put(block(transaction(*[1] * 20), start=164, journal_name=journal_name))


def test_a_claimed_part_stays_claimed_when_the_rest_comes() -> None:
    """Its claim may be acked after the connection was lost; nobody gets these rows again."""
    one = Destination()
    whole, head, _ = halves(5, 6, 7, cut=5)
    one.read(head)
    part = one.take(5)
    assert (part.rows, part.partial) == (5, True)

    one.serving.drop_uncommitted(FIRST)
    assert one.ring.put == one.ring.marks(1).get
    one.go_on(whole)

    assert one.ack(part) == EntryPosition(FIRST, 4)
    rest = one.take()
    assert (rest.start.position, rest.rows, rest.partial) == (part.end.position, 13, False)
    assert one.ack(rest) == EntryPosition(FIRST, whole.end)
    assert one.ring.log.nbytes == 0


def test_a_claimed_part_is_taken_away_when_the_rest_never_comes() -> None:
    """Claims with rows of the lost transaction are given back, also one that begins before it."""
    one = Destination()
    _, head, _ = halves(5, 6, 7, start=164, cut=5)
    one.read(block(transaction(1)), head)
    whole_one, part, more = one.take(1), one.take(5), one.take(6)

    dropped = one.serving.drop_uncommitted(NEXT)
    assert (dropped.claims, dropped.acked) == ({1: [part.batch_id, more.batch_id]}, {})
    one.go_on(block(transaction(7), journal_name=NEXT))

    one.ack(whole_one)
    with pytest.raises(SessionError, match="none is outstanding"):
        one.ack(part)
    assert one.take().rows == 7


def test_an_acked_part_is_passed_over_when_it_comes_again() -> None:
    """Also when the ring has let go of it."""
    whole, head, rest = halves(5, 6, 7, cut=4)
    one = Destination(head.nbytes)
    one.read(head)
    assert not one.ring.try_put(rest)
    one.ack(one.take())
    assert one.ring.log.nbytes == 0

    one.read(whole)

    found = one.take()
    assert (found.rows, found.partial) == (7, False)
    assert one.ack(found) == EntryPosition(FIRST, whole.end)


@pytest.mark.parametrize("acked", [[5], [5, 6], [18]])
def test_an_acked_part_of_a_lost_transaction_is_reported(acked: list[int]) -> None:
    """The lake has these rows; the cursor and the next claim's start lie before the transaction."""
    _, head, rest = halves(5, 6, 7, start=164, cut=5)
    one = Destination(head.nbytes)
    one.read(block(transaction(1)))
    cursor = one.ack(one.take(1))
    one.go_on(head)
    assert not one.ring.try_put(rest)
    for rows in acked:
        last = one.take(rows)
        one.ack(last)

    dropped = one.serving.drop_uncommitted(NEXT)
    assert dropped.acked == {1: last.end}
    assert one.ring.log.last_position == cursor
    one.go_on(block(transaction(7), journal_name=NEXT))

    found = one.take()
    assert (found.start, found.rows) == (cursor, 7)
    assert one.serving.drop_uncommitted(NEXT).acked == {}


def test_an_ack_under_way_is_waited_for() -> None:
    """The ring is not cut while the cursor of a range is being written."""
    one = Destination()
    _, head, _ = halves(5, 6, cut=4)
    one.read(head)
    part = one.take(5)
    write = one.serving._cursors.write

    def lost_meanwhile(*args: object, **more: object) -> None:
        busy = one.serving.session.client(1).busy
        assert busy
        write(*args, **more)  # type: ignore[arg-type]

    one.serving._cursors.write = lost_meanwhile  # type: ignore[method-assign, assignment]
    one.ack(part)
    assert one.serving.drop_uncommitted(NEXT).acked == {1: part.end}


@pytest.mark.parametrize("kept", [True, False])
def test_a_new_client_holds_the_source_up_only_until_its_cursor_is_kept(kept: bool) -> None:
    """The source's thread waits for the cursor's write, whatever comes of it, and goes on by itself."""
    one = Destination()
    one.read(block(transaction(1)))
    begin, waiting = (
        one.serving._cursors.begin,
        threading.Thread(target=one.serving.drop_uncommitted, args=(NEXT,), daemon=True),
    )

    def slow(*args: Any) -> Reached:
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive()
        if not kept:
            raise CursorError("ZooKeeper is away", hint="Start it.")
        return begin(*args)

    one.serving._cursors.begin = slow  # type: ignore[method-assign]
    with nullcontext() if kept else pytest.raises(CursorError):
        one.serving.subscriptions.subscribe(2)
    waiting.join(60)
    assert not waiting.is_alive()


def test_a_part_of_a_lost_create_select_is_named() -> None:
    """Its statement alone was acked: the lake has a table that the source rolled back."""
    one = Destination()
    one.read(block(transaction(1)), block(create_select(9)[:3], start=164))
    one.ack(one.take())
    one.ring.full = True  # a transaction larger than the ring is served in parts
    part = one.take()
    one.ack(part)

    assert (part.rows, part.partial) == (0, True)
    assert one.serving.drop_uncommitted(NEXT).acked == {1: part.end}


def test_a_claim_whose_statements_cannot_be_read_is_given_back() -> None:
    """The next claimer gets it at once."""
    one = Destination()
    one.read(block(ddl() + transaction(1)))

    def fails(_: object) -> tuple[Ddl, ...]:
        raise CursorError("no history", hint="None.")

    one.serving._claiming.read_ddl = fails
    with pytest.raises(CursorError):
        one.claim()
    one.serving._claiming.read_ddl = lambda _: ()

    assert one.take().rows == 1


def test_a_client_ahead_of_a_rotation_stays_there() -> None:
    """Its cursor lies after events that belong to no transaction: they come again, and it passes over them again."""
    one = Destination()
    one.serving.restore(2, EntryPosition(NEXT, 44))
    one.read(block(transaction(1)))
    one.serving.drop_uncommitted(NEXT)
    header = block([Event(Kind.OTHER, 35)], journal_name=NEXT)
    events = transaction(7)
    one.go_on(header, block(events[:2], start=header.end, journal_name=NEXT))
    assert one.ring.marks(2).after is None

    one.serving.drop_uncommitted(FIRST)
    one.serving.drop_uncommitted(NEXT)
    one.go_on(header, block(events, start=header.end, journal_name=NEXT))

    assert [one.serving.claim(client, 100, 0, "me", 60).rows for client in (1, 2)] == [8, 7]  # type: ignore[union-attr]


class Source:
    """Transactions in several journals, of which some were lost in a crash. `sent` are the rows of the others."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.sound: list[tuple[str, int]] = []
        self.whole: list[list[Block]] = []  # as it was before the crash, and as it is after it, by journal
        self.left: list[list[Block]] = []
        for number in range(1, 4):
            blocks, start = [], 4
            for _ in range(self.draw.randint(1, 4)):
                rows = [self.draw.randint(1, 5) for _ in range(self.draw.randint(1, 6))]
                kind = self.draw.choice([transaction, create_select])
                blocks.append(block(kind(*rows), start=start, journal_name=f"mysql-bin.{number:06}"))
                start = blocks[-1].end
            lost = blocks if self.draw.random() < 0.5 else []
            self.whole.append(blocks)
            self.left.append(blocks[:-1] if lost else blocks)

    def pieces(self, blocks: list[Block]) -> Iterator[Block]:
        """Cut anywhere, as a stream is."""
        for each in blocks:
            cuts = sorted({0, len(each.index), *(self.draw.randint(0, len(each.index)) for _ in range(3))})
            for low, high in pairwise(cuts):
                start = int(each.index["end"][low - 1]) if low else each.start
                yield Block(each.journal_name, start, each.data, each.index[low:high])


@pytest.mark.parametrize("seed", range(200))
def test_any_course_of_things(seed: int) -> None:
    """Connections lost and claims of every size, acked or rolled back: what the source has in the end is acked once,
    in order; of what it lost, no row comes after the place where it was lost."""
    source, one = Source(seed), Destination(capacity=3000)
    acked: list[tuple[str, int]] = []

    def serve() -> None:
        claims = [claim for claim in (one.claim(source.draw.randint(1, 8)) for _ in range(3)) if claim]
        if claims and source.draw.random() < 0.3:
            one.serving.rollback(1, source.draw.choice(claims).batch_id, "me")
        for claim in claims:
            outstanding = one.serving.session.client(1).batches
            if outstanding and outstanding[0].id == claim.batch_id and source.draw.random() < 0.6:
                acked.extend(rows_of(one, claim))
                one.ack(claim)

    def put(pieces: Iterator[Block], stop_after: int | None = None) -> None:
        for number, piece in enumerate(pieces):
            if number == stop_after:
                return
            for fresh in one._trimmer.push(piece):
                while not one.ring.try_put(fresh):
                    one.serving.rollback(1, None, None)
                    claim = one.take(8)
                    acked.extend(rows_of(one, claim))
                    one.ack(claim)
                serve()

    for number in range(3):
        name = f"mysql-bin.{number + 1:06}"
        one.serving.drop_uncommitted(name)
        for _ in range(source.draw.randint(0, 3)):  # connections that are lost, before and after the crash
            put(source.pieces(source.whole[number]), source.draw.randint(0, 8))
            kept = one.ring.log.last_commit
            if kept and kept >= EntryPosition(name, source.whole[number][-1].end):
                source.left[number] = source.whole[number]  # what was committed and read counts as kept
            one.serving.drop_uncommitted(name)
        put(source.pieces(source.left[number]))

    one.serving.drop_uncommitted("mysql-bin.000004")
    one.serving.rollback(1, None, None)
    while claim := one.claim(8):
        acked.extend(rows_of(one, claim))
        one.ack(claim)
    one.serving.ack_empty()  # a last range without rows

    kept = [
        (each.journal_name, int(end))
        for blocks in source.left
        for each in blocks
        for end in each.index["end"][each.index["kind"] == Kind.ROWS]
    ]
    lost = {
        (each.journal_name, int(end))
        for blocks, left in zip(source.whole, source.left, strict=True)
        for each in blocks[len(left) :]
        for end in each.index["end"]
    }
    assert len(set(acked)) == len(acked)
    assert acked == sorted(acked)
    assert [row for row in acked if row not in lost] == kept
    assert one.serving.session.client(1).cursor == one.ring.log.last_commit
