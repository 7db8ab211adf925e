"""The stage that removes rows which come to nothing, and moves the rows of a prepared XA transaction to its XA COMMIT.

Promises: of a group in doubt nothing goes on before its end, and then only what remains of it; the same journal gives
the same events at the same positions, wherever reading began. Holds at most HOLD bytes of the open group, and the rows
in `PreparedGroups`; what is larger, or was forgotten in a restart, is read again from the source.
Rows of tables without transactions are never rolled back: in row format servers write them to their own groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from cdc_core.binlog.block import Block
from cdc_core.binlog.statements import Meaning, meaning
from cdc_core.binlog.xid import Xid, named_in, prepared_in
from cdc_core.errors import DecodeError
from cdc_core.position import EntryPosition
from cdc_core.source.control import DAMAGED_HINT
from cdc_core.stream.group import (
    Group,
    Mask,
    body_at,
    coalesce,
    join,
    part,
    prepared_mask,
    rolled_back,
    row_mask,
    statement_at,
    statements,
)
from cdc_core.stream.group_scan import Decision, decisive_events, new_state
from cdc_core.stream.prepared_groups import PreparedGroups
from cdc_core.stream.reread import Reread, remaining_events, remaining_rows
from cdc_core.stream.splice import splice

HOLD = 4 << 20  # bytes of the open group's events
PIECE = 1 << 18  # bytes of a block that leaves, at least

FindPrepared = Callable[[Xid, EntryPosition], Group]


class Settler:
    """`reread` reads a group's events again. `find_prepared` finds the group that an XA COMMIT at a position commits.
    Both may take long, and raise."""

    def __init__(self, reread: Reread, find_prepared: FindPrepared) -> None:
        self._reread, self._find_prepared = reread, find_prepared
        self._prepared = PreparedGroups()
        self.reset()

    def __repr__(self) -> str:
        return f"<Settler held={len(self._held)} {self._prepared!r}>"

    def reset(self) -> None:
        """Forgets the open group. Prepared groups stay known."""
        self._state = new_state()
        self._held: list[Block] = []  # the open group, while it is in doubt
        self._large: Block | None = None  # that group's first event, when the group is too large to be held
        self._rolls_back = -1  # the start of the last group with a ROLLBACK TO a savepoint
        self._end: int | None = None  # of the last event that went on

    def push(self, block: Block) -> Iterator[Block]:
        """Raises DecodeError for rows that can no longer be read, after the blocks before them."""
        for piece in coalesce(self._settle(block, decisive_events(block, self._state)), PIECE):
            start = piece.start if self._end is None else self._end  # what was left out must not leave a gap
            self._end = piece.end
            yield replace(piece, start=start)

    def _settle(self, block: Block, decisive: Any) -> Iterator[Block]:
        skipped, open_at = 0, self._open_at(len(block.index))
        if self._large is not None:
            last = self._last_of_large(block, decisive)
            if last is None:
                return
            skipped = int(last["row"]) + 1
            yield from self._end_of_large(block, last)
            decisive = decisive[decisive["row"] >= skipped]
        if open_at < 0 and not len(decisive):
            self._hold(block)
            return
        shift = sum(len(piece.index) for piece in self._held) - skipped
        whole = join([*self._held, part(block, skipped, len(block.index))])
        self._held, low = [], 0
        keep = np.ones(len(whole.index), np.bool_) if len(decisive) else None
        for one in decisive:
            head, row = (int(one["head"]) + shift if one["head"] >= 0 else 0), int(one["row"]) + shift
            assert keep is not None
            committed = self._decide(whole, one, head, row, keep)
            if committed is not None:
                yield part(whole, low, row, keep)
                yield from self._prepared_rows(whole, committed, row)
                low = row
        tail = open_at + shift if open_at >= 0 else 0
        yield part(whole, low, tail, keep)
        self._hold(part(whole, tail, len(whole.index), keep))

    def _open_at(self, count: int) -> int:
        """The row of a block of `count` events where the open group in doubt begins: -1 when it began before the
        block, `count` when there is none."""
        state = self._state[0]
        return int(state["head"]) if state["open"] and state["doubt"] else count

    def _last_of_large(self, block: Block, decisive: Any) -> Any:
        """The decisive event that ends the large group, None while the group goes on."""
        for one in decisive[decisive["head"] < 0]:
            is_statement = one["decision"] == Decision.STATEMENT
            what = meaning(statement_at(block, int(one["row"]))) if is_statement else Meaning.COMMIT
            if what in (Meaning.COMMIT, Meaning.ROLLBACK):
                return one
            if what is Meaning.ROLLBACK_TO:
                self._rolls_back = int(one["start"])
        state = self._state[0]
        if state["head"] < 0:
            return None
        raise DecodeError(
            "a transaction begins where the one before has not ended",
            place=f"{block.journal_name}:{int(state['start'])}",
            hint=DAMAGED_HINT,
        )

    def _hold(self, piece: Block) -> None:
        if not len(piece.index):
            return
        self._held.append(piece)
        if self._state[0]["size"] > HOLD:
            first = part(self._held[0], 0, 1)
            self._large, self._held = replace(first, data=first.data.copy()), []

    def _decide(self, block: Block, one: Any, head: int, row: int, keep: Mask) -> Xid | None:
        """Removes from `keep` what a decisive event takes back. The XA transaction that it commits, if any."""
        if one["decision"] == Decision.PREPARE:
            self._prepare(block, one, head, row, keep)
        elif one["decision"] == Decision.STATEMENT:
            text = statement_at(block, row)
            what = meaning(text)
            if what is Meaning.ROLLBACK and one["doubt"]:
                keep[head:row] &= ~row_mask(block.index[head:row])
            elif what is Meaning.ROLLBACK_TO and one["doubt"]:
                self._rolls_back = int(one["start"])
                for low, high in rolled_back(statements(block, head, row + 1), block.place(row)):
                    keep[low:high] &= ~row_mask(block.index[low:high])
                keep[row] = False  # it is done: the annotator stops at a ROLLBACK TO
            elif what is Meaning.XA_ROLLBACK:
                self._prepared.remove(named_in(text, block.place(row)))
            elif what is Meaning.XA_COMMIT:
                return named_in(text, block.place(row))
        return None

    def _prepare(self, block: Block, one: Any, head: int, row: int, keep: Mask) -> None:
        """Sets a prepared group's rows aside."""
        xid, in_one_phase = prepared_in(body_at(block, row), block.place(row))
        if in_one_phase:
            return
        kept = part(block, head, row, keep)
        kept = part(kept, 0, len(kept.index), prepared_mask(kept))
        own = replace(kept, data=kept.data.copy())
        self._prepared.add(xid, self._group(block, one, row, own))
        keep[head:row] &= ~row_mask(block.index[head:row])

    def _group(self, block: Block, one: Any, row: int, rows: Block | None = None) -> Group:
        start = int(one["start"])
        return Group(block.journal_name, start, _end(block, row), self._rolls_back == start, rows)

    def _prepared_rows(self, block: Block, xid: Xid, row: int) -> Iterator[Block]:
        """The rows of a prepared group, to go before the XA COMMIT at `row`."""
        before = _end(block, row - 1) if row else block.start
        group = self._prepared.get(xid) or self._find_prepared(xid, EntryPosition(block.journal_name, before))
        rows = iter([group.rows]) if group.rows is not None else remaining_rows(group, xid, self._reread)
        yield from splice(rows, group, block.journal_name, before, _end(block, row))
        self._prepared.remove(xid)

    def _end_of_large(self, block: Block, one: Any) -> Iterator[Block]:
        """What remains of a group that was not held, now that its last event is here."""
        assert self._large is not None
        row, first = int(one["row"]), self._large
        group = self._group(block, one, row)
        self._large = None
        remains = one["decision"] == Decision.END
        if one["decision"] == Decision.PREPARE:
            xid, remains = prepared_in(body_at(block, row), block.place(row))
            if not remains:
                self._prepared.add(xid, group)
        if remains:
            yield from remaining_events(group, self._reread)
        else:
            yield join([first, part(block, row, row + 1)])


def _end(block: Block, row: int) -> int:
    return int(block.index["end"][row])
