"""Ring and sessions against a model in plain Python: nothing is lost, nothing comes twice, and the order holds.

The model is a list of rows and DDL statements by transaction, and for each client the number of transactions acked and
what is outstanding.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cdc_core.binlog.block import ENDS, STATEMENTS, BlockSlice, Kind
from cdc_core.contract.claim import Claim
from cdc_core.errors import SessionError
from cdc_core.meta.epoch import Epoch
from cdc_core.position import EntryPosition
from cdc_core.schema.table import TableSchema
from cdc_core.session.session import Session
from cdc_core.store.ring import Ring
from tests.support.doubles import Clock, Event, Tables, block, create_select, ddl, table, transaction

CLIENTS = (1, 2)
READS_ENTRIES = 2
LEASE = 10.0
transactions = st.lists(st.lists(st.integers(1, 9), max_size=6), min_size=1, max_size=5)
client_ids = st.sampled_from(CLIENTS)


ITEMS = (Kind.ROWS, *STATEMENTS)


def items(slices: list[BlockSlice]) -> list[int]:
    """The end offsets of the rows events and DDL statements in a range, which identify them."""
    parts = [s.block.index[s.low : s.high] for s in slices]
    return [int(end) for part in parts for end in part["end"][np.isin(part["kind"], ITEMS)]]


class Sessions(RuleBasedStateMachine):
    """Events are named by their end offset. `log` has all rows events put and, with 0 rows, all DDL statements; `names`
    by end the table of the rows, or those that the statement is on; `commits` the ends of all transactions."""

    @initialize(capacity=st.sampled_from([600, 2500, 10_000]), isolates=st.booleans())
    def start(self, capacity: int, isolates: bool) -> None:
        both = TableSchema.of_statement([("shop", "orders"), ("shop", "items")])
        self.tables = Tables([table(), table(), table("shop.items"), table("shop.items", 2), both])
        self.ring = Ring(self.tables.get, capacity, merge_bytes=2000, isolates_ddl=isolates)
        self.session = Session("d", self.ring, self.tables.get, first_batch=1000)
        self.clock = Clock()
        self.end, self.pending = 4, list[Event]()
        self.log: list[tuple[int, int]] = []  # (end, rows)
        self.names: dict[int, set[str]] = {}
        self.commits: list[int] = []
        self.acked: dict[int, list[int]] = defaultdict(list)
        self.out: dict[int, list[tuple[Claim, list[int]]]] = defaultdict(list)
        self.seen_ids: list[int] = []
        for client in CLIENTS:
            self.session.subscribe(client, EntryPosition("mysql-bin.000001", 4), epoch=Epoch())

    @rule(rows=transactions, schema=st.integers(0, 3), filtered=st.booleans())
    def write(self, rows: list[list[int]], schema: int, filtered: bool) -> None:
        """The source commits some transactions, the first perhaps filtered out; they are put in pieces later."""
        for number, events in enumerate(rows):
            self.pending += transaction(*events, schema=schema, filtered=filtered and number == 0)

    @rule(count=st.integers(1, 3), rows=st.lists(st.integers(1, 9), max_size=4), inside=st.booleans())
    def define(self, count: int, rows: list[int], inside: bool) -> None:
        """The source runs DDL statements, then perhaps a CREATE ... SELECT."""
        for number in range(count):
            self.pending += ddl(shown=number % 2 == 0)
        self.pending += create_select(*rows) if inside else []

    @rule(turns=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.booleans()), min_size=1, max_size=6))
    def take_turns(self, turns: list[tuple[int, int, bool]]) -> None:
        """The source runs statements on one table or two, before rows of it or after them, or without any."""
        for schema, rows, before in turns:
            changed = transaction(rows, schema=min(schema, 3)) if rows else []
            self.pending += ddl(on=schema) + changed if before else changed + ddl(on=schema)

    @precondition(lambda self: self.pending)
    @rule(count=st.integers(1, 40))
    def put(self, count: int) -> None:
        """The next events come as one block, if there is room."""
        events = self.pending[:count]
        new = block(events, start=self.end)
        if self.ring.try_put(new):
            del self.pending[:count]
            for event, end in zip(events, new.index["end"].tolist(), strict=True):
                if event.kind in ITEMS:
                    self.log.append((end, event.rows))
                    self.names[end] = {*self.tables.get(event.schema).all_names} if event.schema >= 0 else set()
                if event.kind in ENDS:
                    self.commits.append(end)
            self.end = new.end

    @rule(client=client_ids, steps=st.lists(st.integers(0, 12), min_size=1, max_size=8))
    def work(self, client: int, steps: list[int]) -> None:
        """A claimer works: 0 to 3 acks its first batch, any other number claims so many rows."""
        for step in steps:
            self.claim(client, step) if step > 3 else self.ack_first(client)

    def claim(self, client: int, max_rows: int) -> None:
        claim = self.session.claim(
            client, max_rows, f"owner {client}", LEASE, self.clock(), entries=client == READS_ENTRIES
        )
        self._expired(client)
        if claim is None:
            return
        slices = self.session.slices(client, claim.batch_id)
        assert slices is not None
        ends = items(slices)
        before = len(self.acked[client]) + sum(len(events) for _, events in self.out[client])
        expected = self.log[before : before + len(ends)]

        assert ends == [end for end, _ in expected]
        assert claim.rows == sum(rows for _, rows in expected) == sum(rows for _, rows in claim.execute_times)
        sizes = [rows for _, rows in expected]
        assert claim.rows <= max_rows or sizes.count(0) == len(sizes) - 1
        if client == READS_ENTRIES:
            assert sizes == [0] * sizes.count(0) + [rows for rows in sizes if rows]  # all statements before all rows
        for at, (end, rows) in enumerate(expected):
            before_it = {name for other, changed in expected[:at] if changed for name in self.names[other]}
            assert rows or not before_it or (self.names[end] and not self.names[end] & before_it)
        if self.ring.isolates_ddl:
            kinds = [kind for part in slices for kind in part.index["kind"].tolist()]
            alone = [Kind.DDL, Kind.DDL_UNSHOWN] if client == READS_ENTRIES else [Kind.DDL]
            assert sum(map(kinds.count, alone)) <= 1
            assert not claim.rows or not set(alone) & set(kinds)
        assert claim.partial == (claim.end.position not in self.commits)
        assert claim.batch_id not in self.seen_ids
        names = {(t.name, t.schema.version) for t in claim.tables}
        assert len(names) == len({name for name, _ in names})
        assert claim.transactions == sum(claim.start.position < c <= claim.end.position for c in self.commits)
        self.seen_ids.append(claim.batch_id)
        self.out[client].append((claim, ends))

    def ack_first(self, client: int) -> None:
        if not self.out[client]:
            return
        claim, ends = self.out[client].pop(0)
        self._finish(client, self.session.begin_ack(client, claim.batch_id, claim.owner).cursor is not None, claim)
        self.acked[client] += ends

    def _finish(self, client: int, moves: bool, claim: Claim) -> None:
        """The two steps of an ack; the first is given up once, as if ZooKeeper were away."""
        state = self.session.client(client)
        state.busy = False
        step = self.session.begin_ack(client, claim.batch_id, claim.owner)
        assert self.session.claim(client, 5, "x", LEASE, self.clock()) is None
        before = state.cursor
        cursor = self.session.finish(step)
        assert cursor is not None
        assert before is not None
        assert cursor >= before
        assert moves == (cursor != before)
        assert cursor.position == 4 or cursor.position in self.commits

    @rule(client=client_ids)
    def ack_wrongly(self, client: int) -> None:
        """An ack out of order, by a stranger, or of a batch that is gone is refused and names the batch expected."""
        ids = [claim.batch_id for claim, _ in self.out[client]]
        for wrong in {*ids[1:], 999, *[i for i in self.seen_ids if i not in ids][-2:]}:
            expected = f"the next to ack is {ids[0]}" if ids else "none is outstanding"
            with pytest.raises(SessionError, match=expected):
                self.session.begin_ack(client, wrong, f"owner {client}")

    @rule(client=client_ids, data=st.data())
    def rollback(self, client: int, data: st.DataObject) -> None:
        """Rolls back from one batch on, or all."""
        ids = [claim.batch_id for claim, _ in self.out[client]]
        chosen = data.draw(st.sampled_from([None, *ids]))
        expected = ids if chosen is None else ids[ids.index(chosen) :]

        assert self.session.rollback(client, chosen, None) == expected

        del self.out[client][len(ids) - len(expected) :]

    @rule(client=client_ids)
    def skip(self, client: int) -> None:
        """Events are passed only when nothing is outstanding; rows and DDL statements are never passed, and by a reader
        of entries none that entries show."""
        step = self.session.begin_skip(client, entries=client == READS_ENTRIES)
        if step is not None:
            assert not self.out[client]
            passed = self.ring.log.slices(step.range.start.sequence, step.range.end.sequence)
            assert not items(passed)
            kinds = {kind for part in passed for kind in part.index["kind"].tolist()}
            assert client != READS_ENTRIES or Kind.DDL_UNSHOWN not in kinds
            self.session.finish(step)

    @rule(seconds=st.sampled_from([1.0, 4.0, 11.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.turn(seconds)

    @rule(client=client_ids)
    def renew(self, client: int) -> None:
        if self.out[client]:
            claim, _ = self.out[client][0]
            deadline = self.session.renew(client, claim.batch_id, claim.owner, LEASE, self.clock())
            assert deadline == self.clock() + LEASE

    def _expired(self, client: int) -> None:
        """What outlived its lease came back, with everything after it."""
        still = {batch.id for batch in self.session.client(client).batches}
        self.out[client] = [(claim, ends) for claim, ends in self.out[client] if claim.batch_id in still]

    @invariant()
    def sequences_are_in_order(self) -> None:
        for marks in self.ring.clients.values():
            assert marks.ack <= marks.get <= self.ring.put

    @invariant()
    def capacity_holds(self) -> None:
        one_segment = len(self.ring.log.parts.all) <= 1
        assert one_segment or self.ring.log.nbytes <= self.ring.capacity_bytes

    def teardown(self) -> None:
        """Everything put comes out: roll back all, then drain both clients while the rest is put."""
        if not hasattr(self, "ring"):
            return
        for _ in range(10_000):
            if not self.pending and all(len(self.acked[c]) == len(self.log) for c in CLIENTS):
                break
            self.put(5) if self.pending else None
            for client in CLIENTS:
                self.session.rollback(client, None, None)
                self.out[client].clear()
                self.skip(client)
                self.claim(client, 20)
                self.ack_first(client)
        assert not self.pending
        for client in CLIENTS:
            assert self.acked[client] == [end for end, _ in self.log]
        assert int(np.sum([rows for _, rows in self.log])) == self.ring.put.rows
        assert [rows for _, rows in self.log].count(0) == self.ring.put.statements


TestSessions = Sessions.TestCase
TestSessions.settings = settings(max_examples=80, stateful_step_count=50, deadline=None)
