"""The stage between expand and annotate: leaves out rows that come to nothing, and puts those of a prepared XA
transaction where its XA COMMIT is.

Promises: of a group in doubt nothing goes on before its end, and then what remains of it; the same journal gives the
same events at the same positions, wherever reading began. Holds at most HOLD bytes of one group, and the rows that
`Prepared` keeps: what is larger, or was forgotten with a restart, is read again from the source.
Rows of tables without transactions are never taken back: in row format servers write them to groups of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from cdc_core.binlog import notes
from cdc_core.binlog.group import Group, Keep, body_of, is_rows, join, merged, part, text_of, texts, undone
from cdc_core.binlog.prepared import Prepared
from cdc_core.binlog.remains import remains, rows_alone
from cdc_core.binlog.splice import splice
from cdc_core.binlog.statements import Meaning, meaning
from cdc_core.binlog.xid import Xid, named_in, prepared_in
from cdc_core.errors import DecodeError
from cdc_core.position import EntryPosition
from cdc_core.source.block import Block
from cdc_core.source.control import DAMAGED_HINT

HOLD = 4 << 20  # bytes of a group's events
PIECE = 1 << 18

Again = Callable[[Group], Iterator[Block]]
Find = Callable[[Xid, EntryPosition], Group]


class Settler:
    """`again` reads a group's events once more; `find` looks for what XA COMMIT at a position commits. Both may take
    long, and raise."""

    def __init__(self, again: Again, find: Find) -> None:
        self._again, self._find = again, find
        self._prepared = Prepared()
        self.reset()

    def __repr__(self) -> str:
        return f"<Settler held={len(self._held)} {self._prepared!r}>"

    def reset(self) -> None:
        """A new file or connection: no group is open. Prepared ones stay known."""
        self._state = np.zeros(notes.PLACES, np.int64)
        self._held: list[Block] = []  # of the open group, while it is in doubt
        self._large: Block | None = None  # that group's first event, when it is too large to be held
        self._undone = -1  # where the last group starts that goes back to a savepoint
        self._end: int | None = None  # of the last event that went on

    def settle(self, block: Block) -> Iterator[Block]:
        """Raises DecodeError for rows that cannot be had any more, after what comes before them."""
        for piece in merged(self._settled(block, notes.take(block, self._state)), PIECE):
            start = piece.start if self._end is None else self._end  # what was left out must not leave a gap
            self._end = piece.end
            yield replace(piece, start=start)

    def _settled(self, block: Block, taken: Any) -> Iterator[Block]:
        skipped, open_at = 0, self._open_at(len(block.index))
        if self._large is not None:
            last = self._last_of_large(block, taken)
            if last is None:
                return
            skipped = int(last["row"]) + 1
            yield from self._end_of_large(block, last)
            taken = taken[taken["row"] >= skipped]
        if open_at < 0 and not len(taken):
            self._hold(block)
            return
        shift = sum(len(piece.index) for piece in self._held) - skipped
        whole = join([*self._held, part(block, skipped, len(block.index))])
        self._held, low = [], 0
        keep = np.ones(len(whole.index), np.bool_) if len(taken) else None
        for note in taken:
            head, row = (int(note["head"]) + shift if note["head"] >= 0 else 0), int(note["row"]) + shift
            assert keep is not None
            name = self._note(whole, note, head, row, keep)
            if name is not None:
                yield part(whole, low, row, keep)
                yield from self._committed(whole, name, row)
                low = row
        tail = open_at + shift if open_at >= 0 else 0
        yield part(whole, low, tail, keep)
        self._hold(part(whole, tail, len(whole.index), keep))

    def _open_at(self, count: int) -> int:
        """Where a group in doubt starts that a block of `count` events leaves open: -1 for one from before, `count`
        for none."""
        in_doubt = self._state[notes.OPEN] and self._state[notes.DOUBT]
        return int(self._state[notes.HEAD]) if in_doubt else count

    def _last_of_large(self, block: Block, taken: Any) -> Any:
        """The note of its last event, None while it goes on."""
        carried = taken[taken["head"] < 0]
        for note in carried:
            what = meaning(text_of(block, int(note["row"]))) if note["code"] == notes.TEXT else Meaning.COMMIT
            if what in (Meaning.COMMIT, Meaning.ROLLBACK):
                return note
            if what is Meaning.ROLLBACK_TO:
                self._undone = int(note["start"])
        if self._state[notes.HEAD] < 0:
            return None
        raise DecodeError(
            "a transaction begins where the one before has not ended",
            place=f"{block.journal_name}:{int(self._state[notes.START])}",
            hint=DAMAGED_HINT,
        )

    def _hold(self, piece: Block) -> None:
        if not len(piece.index):
            return
        self._held.append(piece)
        if self._state[notes.SIZE] > HOLD:
            first = part(self._held[0], 0, 1)
            self._large, self._held = replace(first, data=first.data.copy()), []

    def _note(self, block: Block, note: Any, head: int, row: int, keep: Keep) -> Xid | None:
        """Acts on one note; the XA transaction that is committed there, if any."""
        if note["code"] == notes.PREPARE:
            self._prepare(block, note, head, row, keep)
        elif note["code"] == notes.TEXT:
            text = text_of(block, row)
            what = meaning(text)
            if what is Meaning.ROLLBACK and note["doubt"]:
                keep[head:row] &= ~is_rows(block.index[head:row])
            elif what is Meaning.ROLLBACK_TO and note["doubt"]:
                self._undone = int(note["start"])
                for low, high in undone(texts(block, head, row + 1), _place(block, row)):
                    keep[low:high] &= ~is_rows(block.index[low:high])
                keep[row] = False  # done with: the annotator stops at one that nobody has seen to
            elif what is Meaning.XA_ROLLBACK:
                self._prepared.forget(named_in(text, _place(block, row)))
            elif what is Meaning.XA_COMMIT:
                return named_in(text, _place(block, row))
        return None

    def _prepare(self, block: Block, note: Any, head: int, row: int, keep: Keep) -> None:
        name, in_one_phase = prepared_in(body_of(block, row), _place(block, row))
        if in_one_phase:
            return
        rows = is_rows(block.index)
        kept = part(block, head, row, keep & rows)
        own = replace(kept, data=kept.data.copy())
        self._prepared.add(name, self._group(block, note, row, own))
        keep[head:row] &= ~rows[head:row]

    def _group(self, block: Block, note: Any, row: int, rows: Block | None = None) -> Group:
        start = int(note["start"])
        return Group(block.journal_name, start, _end(block, row), self._undone == start, rows)

    def _committed(self, block: Block, name: Xid, row: int) -> Iterator[Block]:
        """The rows of a prepared group, before the XA COMMIT at `row`."""
        before = _end(block, row - 1) if row else block.start
        group = self._prepared.get(name) or self._find(name, EntryPosition(block.journal_name, before))
        rows = iter([group.rows]) if group.rows is not None else rows_alone(group, name, self._again)
        yield from splice(rows, group, block.journal_name, before, _end(block, row))
        self._prepared.forget(name)

    def _end_of_large(self, block: Block, note: Any) -> Iterator[Block]:
        """What becomes of a group that was not held, now that its last event is here."""
        assert self._large is not None
        row, first = int(note["row"]), self._large
        group = self._group(block, note, row)
        self._large = None
        stays = note["code"] == notes.END
        if note["code"] == notes.PREPARE:
            name, stays = prepared_in(body_of(block, row), _place(block, row))
            if not stays:
                self._prepared.add(name, group)
        if stays:
            yield from remains(group, self._again)
        else:
            yield join([first, part(block, row, row + 1)])


def _end(block: Block, row: int) -> int:
    return int(block.index["end"][row])


def _place(block: Block, row: int) -> str:
    return f"{block.journal_name}:{_end(block, row - 1) if row else block.start}"
